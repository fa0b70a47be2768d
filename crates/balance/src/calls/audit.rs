//! Does the booked load equal the sum of the entries? Counters of other balancers leak for years unseen.
//!
//! A pass sums up the entries some thousand a turn. What changes behind the pass's front is added or taken off as it
//! changes, so that at the pass's end the sums are those of that moment, and are compared with what the pools book.

use tandem_base::{Key, Pool};

use super::Calls;
use super::book::Weight;
use super::call::{Call, Place};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// The first slot of the table that this pass has not seen.
    front: u32,
    /// What the entries before it weigh, by pool and slot.
    sums: Vec<Vec<Weight>>,
    passes: u64,
    difference: u64,
}

impl Audit {
    /// An entry weighs something else, or somewhere else.
    pub(crate) fn changed(&mut self, key: Key, before: (Place, Weight), after: (Place, Weight)) {
        if key.slot() >= self.front || before == after {
            return;
        }
        self.add(before.0, |sum| sum.minus(before.1));
        self.add(after.0, |sum| sum.plus(after.1));
    }

    fn add(&mut self, place: Place, change: impl FnOnce(Weight) -> Weight) {
        let (pool, slot) = (usize::from(place.pool), place.slot.index());
        if self.sums.len() <= pool {
            self.sums.resize(pool + 1, Vec::new());
        }
        let Some(slots) = self.sums.get_mut(pool) else { return };
        if slots.len() <= slot {
            slots.resize(slot + 1, Weight::default());
        }
        if let Some(sum) = slots.get_mut(slot) {
            *sum = change(*sum);
        }
    }

    fn look_at(&mut self, entries: &Pool<Call>, to: u32) {
        for slot in self.front..to {
            if let Some(call) = entries.key_at(slot).and_then(|key| entries.get(key)) {
                let weight = Weight::of(call);
                self.add(call.place, |sum| sum.plus(weight));
            }
        }
        self.front = to;
    }
}

impl Calls {
    /// Goes on with the audit by `count` slots; at the end of a pass asks `booked` for every place's load.
    ///
    /// Returns whether a pass ended.
    pub fn audit(&mut self, count: u32, mut booked: impl FnMut(Place) -> Option<Weight>) -> bool {
        let to = self.audit.front.saturating_add(count).min(self.slots);
        self.audit.look_at(&self.entries, to);
        if to < self.slots {
            return false;
        }
        let mut difference = 0;
        for (pool, slots) in (0_u16..).zip(&mut self.audit.sums) {
            for (slot, sum) in (0_u16..).zip(slots.iter_mut()) {
                if let Some(booked) = booked(Place { pool, slot: crate::Slot(slot) }) {
                    difference += booked.calls.abs_diff(sum.calls)
                        + booked.requests.abs_diff(sum.requests)
                        + booked.work.abs_diff(sum.work);
                }
                *sum = Weight::default();
            }
        }
        self.audit.difference = difference;
        self.audit.passes += 1;
        self.audit.front = 0;
        true
    }

    /// Passes of the audit so far.
    #[must_use]
    pub const fn audits(&self) -> u64 {
        self.audit.passes
    }

    /// By how much booked and summed load differed at the end of the last pass: 0, or a defect of ours.
    #[must_use]
    pub const fn audit_difference(&self) -> u64 {
        self.audit.difference
    }
}
