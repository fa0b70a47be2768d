//! Messages that leave under the address of another, whom the receiver is to answer: `IP_TRANSPARENT`.
//!
//! The kernel lets a socket with this option have an address that is not the host's. A source is an address and a port,
//! and callers choose their ports, so each source needs a socket of its own; a bounded number of them is kept. Such a
//! socket is never read: what is sent to that address goes to its owner, by the network.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};
use tandem_sip::{Hop, Outbox};

use crate::errors::{Cause, Errors};
use crate::{Counts, sys};

/// Whether this process may send under the addresses of others.
///
/// # Errors
///
/// The kernel's: it wants `CAP_NET_ADMIN` or `CAP_NET_RAW`.
pub fn may_send_as_others() -> io::Result<()> {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    open(any).map(drop)
}

fn open(source: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(source), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    let (level, option) = match source {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT),
    };
    sys::set_option(socket.as_fd(), level, option, 1)?;
    Ok(socket)
}

/// The sockets of the last sources.
pub(crate) struct Disguises {
    /// Each with the turn of its last use.
    sockets: BTreeMap<SocketAddr, (Socket, u64)>,
    turn: u64,
    max: usize,
}

impl Disguises {
    /// Keeps up to `max` sockets, at least one.
    pub(crate) fn new(max: usize) -> Self {
        Self { sockets: BTreeMap::new(), turn: 0, max: max.max(1) }
    }

    /// Sends what `out` holds under the addresses of others. A full send buffer loses messages, as the wire would.
    pub(crate) fn send(&mut self, out: &Outbox, errors: &mut Errors, counts: &mut Counts) {
        for (source, hop, message) in out.iter_as() {
            match self.send_one(source, hop, message) {
                Ok(bytes) => {
                    counts.sent += 1;
                    counts.sent_bytes += bytes as u64;
                }
                Err(None) => counts.send_errors += 1,
                Err(Some(cause)) => {
                    counts.send_errors += 1;
                    errors.push(hop, cause, message, counts);
                }
            }
        }
    }

    /// `Err(None)`: it is not the receiver's fault.
    fn send_one(&mut self, source: SocketAddr, hop: Hop, message: &[u8]) -> Result<usize, Option<Cause>> {
        self.turn += 1;
        if !self.sockets.contains_key(&source) {
            self.make_room();
            let socket = bind(source).map_err(|_| None)?;
            self.sockets.insert(source, (socket, 0));
        }
        let (socket, used) = self.sockets.get_mut(&source).ok_or(None)?;
        *used = self.turn;
        socket.send_to(message, &hop.peer.into()).map_err(|error| {
            let is_full = error.kind() == io::ErrorKind::WouldBlock;
            (!is_full).then(|| Cause::from_error(&error))
        })
    }

    fn make_room(&mut self) {
        while self.sockets.len() >= self.max {
            let oldest = self.sockets.iter().min_by_key(|(_, (_, used))| *used).map(|(source, _)| *source);
            let Some(oldest) = oldest else { return };
            self.sockets.remove(&oldest);
        }
    }
}

/// Without `SO_REUSEADDR`, which would take the datagrams of a caller on this very host; with `SO_REUSEPORT`, so that
/// several shards may speak for one caller.
fn bind(source: SocketAddr) -> io::Result<Socket> {
    let socket = open(source)?;
    socket.set_reuse_port(true)?;
    if source.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&source.into())?;
    Ok(socket)
}
