//! Interop laboratory: real user agents and a neighbour proxy around one node, on loopback.
//!
//! A test makes a [`Lab`] (a private directory and the peers it started), starts a [`Subject`] (the proxy and
//! registrar being tested) and lets peers talk through it. Everything a peer wrote is printed when the test
//! fails. With `TANDEM_SUBJECT=kamailio` the same tests run against Debian's Kamailio: a test that fails there
//! too is probably wrong itself.
//!
//! Left out: media. Audio is offered and negotiated, and nobody measures it here.

mod balancer;
mod baresip;
mod kamailio;
mod lab;
mod named;
mod network;
mod ports;
mod process;
mod sipp;
mod subject;
mod tandem;

pub use balancer::Balancer;
pub use baresip::Baresip;
pub use kamailio::Kamailio;
pub use lab::Lab;
pub use named::Named;
pub use network::{CALLER, ROUTER, SERVER, inside, on};
pub use ports::Port;
pub use process::Running;
pub use sipp::{Sipp, Started};
pub use subject::{Mode, Setup, Subject};
pub use tandem::binary as tandem_binary;
