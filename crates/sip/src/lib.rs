//! SIP messages (RFC 3261): parse, view, edit, write.

mod hop;

pub use hop::{ConnectionId, Hop, ListenerId, Outbox, Transmit, Transport};
