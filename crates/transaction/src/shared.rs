//! What the transactions of a layer share, and what a machine is handed to act with.

use std::collections::VecDeque;

use tandem_base::{Instant, KeyTable, Wheel};
use tandem_sip::Index;

use crate::key::Matcher;
use crate::timer::Alarm;
use crate::{Config, Counters, Event};

/// All of a layer but its transactions.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) matcher: Matcher,
    pub(crate) wheel: Wheel<Alarm>,
    /// From a request's hash to its server transaction.
    pub(crate) index: KeyTable,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// For reading our own messages.
    pub(crate) own: Index,
}

/// The present and the layer's common parts, as long as one machine acts.
pub(crate) struct Cx<'a> {
    pub(crate) now: Instant,
    pub(crate) shared: &'a mut Shared,
}

/// The class of a response, as far as transactions care (RFC 3261 §7.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// 1xx.
    Provisional,
    /// 2xx.
    Success,
    /// 300 to 699.
    Failure,
}

impl Class {
    pub(crate) const fn of(status: u16) -> Self {
        match status {
            0..200 => Self::Provisional,
            200..300 => Self::Success,
            300.. => Self::Failure,
        }
    }
}
