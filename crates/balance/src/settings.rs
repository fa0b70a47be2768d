//! A pool's settings: immutable, checked as a whole, replaced by the next generation.

use core::time::Duration;
use std::sync::Arc;

use tandem_base::Instant;
use tandem_sip::Method;

use crate::board::{Board, Reason};
use crate::policy::{self, Entry};
use crate::{Destination, DestinationId, Slot, Work};

/// What each request weighs for TLWL, in thousandths of a plain request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MethodWeights {
    each: [u32; Method::KNOWN.len() + 1],
}

impl MethodWeights {
    /// Every request weighs the same: TLWL becomes TJSQ.
    pub const EQUAL: Self = Self { each: [1000; Method::KNOWN.len() + 1] };

    /// An INVITE weighs `thousandths`, all others 1000.
    #[must_use]
    pub fn invite(thousandths: u32) -> Self {
        Self::EQUAL.with(Method::Invite, thousandths)
    }

    /// The same with another weight for `method`; 0 counts as 1.
    #[must_use]
    pub fn with(mut self, method: Method, thousandths: u32) -> Self {
        if let Some(weight) = self.each.get_mut(method_index(method)) {
            *weight = thousandths.max(1);
        }
        self
    }

    /// What a request of `method` weighs.
    #[must_use]
    pub fn of(&self, method: Method) -> Work {
        Work(self.each.get(method_index(method)).copied().unwrap_or(1000))
    }
}

impl Default for MethodWeights {
    /// 1.75 : 1, the best of the ratios that Jiang et al. measured (§V-B: an INVITE costs 75 % more than a BYE).
    fn default() -> Self {
        Self::invite(1750)
    }
}

/// A method's place in tables by method.
pub(crate) fn method_index(method: Method) -> usize {
    Method::KNOWN.iter().position(|&known| known == method).unwrap_or(Method::KNOWN.len())
}

/// A range of first letters and the cluster that serves it (Singh and Schulzrinne §4.2, figure 11).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letters {
    /// First letter, lower case.
    pub from: u8,
    /// Last letter.
    pub to: u8,
    /// Name of the cluster, or the id of a destination that has none.
    pub cluster: Arc<str>,
}

/// Which policy, and what it may be told.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicySettings {
    /// A name from [`POLICIES`](crate::POLICIES).
    pub name: String,
    /// TLWL: what each method weighs.
    pub weights: MethodWeights,
    /// Learned weights: none leaves `1 / bound ..= bound` of a plain request.
    pub learned_bound: u32,
    /// RWMA: how many response times are averaged; n = 20 in Jiang et al.
    pub samples: u16,
    /// Rendezvous: no destination gets more than this many hundredths of its fair share of the calls; 0 for no
    /// bound, else above 100.
    pub bound_percent: u32,
    /// First letters to clusters.
    pub letters: Vec<Letters>,
}

impl PolicySettings {
    /// The policy of this name with the default settings.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            weights: MethodWeights::default(),
            learned_bound: 4,
            samples: 20,
            bound_percent: 125,
            letters: Vec::new(),
        }
    }
}

/// How health is found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthSettings {
    /// Time between OPTIONS probes of a destination; `None` probes nothing.
    pub interval: Option<Duration>,
    /// How long a probe may go unanswered; always taken to be below `interval`.
    pub timeout: Duration,
    /// Answers in a row that bring a destination up.
    pub rise: u32,
    /// Failures in a row that bring it down.
    pub fall: u32,
    /// Requests of real calls that fail in a row before it is down; 0 ignores them.
    pub passive_fall: u32,
    /// How long a destination is left alone where nobody probes it, and after a 503 without Retry-After.
    pub hold: Duration,
    /// Longest hold that a Retry-After can ask for.
    pub hold_max: Duration,
    /// Over this time a destination that came back grows from a tenth of its share to all of it.
    pub slow_start: Duration,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            interval: Some(Duration::from_secs(3)),
            timeout: Duration::from_secs(1),
            rise: 2,
            fall: 3,
            passive_fall: 3,
            hold: Duration::from_secs(10),
            hold_max: Duration::from_secs(300),
            slow_start: Duration::from_secs(30),
        }
    }
}

