//! The balancer: destinations, their health, and who gets the next call.
//!
//! | notion | file |
//! |---|---|
//! | what a pool chooses from | `destination` |
//! | a pool's settings, generation by generation | `settings` |
//! | a shard's view of a pool: loads, eligibility, picks | `pool`, `members` |
//! | what shards share: states and loads | `board` |
//! | who has the least load, in O(log n) | `loads` |
//! | what requests weigh, shown | `weights` |
//! | the policies, one a file | `policy/` |
//! | health: probes, rise and fall; the probe on the wire | `watch`, `probe` |
//! | whom a request is about, for the first of two stages | `user` |
//! | the call table; what messages carry so that it may be empty | `calls/`, `token` |
//! | the machine, with a table of its steps | `balancer` |
//! | what a new request finds ahead of it | `occupancy` |
//! | why a call went where it went | `explain` |
//!
//! Only the first request of a call is free to choose (SARA: Jiang et al. 2009, §III); the call table keeps the rest
//! with it.

mod answer;
mod balancer;
mod base32;
mod board;
mod byes;
pub mod calls;
mod config;
mod counters;
mod destination;
mod explain;
mod failover;
mod forward;
mod lines;
mod loads;
mod members;
mod occupancy;
mod policy;
mod pool;
mod probe;
mod request;
mod response;
mod route;
mod settings;
mod token;
mod user;
mod watch;
mod weights;

pub use balancer::{Balancer, Event};
pub use board::{Admin, Board, Health, Reason, Standing, State};
pub use config::{Config, Failover, Path, PoolConfig};
pub use counters::Counters;
pub use destination::{Destination, DestinationId, Slot};
pub use explain::Why;
pub use occupancy::{Clock, OCCUPANCY_BOUNDS, Occupancy, TIME_BOUNDS_NS, Timing};
pub use policy::{Entry, POLICIES, core_hash, fnv1};
pub use pool::{Choice, DestinationView, Load, NoDestination, Outcome, Pool, Work};
pub use probe::{ProbeAnswer, read_probe_answer, read_retry_after, read_undelivered_probe, write_probe};
pub use route::Routed;
pub use settings::{HealthSettings, Letters, MethodWeights, Mistake, PolicySettings, PoolSettings};
pub use user::user_of;
pub use watch::{Probe, ProbeOutcome, Watch};
pub use weights::{MethodWeight, Weights};

#[cfg(test)]
mod tests;
