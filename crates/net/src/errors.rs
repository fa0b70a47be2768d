//! Errors at the transport, and their list for a turn (RFC 3261 §18.4).

use std::io;

use tandem_sip::{Hop, ListenerId};

use crate::socket::UdpSocket;
use crate::{Counts, error_queue};

/// Why a message did not go, or did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The peer's host says that nobody listens there (ICMP port unreachable).
    PortUnreachable,
    /// A router or our own routing table says that the host or network cannot be reached.
    Unreachable,
    /// Longer than a datagram can be, or than the path takes without fragments (RFC 3261 §18.1.1).
    TooLong,
    /// No listener of that number and transport.
    NoListener,
    /// Our own kernel refused for another reason, by its `errno`: a packet filter says `EPERM`.
    Refused(i32),
}

impl Cause {
    pub(crate) fn from_error(error: &io::Error) -> Self {
        match error.raw_os_error().unwrap_or_default() {
            libc::ECONNREFUSED => Self::PortUnreachable,
            libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN => Self::Unreachable,
            libc::EMSGSIZE => Self::TooLong,
            errno => Self::Refused(errno),
        }
    }
}

/// A message that failed at the transport (RFC 3261 §18.4), so that the next target can be tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransportError<'a> {
    /// The hop it failed on.
    pub hop: Hop,
    /// Why.
    pub cause: Cause,
    /// The message: whole if it could not be sent; for an ICMP error what the report quoted, which may be nothing.
    /// Anybody can forge a report who guesses both ports; its quote shows the branch that only the path saw.
    pub message: &'a [u8],
}

/// Error queue entries taken at once; the rest waits for the next turn.
const REPORTS_PER_TURN: usize = 64;

/// The errors of a turn, with a bound.
pub(crate) struct Errors {
    list: Vec<(Hop, Cause, core::ops::Range<usize>)>,
    bytes: Vec<u8>,
    max: usize,
    quote: Box<[u8]>,
}

impl Errors {
    pub(crate) fn new(max: usize) -> Self {
        Self { list: Vec::new(), bytes: Vec::new(), max, quote: vec![0; 2048].into() }
    }

    pub(crate) fn push(&mut self, hop: Hop, cause: Cause, message: &[u8], counts: &mut Counts) {
        if self.list.len() < self.max {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(message);
            self.list.push((hop, cause, start..self.bytes.len()));
        } else {
            counts.errors_dropped += 1;
        }
    }

    /// Takes over what the error queue of `socket` holds.
    pub(crate) fn take_from(&mut self, socket: &UdpSocket, listener: ListenerId, counts: &mut Counts) {
        let mut quote = core::mem::take(&mut self.quote);
        for _ in 0..REPORTS_PER_TURN {
            match error_queue::take(socket, &mut quote) {
                Ok(Some(report)) => {
                    counts.icmp_errors += 1;
                    self.push(Hop::udp(listener, report.peer), report.cause, report.message, counts);
                }
                Ok(None) => {}
                Err(_) => break, // empty
            }
        }
        self.quote = quote;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TransportError<'_>> {
        self.list.iter().map(|(hop, cause, range)| TransportError {
            hop: *hop,
            cause: *cause,
            message: self.bytes.get(range.clone()).unwrap_or_default(),
        })
    }
}
