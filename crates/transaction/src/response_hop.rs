//! Where the response to a request goes: RFC 3261 §18.2.2, RFC 3581 §4.
//!
//! Left out: `maddr`. It lets anyone have us send to anyone, multicast and broadcast included, and no element that
//! needs it is left; the response goes to where the request came from.

use core::net::SocketAddr;

use tandem_sip::{Hop, Via};

/// The hop of every response to a request that came on `hop` with `via` on top.
///
/// Over a stream it is the same connection. A datagram goes back to the source address: to the source port if the
/// Via asks by `rport`, else to the port of `sent-by` or the transport's default. Never to a host that is only
/// named in the Via.
#[must_use]
pub fn response_hop(hop: Hop, via: &Via<'_>) -> Hop {
    if hop.transport.is_reliable() || via.rport.is_some() {
        return hop;
    }
    let port = via.port.unwrap_or(hop.transport.default_port());
    let mut peer: SocketAddr = hop.peer;
    peer.set_port(port);
    Hop { peer, ..hop }
}

#[cfg(test)]
mod tests {
    use tandem_sip::{ConnectionId, ListenerId, Transport};

    use super::*;

    #[test]
    fn a_response_never_leaves_the_source_address_whatever_the_via_says() {
        let source: SocketAddr = "192.0.2.9:40000".parse().unwrap();
        let udp = Hop::udp(ListenerId(3), source);
        let to = |hop, via: &[u8]| response_hop(hop, &Via::parse(via).unwrap()).peer.to_string();
        assert_eq!(to(udp, b"SIP/2.0/UDP 198.51.100.1:5070;branch=z9hG4bKa;rport"), "192.0.2.9:40000");
        assert_eq!(to(udp, b"SIP/2.0/UDP 198.51.100.1:5070;branch=z9hG4bKa"), "192.0.2.9:5070");
        assert_eq!(to(udp, b"SIP/2.0/UDP phone.example.com;branch=z9hG4bKa"), "192.0.2.9:5060");
        let forged = b"SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKa;maddr=239.1.1.1;received=203.0.113.5;rport=53";
        assert_eq!(to(udp, forged), "192.0.2.9:40000");
        let forged = b"SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKa;maddr=255.255.255.255;received=203.0.113.5";
        assert_eq!(to(udp, forged), "192.0.2.9:5060");
        let tcp = Hop { transport: Transport::Tcp, connection: Some(ConnectionId(8)), ..udp };
        let via = Via::parse(b"SIP/2.0/TCP 10.0.0.1:5070;branch=z9hG4bKa").unwrap();
        assert_eq!(response_hop(tcp, &via), tcp);
    }
}
