//! The balancer: destinations, their health, and who gets the next call.
//!
//! | notion | file |
//! |---|---|
//! | what a pool chooses from | `destination` |
//! | a pool's settings, generation by generation | `settings` |
//! | a shard's view of a pool: loads, eligibility, picks | `pool`, `members` |
//! | what shards share: states and loads | `board` |
//! | who has the least load, in O(log n) | `loads` |
//! | the policies, one a file | `policy/` |
//! | health: probes, rise and fall; the probe on the wire | `watch`, `probe` |
//! | whom a request is about, for the first of two stages | `user` |
//! | why a call went where it went | `explain` |
//!
//! Only the first request of a call is free to choose (SARA: Jiang et al. 2009, §III); the call table keeps the rest
//! with it.

mod board;
mod destination;
mod explain;
mod loads;
mod members;
mod policy;
mod pool;
mod probe;
mod settings;
mod user;
mod watch;

pub use board::{Admin, Board, Health, Reason, Standing, State};
pub use destination::{Destination, DestinationId, Slot};
pub use explain::Why;
pub use policy::{Entry, POLICIES, core_hash, fnv1};
pub use pool::{Choice, DestinationView, Load, NoDestination, Outcome, Pool, Work};
pub use probe::{ProbeAnswer, read_probe_answer, read_retry_after, write_probe};
pub use settings::{HealthSettings, Letters, MethodWeights, Mistake, PolicySettings, PoolSettings};
pub use user::user_of;
pub use watch::{Probe, ProbeOutcome, Watch};
