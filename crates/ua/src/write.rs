//! Pieces of messages that more than one file writes.

use core::net::SocketAddr;

use tandem_base::Rng;
use tandem_sip::{NameAddr, Uri};

/// What stands for an SDP offer or answer.
pub(crate) const BODY: &[u8] =
    b"v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n";

/// Sixteen hexadecimal digits for a tag, a Call-ID or the end of a branch.
pub(crate) fn token(rng: &mut Rng) -> Vec<u8> {
    format!("{:016x}", rng.next_u64()).into_bytes()
}

/// Where a URI's octets go: its address, or `fallback` for a name.
pub(crate) fn address_of(uri: &[u8], fallback: SocketAddr) -> SocketAddr {
    let address =
        Uri::parse(uri).and_then(|uri| uri.ip().map(|ip| SocketAddr::new(ip, uri.port.unwrap_or(5060))));
    address.unwrap_or(fallback)
}

/// The URI of a Contact, Route or Record-Route value.
pub(crate) fn uri_of(value: &[u8]) -> Option<&[u8]> {
    NameAddr::parse(value).map(|address| address.uri_bytes)
}

/// The request line and the header fields that every request has; Content-Length and the body end it.
pub(crate) struct RequestHead<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a [u8],
    pub(crate) address: SocketAddr,
    pub(crate) branch: &'a [u8],
    pub(crate) rport: bool,
    pub(crate) route: &'a [Vec<u8>],
    pub(crate) max_forwards: u8,
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a [u8],
    pub(crate) call_id: &'a [u8],
    pub(crate) cseq: u32,
    /// Further lines, each with its line end.
    pub(crate) headers: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl RequestHead<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let line = |out: &mut Vec<u8>, parts: &[&[u8]]| {
            parts.iter().for_each(|part| out.extend_from_slice(part));
            out.extend_from_slice(b"\r\n");
        };
        line(out, &[self.method.as_bytes(), b" ", self.uri, b" SIP/2.0"]);
        let rport: &[u8] = if self.rport { b";rport" } else { b"" };
        let sent_by = self.address.to_string();
        line(out, &[b"Via: SIP/2.0/UDP ", sent_by.as_bytes(), b";branch=", self.branch, rport]);
        for value in self.route {
            line(out, &[b"Route: ", value]);
        }
        line(out, &[b"Max-Forwards: ", self.max_forwards.to_string().as_bytes()]);
        line(out, &[b"From: ", self.from]);
        line(out, &[b"To: ", self.to]);
        line(out, &[b"Call-ID: ", self.call_id]);
        line(out, &[b"CSeq: ", self.cseq.to_string().as_bytes(), b" ", self.method.as_bytes()]);
        out.extend_from_slice(self.headers);
        if !self.body.is_empty() {
            line(out, &[b"Content-Type: application/sdp"]);
        }
        line(out, &[b"Content-Length: ", self.body.len().to_string().as_bytes()]);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.body);
    }
}
