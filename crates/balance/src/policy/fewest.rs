//! Fewest of what is counted for each destination, divided by capacity where that is known.

use super::least::{Least, load_of};
use super::{Pick, Policy};
use crate::members::Members;
use crate::{Load, Slot};

pub(super) struct Fewest {
    least: Least,
    count: fn(&Load) -> u32,
}

impl Fewest {
    pub(super) fn boxed(count: fn(&Load) -> u32) -> Box<dyn Policy> {
        Box::new(Self { least: Least::new(), count })
    }
}

/// In thousandths, as all figures.
fn thousandths(count: u32) -> u64 {
    u64::from(count) * 1000
}

impl Policy for Fewest {
    fn reshape(&mut self, members: &Members, loads: &[Load]) {
        let count = self.count;
        self.least.reshape(members, |slot| thousandths(count(&load_of(loads, slot))));
    }

    fn load_changed(&mut self, slot: Slot, load: &Load) {
        self.least.update(slot, thousandths((self.count)(load)));
    }

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        self.least.pick(pick)
    }

    fn figure(&self, slot: Slot) -> Option<f64> {
        self.least.figure(slot)
    }
}
