//! Round robin, smooth and weighted: (M + 1) mod N where weights are equal (Jiang et al. 2009, §III).
//!
//! Each destination has a turn, a moment in virtual time; the earliest is next, and its turn then moves on by the
//! inverse of its share. So a destination of weight 3 is picked three times as often, at even distances, and a pick
//! costs O(log n). One that comes back starts at the present turn, not at the one that it missed.

use super::{Pick, Policy};
use crate::loads::{INFINITE, LOAD_MAX, Tree, key};
use crate::members::Members;
use crate::{Load, PoolSettings, Slot};

/// A turn's length for a share of one thousandth.
const STRIDE: u64 = 1 << 36;

/// Turns are set back when they pass this.
const HIGH: u64 = LOAD_MAX / 2;

struct RoundRobin {
    tree: Tree,
    /// Each slot's next turn and how far it moves on.
    turns: Vec<(u64, u64)>,
    /// The turn of the last pick.
    present: u64,
}

pub(super) fn make(_: &PoolSettings) -> Box<dyn Policy> {
    Box::new(RoundRobin { tree: Tree::new(1), turns: Vec::new(), present: 0 })
}

impl RoundRobin {
    fn set_back(&mut self, members: &Members) {
        let back = self.present;
        for (turn, _) in &mut self.turns {
            *turn = turn.saturating_sub(back);
        }
        self.present = 0;
        self.rebuild(members);
    }

    fn rebuild(&mut self, members: &Members) {
        for index in 0..self.tree.len() {
            let slot = crate::destination::slot(index);
            let member = members.get(slot).filter(|member| member.eligible);
            match (member, self.turns.get(index)) {
                (Some(member), Some((turn, _))) => self.tree.set(slot, key(member.tier, *turn), 1),
                _ => self.tree.set(slot, INFINITE, 0),
            }
        }
    }
}

impl Policy for RoundRobin {
    fn reshape(&mut self, members: &Members, _: &[Load]) {
        if self.tree.len() < members.slots() {
            self.tree = Tree::new(members.slots());
        }
        self.turns.resize(members.slots(), (0, 0));
        for (slot, member) in members.iter().filter(|(_, member)| member.eligible) {
            if let Some((turn, stride)) = self.turns.get_mut(slot.index()) {
                *turn = (*turn).max(self.present);
                *stride = STRIDE / u64::from(member.share);
            }
        }
        self.rebuild(members);
    }

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        let slot = self.tree.without(pick.choice.tried, |tree| tree.first())?;
        let (turn, stride) = self.turns.get_mut(slot.index())?;
        self.present = self.present.max(*turn);
        *turn += *stride;
        let (tier, moved) = (self.tree.get(slot) >> 56, *turn);
        self.tree.update(slot, tier << 56 | moved.min(LOAD_MAX));
        if moved > HIGH {
            self.set_back(pick.members);
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Member;
    use crate::{Choice, Destination};
    use tandem_base::{HashKey, Rng};
    use tandem_sip::{Hop, ListenerId, Method};

    /// At 10,000 calls a second and weight 1 that is a day and more of calls for each destination.
    #[test]
    fn turns_are_set_back_before_they_run_out_and_nobody_loses_a_turn() {
        let hop = Hop::udp(ListenerId(0), "192.0.2.1:5060".parse().unwrap());
        let destination = |weight| Destination { weight, ..Destination::new("d", hop) };
        let member = |weight| Some(Member::new(&destination(weight), true, true, 1000));
        let members = Members::new(vec![member(1), member(3)]);
        let mut policy =
            RoundRobin { tree: Tree::new(1), turns: Vec::new(), present: HIGH - 20 * STRIDE / 1000 };
        policy.reshape(&members, &[]);
        let choice = Choice { call_id: b"x", user: None, method: Method::Invite, tried: &[] };
        let (mut rng, key) = (Rng::from_seed(1), HashKey::from_bytes([1; 16]));
        let mut counts = [0; 2];
        for _ in 0..400 {
            let mut pick = Pick { choice: &choice, members: &members, rng: &mut rng, key: &key };
            counts[policy.pick(&mut pick).unwrap().index()] += 1;
        }
        assert_eq!(counts, [100, 300]);
        assert!(policy.turns.iter().all(|(turn, _)| *turn < HIGH / 2), "they were set back");
    }
}
