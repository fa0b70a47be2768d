//! What the proxy counts; plain numbers that only their shard writes.

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Requests forwarded with state, each fork's branch counted.
    pub forwarded_stateful: u64,
    /// Requests forwarded without state.
    pub forwarded_stateless: u64,
    /// Responses forwarded upstream.
    pub responses_forwarded: u64,
    /// Responses that match nothing of ours and carry no branch we signed.
    pub responses_stray: u64,
    /// Branches given up because no final response came (timers B, C or F).
    pub branches_timed_out: u64,
    /// Branches given up because the transport failed.
    pub branches_unreachable: u64,
    /// CANCELs sent downstream.
    pub cancelled: u64,
    /// Requests refused because the table of contexts was full.
    pub contexts_full: u64,
    /// Loops found (482).
    pub loops: u64,
    /// Record-Route cookies that were not ours.
    pub cookies_forged: u64,
}
