//! A world on a virtual clock: the daemon's own machines, scripted user agents, and a network that fails.
//!
//! A [`World`] holds nodes ([`tandem_node::Node`], what ships) and telephones ([`tandem_ua::Ua`]), each at an address
//! of its own. Datagrams between them are lost, delayed, repeated and overtaken as the [`Network`] says; nodes crash
//! and start again with what their store acknowledged. Everything is drawn from one seed and happens in the order of
//! a heap of (time, sequence), so that a seed is a run.
//!
//! A scenario is a function of the seed, run for many by [`sweep()`]. After each message and at the end the checkers
//! of [`check`] look at it; a failure prints its seed and step and leaves a capture of the whole run in
//! `target/sim/`, which tshark reads: a datagram that the network lost stands there with a time-to-live of 0.
//!
//! Left out: streams, which the machines do not tell from datagrams, and fragmentation.

pub mod check;
mod host;
mod network;
mod pcap;
mod store;
mod sweep;
mod world;

pub use host::{NodeId, PhoneId};
pub use network::{Link, Network};
pub use store::{Store, StoreMode};
pub use sweep::sweep;
pub use world::{DOMAIN, World, millis, secs};
