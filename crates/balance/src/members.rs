//! Who may be picked, with which share: worked out when something changes, read at every pick.

use tandem_base::HashKey;

use crate::destination::slot;
use crate::{Destination, Slot};

/// A destination as the policies see it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// May get new calls now.
    pub(crate) eligible: bool,
    /// Belongs to the configuration; a destination that is down stays a member, one that left isn't.
    pub(crate) belongs: bool,
    pub(crate) tier: u8,
    /// As configured.
    pub(crate) weight: u16,
    /// Weight in thousandths, less in slow start; at least 1.
    pub(crate) share: u32,
    /// Part of the full share in thousandths.
    pub(crate) start: u32,
    /// `None` until the mean of the known ones is filled in.
    capacity: Option<u32>,
    /// What one unit of load costs: 65,536 on a destination of mean capacity, more on a smaller one.
    pub(crate) cost: u64,
    /// The id's hash, the same on every node.
    pub(crate) id: u64,
    /// The cluster's name hashed alike; the id's for a destination without.
    pub(crate) cluster: u64,
}

impl Member {
    pub(crate) fn new(destination: &Destination, eligible: bool, belongs: bool, start: u32) -> Self {
        let name = destination.cluster.as_deref().unwrap_or_else(|| destination.id.as_str());
        Self {
            eligible,
            belongs,
            tier: destination.tier,
            weight: destination.weight,
            share: (u32::from(destination.weight) * start).max(1),
            start,
            capacity: destination.capacity,
            cost: 0,
            id: name_hash(destination.id.as_str()),
            cluster: name_hash(name),
        }
    }
}

/// A name's hash, which must be the same on every node and so has no secret: operators choose names, not peers.
pub(crate) fn name_hash(name: &str) -> u64 {
    HashKey::from_bytes(*b"destination name").hash64(&[name.as_bytes()])
}

/// Items with the ends of their intervals on a line of all weights: a number on the line finds its item.
#[derive(Clone, Debug)]
pub(crate) struct Line<T> {
    items: Vec<T>,
    ends: Vec<u64>,
    /// All intervals have one length, so that no search is needed.
    equal: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ends: Vec::new(), equal: true }
    }
}

impl<T: Copy> Line<T> {
    pub(crate) fn new(weights: impl Iterator<Item = (T, u64)>) -> Self {
        let mut line = Self::default();
        let mut end = 0;
        let mut each = None;
        for (item, weight) in weights.filter(|(_, weight)| *weight > 0) {
            end += weight;
            line.items.push(item);
            line.ends.push(end);
            line.equal &= *each.get_or_insert(weight) == weight;
        }
        line
    }

    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// The item at `hash mod N` where all weights are equal; else the one in whose interval `hash mod` the sum of
    /// weights lies.
    pub(crate) fn modulo(&self, hash: u64) -> Option<T> {
        let (n, length) = (self.items.len() as u64, self.ends.last().copied()?);
        let index = if self.equal {
            usize::try_from(hash % n).ok()?
        } else {
            self.ends.partition_point(|&end| end <= hash % length)
        };
        self.items.get(index).copied()
    }
}

/// The destinations of one priority.
#[derive(Clone, Debug)]
pub(crate) struct Tier {
    /// All that belong, by configured weight: a number stays with its slot while health changes.
    pub(crate) all: Line<Slot>,
    /// The eligible ones, by share.
    pub(crate) eligible: Line<Slot>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    all: Vec<Option<Member>>,
    /// By rising number, those that have an eligible destination.
    tiers: Vec<Tier>,
    eligible: usize,
}

impl Members {
    pub(crate) fn new(mut all: Vec<Option<Member>>) -> Self {
        set_costs(&mut all);
        let mut numbers: Vec<u8> =
            all.iter().flatten().filter(|member| member.eligible).map(|member| member.tier).collect();
        let eligible = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        let tier = |number: u8| {
            let of = |wanted: fn(&Member) -> bool, weight: fn(&Member) -> u64| {
                let found = move |(index, member): (usize, &Option<Member>)| {
                    let member = member.as_ref().filter(|member| member.tier == number && wanted(member))?;
                    Some((slot(index), weight(member)))
                };
                Line::new(all.iter().enumerate().filter_map(found))
            };
            Tier {
                all: of(|member| member.belongs, |member| u64::from(member.weight)),
                eligible: of(|member| member.eligible, |member| u64::from(member.share)),
            }
        };
        let tiers = numbers.into_iter().map(tier).collect();
        Self { all, tiers, eligible }
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Member> {
        self.all.get(slot.index())?.as_ref()
    }

    /// One more than the highest slot.
    pub(crate) fn slots(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Member)> {
        self.all.iter().enumerate().filter_map(|(index, member)| Some((slot(index), member.as_ref()?)))
    }

    pub(crate) fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    pub(crate) fn is_eligible(&self, slot: Slot) -> bool {
        self.get(slot).is_some_and(|member| member.eligible)
    }

    /// Number of eligible destinations in all tiers.
    pub(crate) const fn eligible(&self) -> usize {
        self.eligible
    }
}

/// Capacity times share divides the load; one of unknown capacity counts as the mean of the known ones.
fn set_costs(all: &mut [Option<Member>]) {
    let known: Vec<u64> =
        all.iter().flatten().filter_map(|member| member.capacity).map(u64::from).filter(|&c| c > 0).collect();
    let mean = if known.is_empty() { 1 } else { (known.iter().sum::<u64>() / known.len() as u64).max(1) };
    for member in all.iter_mut().flatten() {
        let capacity = member.capacity.map_or(mean, u64::from).max(1);
        member.cost = (mean * 1000 * 65_536) / (capacity * u64::from(member.share)).max(1);
        member.cost = member.cost.max(1);
    }
}
