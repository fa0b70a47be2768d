//! Answers to requests: RFC 3261 §8.2.6.2, §12.1.1 and the `rport` of RFC 3581, by copying lines as they stand.

use core::fmt::Write;
use core::net::SocketAddr;

use memchr::memmem;

use crate::lines::{Lines, Name, param};

/// What an answer has that the request has not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'a> {
    /// `SIP/2.0 200 OK`, without the line's end.
    pub(crate) status_line: &'a [u8],
    /// Tag put on a To that has none; empty puts none.
    pub(crate) tag: &'a [u8],
    /// Record-Route is copied (answers that make a dialog).
    pub(crate) routes: bool,
    /// Contact is copied (answers to REGISTER).
    pub(crate) contacts: bool,
    /// The rest: header lines, empty line, body.
    pub(crate) rest: &'a [u8],
}

/// Remembers the text of `received` and `rport` for the last source, since sources seldom change.
#[derive(Debug)]
pub(crate) struct Source {
    addr: Option<SocketAddr>,
    rport: String,
    asked: memmem::Finder<'static>,
}

impl Source {
    pub(crate) fn new() -> Self {
        Self { addr: None, rport: String::new(), asked: memmem::Finder::new(b";rport") }
    }

    fn rport(&mut self, addr: SocketAddr) -> &[u8] {
        if self.addr != Some(addr) {
            self.addr = Some(addr);
            self.rport.clear();
            // Writing to a string cannot fail.
            let _ = write!(self.rport, "={};received={}", addr.port(), addr.ip());
        }
        self.rport.as_bytes()
    }

    /// Appends the answer to a request that came from `peer`.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, lines: Lines<'_>, peer: SocketAddr, reply: &Reply<'_>) {
        out.extend_from_slice(reply.status_line);
        out.extend_from_slice(b"\r\n");
        let mut top = true;
        for line in lines {
            match line.name {
                Name::Via if top => {
                    top = false;
                    self.put_top_via(out, line.whole, peer);
                }
                Name::RecordRoute if reply.routes => out.extend_from_slice(line.whole),
                Name::Contact if reply.contacts => out.extend_from_slice(line.whole),
                Name::Via | Name::From | Name::CallId | Name::CSeq => out.extend_from_slice(line.whole),
                Name::To if reply.tag.is_empty() || param(line.value, b"tag").is_some() => {
                    out.extend_from_slice(line.whole)
                }
                Name::To => {
                    out.extend_from_slice(line.whole.trim_ascii_end());
                    out.extend_from_slice(b";tag=");
                    out.extend_from_slice(reply.tag);
                    out.extend_from_slice(b"\r\n");
                }
                Name::RecordRoute
                | Name::Contact
                | Name::WwwAuthenticate
                | Name::ProxyAuthenticate
                | Name::Other => {}
            }
        }
        out.extend_from_slice(reply.rest);
    }

    fn put_top_via(&mut self, out: &mut Vec<u8>, line: &[u8], peer: SocketAddr) {
        let first_end = memchr::memchr(b',', line).unwrap_or(line.len());
        let asked = line.get(..first_end).and_then(|via| self.asked.find(via)).map(|at| at + b";rport".len());
        match asked.and_then(|at| line.split_at_checked(at)) {
            Some((before, after)) if !after.starts_with(b"=") => {
                out.extend_from_slice(before);
                out.extend_from_slice(self.rport(peer));
                out.extend_from_slice(after);
            }
            _ => out.extend_from_slice(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::split;

    #[test]
    fn an_answer_copies_what_the_rfc_says_and_fills_rport() {
        let request = b"INVITE sip:b@d SIP/2.0\r\nVia: SIP/2.0/UDP p;rport;branch=z9hG4bK2\r\nv: SIP/2.0/UDP a;rport\r\n\
            Record-Route: <sip:p;lr>\r\nf: <sip:a@d>;tag=1\r\nTo: <sip:b@d>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nSubject: x\r\n\r\nv=0";
        let (_, lines) = split(request).unwrap();
        let mut out = Vec::new();
        let reply = Reply {
            status_line: b"SIP/2.0 200 OK",
            tag: b"t",
            routes: true,
            contacts: false,
            rest: b"l: 0\r\n\r\n",
        };
        Source::new().put(&mut out, lines, "1.2.3.4:5".parse().unwrap(), &reply);
        let want = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP p;rport=5;received=1.2.3.4;branch=z9hG4bK2\r\nv: SIP/2.0/UDP a;rport\r\n\
            Record-Route: <sip:p;lr>\r\nf: <sip:a@d>;tag=1\r\nTo: <sip:b@d>;tag=t\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nl: 0\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
