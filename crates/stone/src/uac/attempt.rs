//! One attempt in progress, and what it may come to.

use core::net::SocketAddr;

use tandem_base::Instant;

use crate::load::Workload;

/// The last byte of a branch: which request of an attempt it belongs to.
pub(super) mod step {
    /// The first request, and the first with credentials.
    pub(crate) const FIRST: u8 = b'i';
    pub(crate) const AGAIN: u8 = b'j';
    pub(crate) const ACK: u8 = b'a';
    pub(crate) const BYE: u8 = b'b';
    /// A CANCEL, which has the branch of what it cancels.
    pub(crate) const CANCEL: u8 = b'c';
    /// Not branches but deadlines: time for a CANCEL, end of the hold time, limit of the first request and of the BYE.
    pub(crate) const CANCEL_AT: u8 = b'C';
    pub(crate) const HOLD: u8 = b'h';
    pub(crate) const LIMIT: u8 = b'L';
    pub(crate) const BYE_LIMIT: u8 = b'M';
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The first request is out, nothing came.
    Calling,
    /// A provisional answer came.
    Proceeding,
    /// The call is up.
    Holding,
    /// The BYE is out.
    Ending,
}

/// Whether a call is cancelled (RFC 3261 §9.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cancel {
    No,
    /// Some time after its first provisional answer.
    Wanted,
    /// The CANCEL is out; how often it was repeated.
    Sent(u8),
    /// It was answered.
    Heard,
}

/// One attempt in progress.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) workload: Workload,
    pub(super) state: State,
    /// Belongs to the preparation, not to the load.
    pub(super) setup: bool,
    /// Part of that: it removes what earlier runs left.
    pub(super) clearing: bool,
    /// Begun after the warm-up.
    pub(super) judged: bool,
    /// Something unexpected or late came; it cannot succeed any more.
    pub(super) stained: bool,
    pub(super) rang: bool,
    pub(super) cancel: Cancel,
    pub(super) repeats: u8,
    pub(super) step: u8,
    pub(super) sequence: u32,
    pub(super) caller: u32,
    pub(super) callee: u32,
    pub(super) target: SocketAddr,
    /// Intended start of the request in progress.
    pub(super) intended: Instant,
    pub(super) credentials: Box<[u8]>,
    /// The BYE, from the answer until it is answered itself.
    pub(super) bye: Vec<u8>,
    pub(super) bye_peer: SocketAddr,
}

/// What an attempt is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// It is part of the load.
    Load,
    /// It removes bindings that earlier runs left.
    Clear,
    /// It registers a user before the load.
    Register,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    TimedOut,
    Refused,
    Late,
}
