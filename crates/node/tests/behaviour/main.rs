//! What a node does, theme by theme, message by message.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod digest;
mod durability;
mod forking;
mod probes;
mod reflection;
mod refusals;
mod relay;
mod responses;
mod routing;
mod secrets;
