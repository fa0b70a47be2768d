//! Time, timers, randomness, keyed hashing and tables with a bound: what every machine stands on.
//!
//! Nothing here reads a clock, a file or an entropy source: `now` comes in, seeds are given.

mod hash;
mod instant;
mod key_table;
mod pool;
mod rng;
mod wheel;

pub use hash::{HashKey, Hasher64, Hasher128, Map, Set, map, map_with_capacity, set, set_with_capacity};
pub use instant::Instant;
pub use key_table::KeyTable;
pub use pool::{Full, Key, Pool};
pub use rng::Rng;
pub use wheel::{TimerId, Wheel};
