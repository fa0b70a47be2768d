//! What a balancer counts; plain numbers that only their shard writes.

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Calls, and requests outside calls, that were given to a destination.
    pub assigned: u64,
    /// Requests of known calls that went to their destination.
    pub followed: u64,
    /// The same with nothing in the table, by token alone.
    pub followed_by_token: u64,
    /// The same without a token, by a pool's hash.
    pub followed_by_hash: u64,
    /// Requests from a destination's side.
    pub outward: u64,
    /// Responses sent back.
    pub responses: u64,
    /// Responses that carry no branch we signed.
    pub responses_stray: u64,
    /// Responses of destinations that a first request had left already.
    pub responses_late: u64,
    /// First requests sent on to another destination.
    pub failovers: u64,
    /// First requests not sent on because too many were.
    pub failovers_refused: u64,
    /// Record-Route tokens that we did not write for that call.
    pub tokens_forged: u64,
    /// Requests within calls that nobody knows.
    pub unknown: u64,
    /// First requests refused because no destination was eligible.
    pub no_destination: u64,
    /// First requests refused because the table was full.
    pub table_full: u64,
    /// First requests refused while draining.
    pub draining: u64,
    /// Requests refused for what they say: Max-Forwards at its end, an unknown scheme, a foreign route.
    pub refused: u64,
    /// Calls that a response made known again to an empty table.
    pub learned: u64,
    /// OPTIONS to the balancer itself.
    pub probes_answered: u64,
    /// Redirected requests.
    pub redirected: u64,
}
