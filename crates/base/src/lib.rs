//! Time, timers, randomness, keyed hashing and tables with a bound: what every machine stands on.
//!
//! Nothing here reads a clock, a file or an entropy source: `now` comes in, seeds are given.

mod instant;

pub use instant::Instant;
