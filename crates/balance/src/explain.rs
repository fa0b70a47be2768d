//! Why a call went where it went: the last picks, kept in a ring.

use tandem_base::Instant;
use tandem_sip::Method;

use crate::{DestinationId, Load, PoolSettings, Slot};

const PICKS: usize = 4096;

/// One pick, as it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Keyed hash of the Call-ID.
    pub(crate) call: u64,
    pub(crate) at: Instant,
    pub(crate) slot: Slot,
    pub(crate) tried: u8,
    pub(crate) method: Method,
    pub(crate) load: Load,
    pub(crate) eligible: u16,
    pub(crate) generation: u64,
}

/// The last 4,096 picks; about 256 KiB once full.
#[derive(Debug)]
pub(crate) struct Trail {
    ring: Vec<Record>,
    next: usize,
}

impl Trail {
    pub(crate) const fn new() -> Self {
        Self { ring: Vec::new(), next: 0 }
    }

    pub(crate) fn push(&mut self, record: Record) {
        if let Some(place) = self.ring.get_mut(self.next) {
            *place = record;
        } else {
            self.ring.push(record);
        }
        self.next = (self.next + 1) % PICKS;
    }

    /// The newest pick for a call.
    pub(crate) fn find(&self, call: u64) -> Option<&Record> {
        let (newer, older) = self.ring.split_at_checked(self.next).unwrap_or((&self.ring, &[]));
        newer.iter().rev().chain(older.iter().rev()).find(|record| record.call == call)
    }
}

/// An explanation for operators; its `Display` is one sentence.
#[derive(Clone, PartialEq, Debug)]
pub struct Why {
    /// Who got the call.
    pub destination: Option<DestinationId>,
    /// When.
    pub at: Instant,
    /// Of which request.
    pub method: Method,
    /// By which policy.
    pub policy: String,
    /// What the destination had to do just before.
    pub load: Load,
    /// How many destinations were eligible, in all tiers.
    pub eligible: u16,
    /// How many had failed the request before.
    pub tried: u8,
    /// The settings' generation.
    pub generation: u64,
    /// Its tier, in the settings in force.
    pub tier: u8,
}

impl Why {
    pub(crate) fn new(record: &Record, settings: &PoolSettings) -> Self {
        let destination = settings.destination(record.slot);
        Self {
            destination: destination.map(|destination| destination.id.clone()),
            at: record.at,
            method: record.method,
            policy: settings.policy().name.clone(),
            load: record.load,
            eligible: record.eligible,
            tried: record.tried,
            generation: record.generation,
            tier: destination.map_or(0, |destination| destination.tier),
        }
    }
}

impl core::fmt::Display for Why {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let id = self.destination.as_ref().map_or("a destination that is gone", DestinationId::as_str);
        write!(
            f,
            "{} was chosen by {} for the {} at {:?}, from {} that were eligible; tier {}, {} calls and {} \
             unanswered requests ({}.{:03} of work) at that moment",
            id,
            self.policy,
            self.method,
            self.at,
            self.eligible,
            self.tier,
            self.load.calls,
            self.load.transactions,
            self.load.work / 1000,
            self.load.work % 1000,
        )?;
        match self.tried {
            0 => Ok(()),
            tried => write!(f, "; {tried} others had failed the request before"),
        }
    }
}
