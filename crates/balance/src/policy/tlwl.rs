//! TLWL: transaction least work left (Jiang et al. 2009, §III).
//!
//! Each unanswered request counts its method's weight, 1.75 for an INVITE and 1 for others unless set otherwise;
//! the least sum wins. Divided by capacity where that is known. With equal weights it is TJSQ.

use tandem_sip::Method;

use super::least::{Least, load_of};
use super::{Pick, Policy};
use crate::members::Members;
use crate::{Load, MethodWeights, PoolSettings, Slot, Weights, Work};

struct Tlwl {
    least: Least,
    weights: MethodWeights,
}

pub(super) fn make(settings: &PoolSettings) -> Box<dyn Policy> {
    Box::new(Tlwl { least: Least::new(), weights: settings.policy().weights.clone() })
}

impl Policy for Tlwl {
    fn reshape(&mut self, members: &Members, loads: &[Load]) {
        self.least.reshape(members, |slot| load_of(loads, slot).work);
    }

    fn load_changed(&mut self, slot: Slot, load: &Load) {
        self.least.update(slot, load.work);
    }

    fn weigh(&self, method: Method) -> Work {
        self.weights.of(method)
    }

    fn weights(&self) -> Option<Weights> {
        Some(Weights::new(None, |method| (self.weigh(method), false)))
    }

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        self.least.pick(pick)
    }

    fn figure(&self, slot: Slot) -> Option<f64> {
        self.least.figure(slot)
    }
}
