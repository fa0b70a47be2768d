//! The thread-per-core loop that drives a machine.
//!
//! A [`Machine`] decides; a shard brings it time, messages and commands and carries away what it sends. Shards share
//! nothing: each owns all state of the calls whose Call-ID is its own ([`tandem_net::Steering`]), so there is no lock
//! on the path of a packet. [`start()`] binds the listeners, spawns one thread per shard and gives back the ends of the
//! bounded queues by which a control thread talks to them. A full queue is a counted refusal, never a stall.
//!
//! Left out: streams, which will live and die in one shard, as sources beside the sockets of its `Net`.

mod clock;
mod control;
mod counters;
mod hand_over;
mod machine;
mod shard;
mod start;

pub use clock::Clock;
pub use control::{Commands, Events, Exit, Refused, Threads};
pub use counters::{Counters, Snapshot};
pub use machine::Machine;
pub use start::{Listener, Plan, Running, StartError, Steered, start};