/// Why settings are not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Mistake {
    /// No policy has this name.
    #[error("there is no policy `{0}`; there are {list}", list = policy::names())]
    UnknownPolicy(String),
    /// Two destinations have one id.
    #[error("two destinations have the id `{0}`: give each its own")]
    DuplicateId(DestinationId),
    /// The pool has no destination.
    #[error("the pool has no destination: add one")]
    Empty,
    /// No destination may get a call.
    #[error("every destination has weight 0, so no call can go anywhere: give one a weight")]
    NoWeight,
    /// More destinations than the board has rows, those counted that still have calls after they left.
    #[error("the pool has {0} destinations and room for {1}: raise `destinations_max`")]
    TooMany(usize, usize),
    /// A bound at or below the fair share.
    #[error("a bound of {0} % can't be kept: give more than 100, or 0 for none")]
    Bound(u32),
    /// Letters name a cluster that no destination belongs to.
    #[error("letters name the cluster `{0}`, to which no destination belongs")]
    NoCluster(Arc<str>),
}

/// A destination in its slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) destination: Destination,
    /// It left the configuration; its slot stays until its calls have ended.
    pub(crate) leaving: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    name: Arc<str>,
    generation: u64,
    policy: PolicySettings,
    entry: &'static Entry,
    health: HealthSettings,
    places: Vec<Option<Place>>,
    /// Free slots; the longest free comes first and is used first, so that strays of its calls have died out.
    free: Vec<Slot>,
    /// Its destinations are found while it runs, so that there may be none yet.
    may_be_empty: bool,
}

impl PoolSettings {
    /// The first generation: slots in the order given.
    ///
    /// # Errors
    ///
    /// [`Mistake`], with its remedy in words.
    pub fn new(
        name: &str,
        policy: PolicySettings,
        health: HealthSettings,
        destinations: Vec<Destination>,
    ) -> Result<Self, Mistake> {
        let entry = check(&policy, &destinations, false)?;
        Self::first(name, policy, entry, health, destinations)
    }

    /// The first generation of a pool whose destinations are found while it runs: there may be none yet, and none that
    /// takes calls. Then every request is refused with [`NoDestination`](crate::NoDestination).
    ///
    /// # Errors
    ///
    /// [`Mistake`], with its remedy in words.
    pub fn discovered(
        name: &str,
        policy: PolicySettings,
        health: HealthSettings,
        destinations: Vec<Destination>,
    ) -> Result<Self, Mistake> {
        let entry = check(&policy, &destinations, true)?;
        Ok(Self::first(name, policy, entry, health, destinations)?.may_be_empty(true))
    }

    /// The same, of which the next generations may be empty (see [`PoolSettings::discovered`]) or not.
    #[must_use]
    pub fn may_be_empty(self, may_be_empty: bool) -> Self {
        Self { may_be_empty, ..self }
    }

    fn first(
        name: &str,
        policy: PolicySettings,
        entry: &'static Entry,
        health: HealthSettings,
        destinations: Vec<Destination>,
    ) -> Result<Self, Mistake> {
        let room = usize::from(u16::MAX);
        if destinations.len() > room {
            return Err(Mistake::TooMany(destinations.len(), room));
        }
        let place = |destination| Some(Place { destination, leaving: false });
        let places = destinations.into_iter().map(place).collect();
        let (name, free) = (Arc::from(name), Vec::new());
        Ok(Self { name, generation: 1, policy, entry, health, places, free, may_be_empty: false })
    }

