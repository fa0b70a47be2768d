//! SIP messages (RFC 3261): parse, view, edit, write.
//!
//! A received message is looked at where it lies: [`Message::parse`] makes one pass and notes where the header fields
//! are in a reused [`Index`]; their values are read when asked for. A forwarded message is the received octets with
//! a few [`Edits`], written once into the [`Outbox`]; an answer is written from the request by [`Reply`]. A stream is
//! cut into messages by a [`Framer`].

mod chars;
mod cseq;
mod edit;
mod error;
mod frame;
mod header;
mod hop;
mod index;
mod limits;
mod listener;
mod message;
mod method;
mod name_addr;
mod params;
mod reply;
mod uri;
mod via;

pub use cseq::CSeq;
pub use edit::Edits;
pub use error::ParseError;
pub use frame::{Frame, FrameError, Framer};
pub use header::HeaderName;
pub use hop::{ConnectionId, Hop, ListenerId, Outbox, Transmit, Transport};
pub use index::{Index, Span};
pub use limits::Limits;
pub use listener::{Listener, Listeners};
pub use message::{Field, Message, Value};
pub use method::Method;
pub use name_addr::NameAddr;
pub use params::{Param, Params};
pub use reply::{Reply, reason_phrase, write_number, write_sent_by, write_via_received};
pub use uri::{Scheme, Uri, host_ip, same_host, unescape};
pub use via::{MAGIC_COOKIE, Via};
