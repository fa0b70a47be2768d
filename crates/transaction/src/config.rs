//! What an operator may choose: RFC 3261 §17.1.1.1 (T1, T2), §17.1.2.2 (T4), and the bounds of the tables.

use core::time::Duration;

/// Times and bounds of a [`Layer`](crate::Layer).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// T1, the estimated round-trip time. Every "64·T1" follows from it.
    pub t1: Duration,
    /// T2, the longest wait between two repetitions of a non-INVITE request or of an INVITE's final response.
    pub t2: Duration,
    /// T4, how long a message may remain in the network.
    pub t4: Duration,
    /// Server transactions at most, of both kinds together.
    pub servers_max: u32,
    /// Client transactions at most, of both kinds together; a CANCEL of ours counts as one.
    pub clients_max: u32,
}

impl Default for Config {
    /// The RFC's times; room for 2,000 calls a second whose transactions last 32 s.
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            servers_max: 131_072,
            clients_max: 131_072,
        }
    }
}
