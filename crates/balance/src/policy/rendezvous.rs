//! Rendezvous: the Call-ID's weighted rendezvous hash under the pool's key, with bounded load (Mirrokni, Thorup and
//! Zadimoghaddam 2018).
//!
//! Balancers that share the key agree without talking, and no caller can aim at a destination. A destination that
//! holds more than the bound's part of its fair share of calls is passed over for the next in the key's order.

use super::race::Race;
use super::{Pick, Policy};
use crate::members::Members;
use crate::{Load, PoolSettings, Slot};

/// One tier: its race and the calls that its members hold.
#[derive(Debug)]
struct Group {
    race: Race<Slot>,
    shares: u64,
    calls: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// The group it runs in.
    group: Option<usize>,
    share: u64,
    calls: u64,
}

struct Rendezvous {
    groups: Vec<Group>,
    held: Vec<Held>,
    /// In hundredths of the fair share; 0 for none.
    bound: u64,
}

pub(super) fn make(settings: &PoolSettings) -> Box<dyn Policy> {
    let bound = u64::from(settings.policy().bound_percent);
    Box::new(Rendezvous { groups: Vec::new(), held: Vec::new(), bound })
}

impl Policy for Rendezvous {
    fn reshape(&mut self, members: &Members, loads: &[Load]) {
        self.held.clear();
        self.held.resize(members.slots(), Held::default());
        self.groups.clear();
        for (number, tier) in members.tiers().iter().enumerate() {
            let mut group = Group { race: Race::new(core::iter::empty()), shares: 0, calls: 0 };
            let mut runners = Vec::with_capacity(tier.eligible.items().len());
            for &slot in tier.eligible.items() {
                let Some(member) = members.get(slot) else { continue };
                let share = u64::from(member.share);
                let calls = loads.get(slot.index()).map_or(0, |load| u64::from(load.calls));
                if let Some(held) = self.held.get_mut(slot.index()) {
                    *held = Held { group: Some(number), share, calls };
                }
                group.shares += share;
                group.calls += calls;
                runners.push((slot, member.id, share));
            }
            group.race = Race::new(runners.into_iter());
            self.groups.push(group);
        }
    }

    fn load_changed(&mut self, slot: Slot, load: &Load) {
        let Some(held) = self.held.get_mut(slot.index()) else { return };
        let before = core::mem::replace(&mut held.calls, u64::from(load.calls));
        if let Some(group) = held.group.and_then(|group| self.groups.get_mut(group)) {
            group.calls = (group.calls + held.calls).saturating_sub(before);
        }
    }

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        let key = pick.key.hash64(&[pick.choice.call_id]);
        self.groups.iter().find_map(|group| {
            let has_room = |slot: Slot| {
                self.bound == 0
                    || self.held.get(slot.index()).is_some_and(|held| {
                        // ceil(bound · fair share of all calls with this one), multiplied out.
                        let most = self.bound.saturating_mul(group.calls + 1).saturating_mul(held.share);
                        held.calls < most.div_ceil(100 * group.shares.max(1))
                    })
            };
            let bounded = group.race.winner(key, |slot| has_room(slot) && pick.is_free(slot));
            // Only where all with room were tried.
            bounded.or_else(|| group.race.winner(key, |slot| pick.is_free(slot)))
        })
    }

    /// Calls held, in parts of the fair share.
    fn figure(&self, slot: Slot) -> Option<f64> {
        let held = self.held.get(slot.index())?;
        let group = self.groups.get(held.group?)?;
        let fair = group.calls as f64 * held.share as f64 / group.shares.max(1) as f64;
        Some(if fair > 0.0 { held.calls as f64 / fair } else { 0.0 })
    }
}
