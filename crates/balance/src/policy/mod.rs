//! The policies, and what a policy is.
//!
//! One policy is one file here and one line in [`POLICIES`]. A policy sees the members and their loads, is told when
//! they change, and picks. What it is not told, it need not know: health, slow start, other shards and generations
//! reach it as [`Policy::reshape`] and [`Policy::load_changed`] only.

mod cjsq;
mod fewest;
mod fnv;
mod hash;
mod learned;
mod least;
mod race;
mod rendezvous;
mod round_robin;
mod rwma;
mod spread;
mod tjsq;
mod tlwl;
mod user;

use core::time::Duration;

use tandem_base::{HashKey, Rng};
use tandem_sip::Method;

pub use fnv::fnv1;
pub use hash::core_hash;

use crate::members::Members;
use crate::{Choice, Load, PoolSettings, Slot, Weights, Work};

/// What a policy may look at when it picks.
pub(crate) struct Pick<'a> {
    pub(crate) choice: &'a Choice<'a>,
    pub(crate) members: &'a Members,
    pub(crate) rng: &'a mut Rng,
    pub(crate) key: &'a HashKey,
}

impl Pick<'_> {
    /// True for a destination that may get the request and hasn't failed it.
    pub(crate) fn is_free(&self, slot: Slot) -> bool {
        self.members.is_eligible(slot) && !self.choice.tried.contains(&slot)
    }
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

    /// What each method weighs and how that is known; `None` where nothing is compared by weight.
    fn weights(&self) -> Option<Weights> {
        None
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
    Entry { name: "tlwl-learned", about: "as tlwl, with weights learned from response times", make: learned::make },
    Entry { name: "round-robin", about: "one after the other, by weight", make: round_robin::make },
    Entry { name: "rendezvous", about: "keyed hash of the Call-ID, exact weights, bounded load", make: rendezvous::make },
    Entry { name: "hash", about: "OpenSER's hash of the Call-ID, mod N", make: hash::make },
    Entry { name: "fnv", about: "FNV-1 of the Call-ID, mod N", make: fnv::make },
    Entry { name: "rwma", about: "least weighted average of the last response times", make: rwma::make },
    Entry { name: "user", about: "keyed hash of the user, to clusters; a newcomer moves only its share", make: user::rendezvous },
    Entry { name: "user-bernstein", about: "Bernstein's hash of the user, mod N clusters", make: user::bernstein },
    Entry { name: "user-sha1", about: "SHA-1 of the user, mod N clusters", make: user::sha1 },
    Entry { name: "user-letter", about: "the user's first letter, by ranges", make: user::letter },
];

pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    POLICIES.iter().find(|entry| entry.name == name)
}

/// The names of all policies, for a message.
pub(crate) fn names() -> String {
    let names: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
    names.join(", ")
}
