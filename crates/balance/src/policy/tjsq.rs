//! TJSQ: transaction join shortest queue (Jiang et al. 2009, §III): fewest unanswered requests.
//!
//! Divided by capacity where that is known.

use super::least::{Least, load_of};
use super::{Pick, Policy};
use crate::members::Members;
use crate::{Load, PoolSettings, Slot};

struct Tjsq(Least);

pub(super) fn make(_: &PoolSettings) -> Box<dyn Policy> {
    Box::new(Tjsq(Least::new()))
}

/// In thousandths, as all figures.
fn figure(load: &Load) -> u64 {
    u64::from(load.transactions) * 1000
}

impl Policy for Tjsq {
    fn reshape(&mut self, members: &Members, loads: &[Load]) {
        self.0.reshape(members, |slot| figure(&load_of(loads, slot)));
    }

    fn load_changed(&mut self, slot: Slot, load: &Load) {
        self.0.update(slot, figure(load));
    }

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        self.0.pick(pick)
    }

    fn figure(&self, slot: Slot) -> Option<f64> {
        self.0.figure(slot)
    }
}
