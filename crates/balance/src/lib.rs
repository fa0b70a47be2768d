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
mod settings;

pub use board::{Admin, Board, Health, Reason, Standing, State};
pub use destination::{Destination, DestinationId, Slot};
pub use explain::Why;
pub use policy::{Entry, POLICIES};
pub use pool::{Choice, DestinationView, Load, NoDestination, Outcome, Pool, Work};
pub use settings::{HealthSettings, Letters, MethodWeights, Mistake, PolicySettings, PoolSettings};
