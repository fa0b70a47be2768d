//! What a balancer is told: its pools, in the order in which they are asked whose a request is.

use core::time::Duration;
use std::sync::Arc;

use tandem_sip::Limits;

use crate::calls::Times;
use crate::{Board, PoolSettings};

/// How much of a call comes by us (Singh and Schulzrinne; Kamb §3.2 lists four ways out of the path).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Path {
    /// All of it: we add Via and Record-Route.
    #[default]
    Via,
    /// The first request and nothing else: no Via of ours, so the destination answers the caller itself.
    NoVia,
    /// The first request, under the caller's own address: no Via of ours, so the destination answers the caller itself
    /// and knows of no balancer. The shell needs the right to send so.
    Transparent,
    /// The first request and its responses: the destination's own Record-Route takes the rest.
    RecordRoute,
    /// Nothing: the caller gets a 302 with the destination as its Contact (RFC 3261 §8.3).
    Redirect,
}

/// When the first request of a call goes on to the next destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failover {
    /// Status codes that mean the destination and not the callee. A 6xx or 486 never should.
    pub codes: Vec<u16>,
    /// How long a destination may say nothing at all; zero waits for ever.
    pub timeout: Duration,
    /// Destinations that one request may be sent to; 1 turns failover off.
    pub tries_max: u8,
    /// Second tries per hundred first ones, so that a sick pool is not finished off by retries.
    pub budget_percent: u32,
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            codes: vec![500, 502, 503, 504],
            timeout: Duration::from_secs(2),
            tries_max: 3,
            budget_percent: 20,
        }
    }
}

/// One pool and what is sent to it.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Its destinations, policy and health.
    pub settings: Arc<PoolSettings>,
    /// What the shards share about it.
    pub board: Arc<Board>,
    /// Hosts of Request-URIs that are for it, in lower case; none: everything that is nobody else's.
    pub hosts: Vec<Box<[u8]>>,
    /// How much of a call comes by us.
    pub path: Path,
    /// When the first request of a call goes on to the next destination.
    pub failover: Failover,
}

impl PoolConfig {
    /// A pool for everything that is nobody else's, in the path, with failover.
    #[must_use]
    pub fn new(settings: Arc<PoolSettings>, board: Arc<Board>) -> Self {
        Self { settings, board, hosts: Vec::new(), path: Path::default(), failover: Failover::default() }
    }
}

/// The balancer's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The pools; the first that a request is for gets it.
    pub pools: Vec<PoolConfig>,
    /// Calls and requests in the table of one shard, expired ones counted; beyond, 503.
    pub entries_max: u32,
    /// Copies of first requests that may still go elsewhere, in one shard; beyond, requests go without.
    pub copies_max: u32,
    /// How long the states of a call may last.
    pub times: Times,
    /// Bounds on messages, for those read again.
    pub limits: Limits,
}

impl Config {
    /// These pools with every default.
    #[must_use]
    pub fn new(pools: Vec<PoolConfig>) -> Self {
        Self {
            pools,
            entries_max: 1 << 20,
            copies_max: 1 << 16,
            times: Times::default(),
            limits: Limits::default(),
        }
    }
}

/// Requests that wait for an address of the other side, in one shard.
pub(crate) const LOOKUPS_MAX: u32 = 4_096;
/// The Max-Forwards of a request that has none (RFC 3261 §16.6 step 3).
pub(crate) const MAX_FORWARDS: u64 = 70;
/// How often the audit goes on, and by how many slots of the call table: a million in 20 s.
pub(crate) const AUDIT_EVERY: Duration = Duration::from_millis(10);
pub(crate) const AUDITED_AT_ONCE: u32 = 512;
