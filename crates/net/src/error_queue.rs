//! ICMP errors: what RFC 3261 §18.4 wants told to the transport user, and what it wants ignored.

use core::net::SocketAddr;
use std::io;
use std::os::fd::AsFd;

use crate::errors::Cause;
use crate::socket::UdpSocket;
use crate::sys;

/// An error that a peer or a router reported about a message we sent.
pub(crate) struct Reported<'a> {
    /// Where the message went.
    pub(crate) peer: SocketAddr,
    /// What was said.
    pub(crate) cause: Cause,
    /// The message as far as the report quoted it.
    pub(crate) message: &'a [u8],
}

/// Takes one entry from the error queue of `socket`.
///
/// Gives `None` for an entry that is not an error of the peer's: a lower path MTU, an exceeded TTL (§18.4 says to
/// ignore it), our own refusals, which the sender has seen already.
///
/// # Errors
///
/// `WouldBlock` when the queue is empty.
pub(crate) fn take<'a>(socket: &UdpSocket, bytes: &'a mut [u8]) -> io::Result<Option<Reported<'a>>> {
    let queued = sys::receive_error(socket.as_fd(), bytes)?;
    let Some(peer) = queued.peer else { return Ok(None) };
    let control = queued.control.0.get(..queued.control_length).unwrap_or_default();
    let cause = sys::control_messages(control).find_map(|message| match (message.level, message.kind) {
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            cause(message.data)
        }
        _ => None,
    });
    let message = bytes.get(..queued.length).unwrap_or_default();
    Ok(cause.map(|cause| Reported { peer, cause, message }))
}

/// Reads a `sock_extended_err`: errno (4 bytes), origin, ICMP type, ICMP code.
fn cause(data: &[u8]) -> Option<Cause> {
    const ICMP: u8 = 2;
    const ICMP6: u8 = 3;
    let origin = *data.get(4)?;
    let kind = *data.get(5)?;
    let code = *data.get(6)?;
    match (origin, kind, code) {
        (ICMP, 3, 3) | (ICMP6, 1, 4) => Some(Cause::PortUnreachable),
        (ICMP, 3, 4) => None, // fragmentation needed: the kernel has noted the path MTU
        (ICMP, 3 | 12, _) | (ICMP6, 1 | 4, _) => Some(Cause::Unreachable), // destination, or a parameter problem
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3261 §18.4: host, network, port, protocol unreachable and parameter problems are told; source quench and
    /// TTL exceeded are not. The numbers are ICMP's (RFC 792) and ICMPv6's (RFC 4443).
    #[test]
    fn unreachables_and_parameter_problems_are_told_and_ttl_exceeded_is_not() {
        let of = |origin, kind, code| cause(&[0, 0, 0, 0, origin, kind, code, 0]);
        assert_eq!(of(2, 3, 3), Some(Cause::PortUnreachable));
        assert_eq!(of(2, 3, 1), Some(Cause::Unreachable));
        assert_eq!(of(2, 12, 0), Some(Cause::Unreachable));
        assert_eq!(of(3, 1, 4), Some(Cause::PortUnreachable));
        assert_eq!(of(3, 4, 0), Some(Cause::Unreachable));
        assert_eq!(of(2, 3, 4), None);
        assert_eq!(of(2, 4, 0), None);
        assert_eq!(of(2, 11, 0), None);
        assert_eq!(of(3, 2, 0), None);
        assert_eq!(of(1, 0, 0), None);
    }
}
