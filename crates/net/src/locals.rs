//! Which of our addresses a peer talks to, for sockets bound to a wildcard (RFC 3261 §18.2.2).
//!
//! A [`Hop`](tandem_sip::Hop) names listener and peer, not which of a wildcard's addresses the peer used. This table
//! remembers it per peer. It is a cache of fixed size: a peer that was forgotten gets the address the kernel would
//! choose, so filling it up costs an attacker's victims nothing but that.

use core::net::{IpAddr, SocketAddr};

/// Peers remembered per socket.
const SLOTS: usize = 4096;

/// Peer to local address, one candidate per slot; a newer peer replaces an older one.
pub(crate) struct Locals(Box<[Option<(SocketAddr, IpAddr)>]>);

impl Locals {
    pub(crate) fn new() -> Self {
        Self(vec![None; SLOTS].into())
    }

    /// Remembers that `peer` sent to `local`.
    pub(crate) fn learn(&mut self, peer: SocketAddr, local: IpAddr) {
        if let Some(slot) = self.0.get_mut(slot(peer)) {
            *slot = Some((peer, local));
        }
    }

    /// The address that `peer` last sent to.
    pub(crate) fn of(&self, peer: SocketAddr) -> Option<IpAddr> {
        let (known, local) = (*self.0.get(slot(peer))?)?;
        (known == peer).then_some(local)
    }
}

/// FNV-1a over address and port.
fn slot(peer: SocketAddr) -> usize {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = match peer.ip() {
        IpAddr::V4(v4) => v4.octets().into_iter().fold(0xcbf2_9ce4_8422_2325, fold),
        IpAddr::V6(v6) => v6.octets().into_iter().fold(0xcbf2_9ce4_8422_2325, fold),
    };
    let hash = peer.port().to_be_bytes().into_iter().fold(hash, fold);
    usize::try_from(hash >> 32).unwrap_or_default() % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_a_peer_sent_to_is_remembered_and_no_other_peer_gets_it() {
        let mut locals = Locals::new();
        let peer: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let other: SocketAddr = "192.0.2.1:5061".parse().unwrap();
        locals.learn(peer, "198.51.100.1".parse().unwrap());
        locals.learn(peer, "198.51.100.2".parse().unwrap());
        assert_eq!(locals.of(peer), Some("198.51.100.2".parse().unwrap()));
        assert_eq!(locals.of(other), None);
    }
}
