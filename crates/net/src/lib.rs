//! Sockets in batches; the only `unsafe` code.
//!
//! A [`Net`] is what one shard listens and sends with: [`UdpSocket`]s behind one epoll instance, an arena that
//! `recvmmsg` fills, and a sender that hands an [`Outbox`](tandem_sip::Outbox) to `sendmmsg` without copying it.
//! It keeps what RFC 3261 §18 asks of a datagram transport: ICMP errors reach the transport user as
//! [`TransportError`] (§18.4), answers leave from the address that was asked (§18.2.2), and nothing is lost in
//! silence: what cannot be delivered is counted in [`Counts`].
//!
//! What a message costs here is the kernel's UDP stack and the wake-ups: a forwarder spends 2 % of its time in this
//! crate. So the levers are a full batch, trains of messages that pass the stack as one ([`NetOptions::trains`]), a
//! sleep that lets datagrams gather ([`NetOptions::gather`]) and no IP identification to draw ([`UdpSocket`] sets DF).
//!
//! Left out: framing of streams, which comes with them; `io_uring`, which measured within the noise of this design;
//! a connected socket per busy peer, which saves the route look-up (about 4 % of a forwarder here) but would take that
//! peer's datagrams past the steering by Call-ID and cost two system calls more a turn.

mod arena;
mod bpf;
mod counts;
mod disguise;
mod error_queue;
mod errors;
mod frames;
mod locals;
mod net;
mod poll;
mod send;
mod socket;
mod steer;
mod sys;
mod train;

pub use arena::{Batch, Datagram};
pub use bpf::{SteerError, steer_in_kernel};
pub use counts::Counts;
pub use disguise::may_send_as_others;
pub use errors::{Cause, TransportError};
pub use net::{Net, NetOptions};
pub use poll::Waker;
pub use socket::{UdpOptions, UdpSocket};
pub use steer::{Steering, call_id};
pub use sys::thread_processor_time;
