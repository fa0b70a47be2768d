//! Least of some figure, divided by capacity: what CJSQ, TJSQ, TLWL and RWMA have in common.

use tandem_base::Rng;

use crate::loads::{INFINITE, LOAD_MAX, Tree, key, load};
use crate::members::{Member, Members};
use crate::policy::Pick;
use crate::{Load, Slot};

#[derive(Clone, Copy, Debug)]
struct Rank {
    figure: u64,
    cost: u64,
    tier: u8,
}

/// Keeps each slot's figure, and finds the least in O(log n); equal ones are drawn by share.
#[derive(Debug)]
pub(super) struct Least {
    tree: Tree,
    ranks: Vec<Rank>,
}

impl Least {
    pub(super) fn new() -> Self {
        Self { tree: Tree::new(1), ranks: Vec::new() }
    }

    /// Takes the members over; `figure` tells each one's figure, which capacity and share divide.
    pub(super) fn reshape(&mut self, members: &Members, figure: impl Fn(Slot) -> u64) {
        self.take(members, figure, |member| member.cost);
    }

    /// The same for a figure that tells of capacity already.
    pub(super) fn reshape_undivided(&mut self, members: &Members, figure: impl Fn(Slot) -> u64) {
        self.take(members, figure, |_| 65_536);
    }

    fn take(&mut self, members: &Members, figure: impl Fn(Slot) -> u64, cost: fn(&Member) -> u64) {
        if self.tree.len() < members.slots() {
            self.tree = Tree::new(members.slots());
        }
        self.ranks.clear();
        self.ranks.resize(members.slots(), Rank { figure: 0, cost: 1, tier: 0 });
        for index in 0..self.tree.len() {
            let slot = crate::destination::slot(index);
            match members.get(slot) {
                Some(member) => {
                    let rank = Rank { figure: figure(slot), cost: cost(member), tier: member.tier };
                    if let Some(place) = self.ranks.get_mut(index) {
                        *place = rank;
                    }
                    self.tree.set(slot, if member.eligible { rank.key() } else { INFINITE }, member.share);
                }
                None => self.tree.set(slot, INFINITE, 0),
            }
        }
    }

    /// A slot's figure is now this.
    pub(super) fn update(&mut self, slot: Slot, figure: u64) {
        if let Some(rank) = self.ranks.get_mut(slot.index()) {
            rank.figure = figure;
            self.tree.update(slot, rank.key());
        }
    }

    /// A slot with the least figure in the lowest tier.
    pub(super) fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        let rng: &mut Rng = pick.rng;
        self.tree.without(pick.choice.tried, |tree| tree.pick(rng))
    }

    /// What is compared, divided by capacity and share: in units of a mean destination.
    pub(super) fn figure(&self, slot: Slot) -> Option<f64> {
        let rank = self.ranks.get(slot.index())?;
        Some(load(rank.key()) as f64 / 65_536.0 / 1000.0)
    }
}

impl Rank {
    fn key(&self) -> u64 {
        key(self.tier, self.figure.saturating_mul(self.cost).min(LOAD_MAX))
    }
}

/// A slot's load; that of an idle one if it is unknown.
pub(super) fn load_of(loads: &[Load], slot: Slot) -> Load {
    loads.get(slot.index()).copied().unwrap_or_default()
}
