//! TLWL with weights that it learns: what a method costs is read from how long its requests take.
//!
//! A response time is service plus waiting plus, for an INVITE, ringing. The lower quartile is what a request takes
//! that meets a short queue, so the quartiles' ratio estimates the ratio of costs. It is held within a bound either
//! way, needs 64 answers to be believed, and is shown ([`Pool::weights`](crate::Pool::weights)). Whoever measures
//! an INVITE should stop at its first response other than 100.

use core::time::Duration;

use tandem_sip::Method;

use super::least::{Least, load_of};
use super::{Pick, Policy};
use crate::members::Members;
use crate::settings::method_index;
use crate::{Load, MethodWeights, PoolSettings, Slot, Weights, Work};

/// Which part of the answers is faster than the estimate.
const QUANTILE: f64 = 0.25;
/// How far one answer moves an estimate.
const STEP: f64 = 0.02;
/// Answers before an estimate counts.
const ENOUGH: u32 = 64;

/// A running quantile: it moves down a little for each time below it, up for each above, so that it rests where
/// one quarter lies below.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    nanos: f64,
    seen: u32,
}

impl Estimate {
    fn see(&mut self, took: Duration) {
        let nanos = (took.as_secs_f64() * 1e9).max(1.0);
        if self.seen == 0 {
            self.nanos = nanos;
        } else {
            // Coarse at first, so that a strange first answer is soon forgotten.
            let step = STEP.max(1.0 / f64::from(self.seen));
            let below = if nanos < self.nanos { 1.0 } else { 0.0 };
            self.nanos = (self.nanos * (step * (QUANTILE - below)).exp()).max(1.0);
        }
        self.seen = self.seen.saturating_add(1);
    }

    fn known(&self) -> Option<f64> {
        (self.seen >= ENOUGH).then_some(self.nanos)
    }
}

struct Learned {
    least: Least,
    start: MethodWeights,
    bound: f64,
    each: [Estimate; Method::KNOWN.len() + 1],
    /// All methods but INVITE: what a plain request takes.
    plain: Estimate,
}

pub(super) fn make(settings: &PoolSettings) -> Box<dyn Policy> {
    let policy = settings.policy();
    Box::new(Learned {
        least: Least::new(),
        start: policy.weights.clone(),
        bound: f64::from(policy.learned_bound.max(1)),
        each: [Estimate::default(); Method::KNOWN.len() + 1],
        plain: Estimate::default(),
    })
}

impl Learned {
    /// What is known of a method's weight by now.
    fn learned(&self, method: Method) -> Option<Work> {
        let own = self.each.get(method_index(method)).and_then(Estimate::known)?;
        Some(thousandths((own / self.plain.known()?).clamp(1.0 / self.bound, self.bound)))
    }
}

/// A ratio within the bound, as a weight.
fn thousandths(ratio: f64) -> Work {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bound")]
    let thousandths = (ratio * 1000.0).round() as u32;
    Work(thousandths.max(1))
}

impl Policy for Learned {
    fn reshape(&mut self, members: &Members, loads: &[Load]) {
        self.least.reshape(members, |slot| load_of(loads, slot).work);
    }

    fn load_changed(&mut self, slot: Slot, load: &Load) {
        self.least.update(slot, load.work);
    }

    fn answered(&mut self, _: Slot, method: Method, took: Duration) {
        if let Some(estimate) = self.each.get_mut(method_index(method)) {
            estimate.see(took);
        }
        if method != Method::Invite {
            self.plain.see(took);
        }
    }

    fn weigh(&self, method: Method) -> Work {
        self.learned(method).unwrap_or_else(|| self.start.of(method))
    }

    fn weights(&self) -> Option<Weights> {
        let bounds = (thousandths(1.0 / self.bound), thousandths(self.bound));
        let of = |method| (self.weigh(method), self.learned(method).is_some());
        Some(Weights::new(Some(bounds), of))
    }

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        self.least.pick(pick)
    }

    fn figure(&self, slot: Slot) -> Option<f64> {
        self.least.figure(slot)
    }
}
