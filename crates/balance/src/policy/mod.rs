//! The policies, and what a policy is.
//!
//! One policy is one file here and one line in [`POLICIES`]. A policy sees the members and their loads, is told when
//! they change, and picks. What it is not told, it need not know: health, slow start, other shards and generations
//! reach it as [`Policy::reshape`] and [`Policy::load_changed`] only.

mod cjsq;
mod least;
mod round_robin;
mod tjsq;
mod tlwl;

use core::time::Duration;

use tandem_base::{HashKey, Rng};
use tandem_sip::Method;

use crate::members::Members;
use crate::{Choice, Load, PoolSettings, Slot, Work};

/// What a policy may look at when it picks.
pub(crate) struct Pick<'a> {
    pub(crate) choice: &'a Choice<'a>,
    pub(crate) members: &'a Members,
    pub(crate) loads: &'a [Load],
    pub(crate) rng: &'a mut Rng,
    pub(crate) key: &'a HashKey,
}

/// Chooses destinations for new calls.
pub(crate) trait Policy: Send {
    /// Somebody came, left, became eligible or not, or has another share.
    fn reshape(&mut self, members: &Members, loads: &[Load]);

    /// A destination's load is now this.
    fn load_changed(&mut self, _slot: Slot, _load: &Load) {}

    /// A request was answered after this time.
    fn answered(&mut self, _slot: Slot, _method: Method, _took: Duration) {}

    /// What a request counts as work.
    fn weigh(&self, _method: Method) -> Work {
        Work::ONE
    }

    /// An eligible destination that wasn't tried.
    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot>;

    /// What it compares, shown to operators.
    fn figure(&self, _slot: Slot) -> Option<f64> {
        None
    }
}

/// A policy's entry in the list.
#[derive(Debug)]
pub struct Entry {
    /// Its name in the configuration.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    make: fn(&PoolSettings) -> Box<dyn Policy>,
}

impl Entry {
    pub(crate) fn make(&self, settings: &PoolSettings) -> Box<dyn Policy> {
        (self.make)(settings)
    }
}

/// All policies, the recommended one first.
#[rustfmt::skip]
pub const POLICIES: &[Entry] = &[
    Entry { name: "tlwl", about: "least work left: unanswered requests, an INVITE weighing more", make: tlwl::make },
    Entry { name: "tjsq", about: "fewest unanswered requests", make: tjsq::make },
    Entry { name: "cjsq", about: "fewest calls", make: cjsq::make },
    Entry { name: "round-robin", about: "one after the other, by weight", make: round_robin::make },
];

pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    POLICIES.iter().find(|entry| entry.name == name)
}

/// The names of all policies, for a message.
pub(crate) fn names() -> String {
    let names: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
    names.join(", ")
}