    /// The next generation. A destination whose id stays keeps its slot and so its figures. One that is gone keeps
    /// its slot while the board shows calls of it, so that these go on; it gets no new ones. New ones take free
    /// slots, and their rows on the board begin anew.
    ///
    /// # Errors
    ///
    /// [`Mistake`]; the running generation stays as it is.
    pub fn next(
        &self,
        policy: PolicySettings,
        health: HealthSettings,
        destinations: Vec<Destination>,
        board: &Board,
        now: Instant,
    ) -> Result<Self, Mistake> {
        let entry = check(&policy, &destinations, self.may_be_empty)?;
        let generation = self.generation + 1;
        let newcomers = destinations.iter().filter(|new| self.slot_of(new.id.as_str()).is_none()).count();
        let room = board.slots().saturating_sub(self.places.len()) + self.free.len();
        if newcomers > room {
            return Err(Mistake::TooMany(self.places.len() - self.free.len() + newcomers, board.slots()));
        }
        let mut next = Self { generation, policy, entry, health, ..self.clone() };
        for (index, place) in next.places.iter_mut().enumerate() {
            let slot = crate::destination::slot(index);
            let Some(old) = place else { continue };
            match destinations.iter().find(|new| new.id == old.destination.id) {
                Some(new) => {
                    if old.leaving {
                        board.reset(slot, Reason::Added, now);
                        board.start_slowly(slot, now);
                    }
                    *old = Place { destination: new.clone(), leaving: false };
                }
                // One whole generation passes between leaving and being freed, so that no shard still picks it.
                None if old.leaving && board.load(slot).is_idle() => {
                    *place = None;
                    next.free.push(slot);
                }
                None => {
                    if !old.leaving {
                        old.leaving = true;
                        board.reset(slot, Reason::Removed, now);
                    }
                }
            }
        }
        for new in destinations {
            if next.slot_of(new.id.as_str()).is_some() {
                continue;
            }
            let fresh = next.places.len() < board.slots();
            let slot = if fresh {
                next.places.push(None);
                crate::destination::slot(next.places.len() - 1)
            } else if next.free.is_empty() {
                return Err(Mistake::TooMany(next.places.len() + 1, board.slots()));
            } else {
                next.free.remove(0)
            };
            board.reset(slot, Reason::Added, now);
            board.start_slowly(slot, now);
            if let Some(place) = next.places.get_mut(slot.index()) {
                *place = Some(Place { destination: new, leaving: false });
            }
        }
        Ok(next)
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts up with every change.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Which policy, and its settings.
    #[must_use]
    pub const fn policy(&self) -> &PolicySettings {
        &self.policy
    }

    pub(crate) const fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// How health is found out.
    #[must_use]
    pub const fn health(&self) -> &HealthSettings {
        &self.health
    }

    /// The destination in a slot, also one that is leaving: its calls still go there.
    #[must_use]
    pub fn destination(&self, slot: Slot) -> Option<&Destination> {
        self.place(slot).map(|place| &place.destination)
    }

    /// True for a destination that left the configuration and may still have calls.
    #[must_use]
    pub fn is_leaving(&self, slot: Slot) -> bool {
        self.place(slot).is_some_and(|place| place.leaving)
    }

    /// The slot of an id.
    #[must_use]
    pub fn slot_of(&self, id: &str) -> Option<Slot> {
        self.iter().find(|(_, destination)| destination.id.as_str() == id).map(|(slot, _)| slot)
    }

    /// All destinations with their slots, in the order of slots, with those that are leaving.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Destination)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            Some((crate::destination::slot(index), &place.as_ref()?.destination))
        })
    }

    /// One more than the highest slot in use.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn place(&self, slot: Slot) -> Option<&Place> {
        self.places.get(slot.index())?.as_ref()
    }
}

fn check(
    policy: &PolicySettings,
    destinations: &[Destination],
    may_be_empty: bool,
) -> Result<&'static Entry, Mistake> {
    let entry = policy::find(&policy.name).ok_or_else(|| Mistake::UnknownPolicy(policy.name.clone()))?;
    if destinations.is_empty() && !may_be_empty {
        return Err(Mistake::Empty);
    }
    let mut ids: Vec<_> = destinations.iter().map(|destination| &destination.id).collect();
    ids.sort_unstable();
    if let Some([twice, _]) = ids.array_windows().find(|[a, b]| a == b) {
        return Err(Mistake::DuplicateId((*twice).clone()));
    }
    if !may_be_empty && destinations.iter().all(|destination| destination.weight == 0) {
        return Err(Mistake::NoWeight);
    }
    if (1..=100).contains(&policy.bound_percent) {
        return Err(Mistake::Bound(policy.bound_percent));
    }
    let belongs = |name: &str| {
        destinations.iter().any(|one| one.cluster.as_deref().unwrap_or_else(|| one.id.as_str()) == name)
    };
    match policy.letters.iter().find(|letters| !may_be_empty && !belongs(&letters.cluster)) {
        Some(letters) => Err(Mistake::NoCluster(letters.cluster.clone())),
        None => Ok(entry),
    }
}
