//! The pools of one shard with what the balancer keeps beside each, and the books of the call table.

use core::time::Duration;
use std::sync::Arc;

use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::Method;

use crate::calls::{Ledger, Place, Weight};
use crate::config::PoolConfig;
use crate::occupancy::Occupancy;
use crate::token::DestinationTag;
use crate::{Destination, Outcome, Pool, Slot, Work};

/// Hundredths of a second try that a pool may save up.
const BUDGET_MAX: u32 = 10_000;
/// What a new pool starts with: ten second tries.
const BUDGET_START: u32 = 1_000;
/// One second try.
const TRY: u32 = 100;

/// One pool.
pub(crate) struct Line {
    pub(crate) pool: Pool,
    pub(crate) config: PoolConfig,
    /// What each slot's destination is called in tokens and branches.
    tags: Vec<DestinationTag>,
    pub(crate) occupancy: Vec<Occupancy>,
    budget: u32,
}

impl Line {
    pub(crate) fn new(config: PoolConfig, shard: usize, key: HashKey, rng: Rng) -> Self {
        let pool = Pool::new(Arc::clone(&config.settings), Arc::clone(&config.board), shard, key, rng);
        let mut line = Self { pool, config, tags: Vec::new(), occupancy: Vec::new(), budget: BUDGET_START };
        line.name_slots();
        line
    }

    fn name_slots(&mut self) {
        let settings = self.pool.settings();
        self.tags = vec![DestinationTag::NONE; settings.slots()];
        for (slot, destination) in settings.iter() {
            if let Some(tag) = self.tags.get_mut(slot.index()) {
                *tag = DestinationTag::new(settings.name(), destination.id.as_str());
            }
        }
        self.occupancy.resize(settings.slots(), Occupancy::default());
    }

    /// Takes over new settings; the slots whose destination is gone come back.
    pub(crate) fn reconfigure(&mut self, now: Instant, config: PoolConfig) -> Vec<Slot> {
        let gone = self.pool.reconfigure(now, Arc::clone(&config.settings));
        self.config = config;
        self.name_slots();
        for slot in &gone {
            if let Some(occupancy) = self.occupancy.get_mut(slot.index()) {
                *occupancy = Occupancy::default();
            }
        }
        gone
    }

    pub(crate) fn tag(&self, slot: Slot) -> DestinationTag {
        self.tags.get(slot.index()).copied().unwrap_or(DestinationTag::NONE)
    }

    /// A first request was sent: that earns a fraction of a second try.
    pub(crate) fn earn(&mut self) {
        self.budget = (self.budget + self.config.failover.budget_percent).min(BUDGET_MAX);
    }

    /// Spends a second try, if there is one.
    pub(crate) fn spend(&mut self) -> bool {
        let rest = self.budget.checked_sub(TRY);
        self.budget = rest.unwrap_or(self.budget);
        rest.is_some()
    }
}

/// All pools, those that left the configuration too: their calls go on.
pub(crate) struct Lines {
    pub(crate) all: Vec<Line>,
    /// The turn's time, for what the call table tells.
    pub(crate) now: Instant,
}

impl Lines {
    pub(crate) fn get(&self, pool: u16) -> Option<&Line> {
        self.all.get(usize::from(pool))
    }

    pub(crate) fn get_mut(&mut self, pool: u16) -> Option<&mut Line> {
        self.all.get_mut(usize::from(pool))
    }

    pub(crate) fn destination(&self, place: Place) -> Option<&Destination> {
        self.get(place.pool)?.pool.settings().destination(place.slot)
    }

    pub(crate) fn tag(&self, place: Place) -> DestinationTag {
        self.get(place.pool).map_or(DestinationTag::NONE, |line| line.tag(place.slot))
    }

    /// Every destination with its place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &Destination)> {
        (0_u16..).zip(&self.all).flat_map(|(pool, line)| {
            line.pool.settings().iter().map(move |(slot, destination)| (Place { pool, slot }, destination))
        })
    }

    pub(crate) fn report(&mut self, place: Place, outcome: Outcome) {
        let now = self.now;
        if let Some(line) = self.get_mut(place.pool) {
            line.pool.report(now, place.slot, outcome);
        }
    }

    /// What this shard has booked on a place.
    pub(crate) fn booked(&self, place: Place) -> Option<Weight> {
        let load = self.get(place.pool)?.pool.own_load(place.slot);
        Some(Weight { calls: u64::from(load.calls), requests: u64::from(load.transactions), work: load.work })
    }
}

impl Ledger for Lines {
    fn call_began(&mut self, place: Place) {
        if let Some(line) = self.get_mut(place.pool) {
            line.pool.call_began(place.slot);
        }
    }

    fn call_ended(&mut self, place: Place) {
        if let Some(line) = self.get_mut(place.pool) {
            line.pool.call_ended(place.slot);
        }
    }

    fn request_began(&mut self, place: Place, method: Method) -> Work {
        self.get_mut(place.pool).map_or(Work::default(), |line| line.pool.request_began(place.slot, method))
    }

    fn request_ended(&mut self, place: Place, method: Method, work: Work, took: Option<Duration>) {
        if let Some(line) = self.get_mut(place.pool) {
            line.pool.request_ended(place.slot, method, work, took);
        }
    }

    fn unanswered(&mut self, place: Place) {
        self.report(place, Outcome::TimedOut);
    }
}
