//! What a pool chooses from.
//!
//! A destination is known by its id, never by its URI or address: two ports of one host, or one address in two
//! groups, are two destinations. In the tables it is a [`Slot`], two bytes that stay its own for as long as any call
//! may know them.

use core::fmt;
use std::sync::Arc;

use tandem_sip::Hop;

/// The operator's name for a destination; unique in its pool and kept over restarts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(Arc<str>);

impl DestinationId {
    /// The id as written in the configuration.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(Arc::from(id))
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DestinationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DestinationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A destination's row in the [`Board`](crate::Board) and in every table of its pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u16);

impl Slot {
    /// The row as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The slot of row `index`, of which there are never more than 65,536.
pub(crate) fn slot(index: usize) -> Slot {
    Slot(u16::try_from(index).unwrap_or(u16::MAX))
}

/// One server that calls can go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Its name.
    pub id: DestinationId,
    /// Where its messages go.
    pub hop: Hop,
    /// What it can carry, in any unit that all destinations of the pool share (calls a second, say); divides its
    /// load. `None` counts as the mean of those that are known.
    pub capacity: Option<u32>,
    /// Its share of new calls relative to the others' weights. 0: no new calls.
    pub weight: u16,
    /// Lower tiers are used first; a higher one only when no destination below is eligible.
    pub tier: u8,
    /// The cluster it is a member of, for the policies that hash users; else it is a cluster of its own.
    pub cluster: Option<Arc<str>>,
}

impl Destination {
    /// A destination of weight 1 in tier 0, of unknown capacity.
    #[must_use]
    pub fn new(id: &str, hop: Hop) -> Self {
        Self { id: DestinationId::new(id), hop, capacity: None, weight: 1, tier: 0, cluster: None }
    }
}
