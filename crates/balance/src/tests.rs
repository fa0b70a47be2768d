//! The machine, message by message.

mod affinity;
mod any_order;
mod bench;
mod discovered;
mod failover;
mod paths;
mod refusals;
