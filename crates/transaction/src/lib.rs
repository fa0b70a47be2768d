//! Transactions: RFC 3261 §17 with RFC 6026.
//!
//! [`Layer`] holds every transaction of one shard: it tells a new request from a repeated one, repeats what an
//! unreliable transport may have lost, acknowledges failures, cancels, and tells the transaction user (TU) what it
//! has to know. The four machines are files of their own and read like figures 5 to 8 of the RFC:
//!
//! | machine | file | figure |
//! |---|---|---|
//! | INVITE client | `invite_client.rs` | RFC 3261 figure 5 as changed by RFC 6026 §8.4 |
//! | non-INVITE client | `non_invite_client.rs` | RFC 3261 figure 6 |
//! | INVITE server | `invite_server.rs` | RFC 3261 figure 7 as changed by RFC 6026 §7.1 |
//! | non-INVITE server | `non_invite_server.rs` | RFC 3261 figure 8 |
//!
//! Left out: the TU's own timers (C of RFC 3261 §16.6, the repeated 2xx of §13.3.1.4), choosing where a request goes
//! (RFC 3263), and any check of a response's source address, since a multihomed peer may answer from another: the
//! 64 random bits of our branch are the check.

mod branch;
mod client;
mod config;
mod counters;
mod event;
mod invite_client;
mod invite_server;
mod key;
mod layer;
mod non_invite_client;
mod non_invite_server;
mod response_hop;
mod server;
mod shared;
mod timer;
mod write;

pub use branch::BRANCH_BYTES;
pub use client::ClientId;
pub use config::Config;
pub use counters::{Counters, PerKind};
pub use event::{Arrival, Event, ResponseArrival};
pub use key::ServerKey;
pub use layer::Layer;
pub use response_hop::response_hop;
pub use server::ServerId;
pub use tandem_base::Full;
pub use timer::Timer;

#[cfg(test)]
mod bench;
#[cfg(test)]
mod tests;
