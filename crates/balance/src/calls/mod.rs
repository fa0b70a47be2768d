//! The call table: SARA, the session-aware request assignment of Jiang et al. (figure 4), with every ending that the
//! figure leaves out.
//!
//! An entry is found by a keyed 128-bit hash of its Call-ID. It is *active* while its call or request is in progress,
//! *expired* afterwards, so that strays and second tries with credentials still find their destination, and gone when
//! its deadline has passed. Load follows the entries' states (`book`), and an incremental `audit` sums the entries up
//! again to see whether both agree.
//!
//! Left out: dialogs. Several dialogs of one Call-ID (a fork further up) share an entry, because they must share a
//! destination.

mod audit;
mod book;
mod call;
mod progress;

use tandem_base::{Full, HashKey, Instant, Key, KeyTable, Pool, Wheel};
use tandem_sip::Method;

pub use book::{Ledger, Weight};
pub use call::{Call, Cause, Ending, Place, State, Times};

pub(crate) use audit::Audit;
use call::Open;

/// The first request of a call, or a request outside calls.
#[derive(Clone, Copy, Debug)]
pub struct First {
    /// Where it goes.
    pub place: Place,
    /// Its method.
    pub method: Method,
    /// Its CSeq number.
    pub cseq: u32,
    /// Twenty bits of a hash of the caller's tag.
    pub caller: u32,
    /// How many calls were ahead of it.
    pub ahead: u64,
    /// Why it goes there.
    pub cause: Cause,
    /// Whether later messages come by us.
    pub stays: bool,
}

/// A request as the call table sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// Its CSeq number.
    pub cseq: u32,
    /// Whether it goes to the destination; else it comes from there.
    pub inward: bool,
    /// Whether it has a To tag.
    pub in_dialog: bool,
}

/// A response as the call table sees it.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// Its CSeq method.
    pub method: Method,
    /// Its CSeq number.
    pub cseq: u32,
    /// Its status code.
    pub status: u16,
    /// Whether the destination answers; else its peer does.
    pub inward: bool,
}

/// The call table of one shard.
pub struct Calls {
    entries: Pool<Call>,
    index: KeyTable,
    key: HashKey,
    timers: Wheel<Key>,
    times: Times,
    expired: usize,
    calls: usize,
    endings: [u64; Ending::ALL.len()],
    audit: Audit,
    /// Copies of first requests whose entry left or moved on; the balancer lets them go.
    loose: Vec<Key>,
    /// A removed destination whose calls are being ended, and how far.
    removing: Vec<(Place, u32)>,
    /// Destinations that went down, and how far the table was gone through for what rings there.
    fallen: Vec<(Place, u32)>,
    slots: u32,
}

impl Calls {
    /// An empty table for at most `entries_max` entries; `key` is secret.
    #[must_use]
    pub fn new(key: HashKey, entries_max: u32, times: Times) -> Self {
        Self {
            entries: Pool::new(entries_max),
            index: KeyTable::new(),
            key,
            timers: Wheel::new(),
            times,
            expired: 0,
            calls: 0,
            endings: [0; Ending::ALL.len()],
            audit: Audit::default(),
            loose: Vec::new(),
            removing: Vec::new(),
            fallen: Vec::new(),
            slots: 0,
        }
    }

    /// Other times for entries from now on.
    pub fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// The hash by which a Call-ID is found.
    #[must_use]
    pub fn hash(&self, call_id: &[u8]) -> u128 {
        self.key.hash128(&[call_id])
    }

    /// The entry of a Call-ID's hash.
    #[must_use]
    pub fn find(&self, hash: u128) -> Option<Key> {
        self.index.get(hash)
    }

    /// One entry.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&Call> {
        self.entries.get(key)
    }

    /// Entries, expired ones too.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Expired entries.
    #[must_use]
    pub const fn expired(&self) -> usize {
        self.expired
    }

    /// Calls in progress.
    #[must_use]
    pub const fn calls(&self) -> usize {
        self.calls
    }

    /// How many entries there may be.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Calls that ended, by [`Ending::ALL`].
    #[must_use]
    pub const fn endings(&self) -> &[u64; Ending::ALL.len()] {
        &self.endings
    }

    /// Every entry.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Call)> {
        self.entries.iter()
    }

    /// Enters a call, or a request outside calls.
    ///
    /// # Errors
    ///
    /// [`Full`]: the caller answers 503.
    pub fn begin(
        &mut self,
        now: Instant,
        hash: u128,
        first: &First,
        ledger: &mut impl Ledger,
    ) -> Result<Key, Full> {
        let low = u64::try_from(hash & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(hash >> 64).unwrap_or(0);
        let call = Call {
            hash: [low, high],
            place: first.place,
            state: State::Away,
            cause: first.cause,
            challenged: false,
            cancelled: false,
            ahead: u16::try_from(first.ahead).unwrap_or(u16::MAX),
            caller: first.caller,
            since_secs: u32::try_from(now.as_secs()).unwrap_or(u32::MAX),
            invite: Open::none(Method::Invite),
            other: Open::none(Method::Other),
            deadline: now,
            timer: None,
            copy: None,
        };
        let key = self.entries.insert(call)?;
        self.slots = self.slots.max(key.slot() + 1);
        self.index.insert(hash, key);
        self.expired += 1;
        self.restart(now, key, first, ledger);
        Ok(key)
    }

    /// Keeps, or lets go, the copy of an entry's first request.
    pub(crate) fn set_copy(&mut self, key: Key, copy: Option<Key>) {
        if let Some(call) = self.entries.get_mut(key) {
            call.copy = copy;
        }
    }

    /// A copy that nobody needs any more.
    pub(crate) fn pop_loose(&mut self) -> Option<Key> {
        self.loose.pop()
    }

    /// When [`Calls::handle_timeout`] has work, at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }
}

impl core::fmt::Debug for Calls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Calls({} of {}, {} expired)", self.len(), self.capacity(), self.expired)
    }
}

#[cfg(test)]
mod tests;
