//! Requests inside a call, made from the 200 that answered it: RFC 3261 §12.1.2, §12.2.1.1, §13.2.2.4.
//!
//! Nothing is kept between messages that the answer itself holds: route set, remote target, remote tag. Left out:
//! a target refresh within the call; no workload sends a second INVITE.

use core::net::{IpAddr, SocketAddr};

use memchr::memchr;

use crate::lines::{Lines, Name, uri_of, values};
use crate::load::Load;
use crate::template::put_decimal;
use crate::token::Token;

/// Most Record-Route values of one answer.
const ROUTES_MAX: usize = 16;

/// The parts of a 200 that the requests after it need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialog<'a> {
    to: &'a [u8],
    remote_target: &'a [u8],
    /// In the order of the answer: the reverse of the route set.
    record_routes: [&'a [u8]; ROUTES_MAX],
    count: usize,
}

impl<'a> Dialog<'a> {
    /// Reads an answer; `None` if it lacks To or Contact, or has too many routes.
    pub(crate) fn of(lines: Lines<'a>) -> Option<Self> {
        let mut to = None;
        let mut contact = None;
        let mut record_routes: [&[u8]; ROUTES_MAX] = [&[]; ROUTES_MAX];
        let mut count = 0;
        for line in lines {
            match line.name {
                Name::To => to = Some(line.whole),
                Name::Contact => contact = uri_of(values(line.value).next()?),
                Name::RecordRoute => {
                    for value in values(line.value) {
                        *record_routes.get_mut(count)? = value;
                        count += 1;
                    }
                }
                Name::Via
                | Name::From
                | Name::CallId
                | Name::CSeq
                | Name::WwwAuthenticate
                | Name::ProxyAuthenticate
                | Name::Other => {}
            }
        }
        Some(Self { to: to?, remote_target: contact?, record_routes, count })
    }

    fn routes(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.record_routes.into_iter().take(self.count).rev()
    }

    /// The URI that decides where the next request goes.
    pub(crate) fn next_hop(&self) -> &'a [u8] {
        self.routes().next().and_then(uri_of).unwrap_or(self.remote_target)
    }

    /// Appends a request without body.
    pub(crate) fn put(&self, out: &mut Vec<u8>, ours: &Ours, within: &Within<'_>) {
        let strict = self.routes().next().and_then(uri_of).filter(|uri| !is_loose(uri));
        out.extend_from_slice(within.method);
        out.push(b' ');
        out.extend_from_slice(strict.unwrap_or(self.remote_target));
        out.extend_from_slice(&ours.via);
        within.token.put(out, ours.run);
        out.push(within.step);
        for route in self.routes().skip(usize::from(strict.is_some())) {
            out.extend_from_slice(b"\r\nRoute: ");
            out.extend_from_slice(route);
        }
        if strict.is_some() {
            out.extend_from_slice(b"\r\nRoute: <");
            out.extend_from_slice(self.remote_target);
            out.push(b'>');
        }
        out.extend_from_slice(b"\r\nMax-Forwards: 70\r\nFrom: <sip:");
        ours.put_tail(out, self.to, within);
    }
}

/// RFC 3261 §19.1.1: `lr` says that the element routes loosely.
fn is_loose(uri: &[u8]) -> bool {
    uri.split(|&byte| byte == b';').skip(1).any(|param| {
        let name = param.split(|&byte| byte == b'=' || byte == b'?').next().unwrap_or_default();
        name.eq_ignore_ascii_case(b"lr")
    })
}

/// What tells one request inside a call from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) token: Token,
    /// Last byte of the branch.
    pub(crate) step: u8,
    pub(crate) sequence: u32,
    /// User part of From.
    pub(crate) caller: &'a [u8],
}

/// The parts of our own requests inside a call that never change.
#[derive(Debug)]
pub(crate) struct Ours {
    run: u32,
    /// From the end of the Request-URI to the branch's token.
    via: Vec<u8>,
    /// From the caller's name to the tag's token.
    from: Vec<u8>,
    /// From the Call-ID's token to the CSeq number.
    call_id: Vec<u8>,
}

impl Ours {
    pub(crate) fn new(load: &Load) -> Self {
        let (via, local) = (load.transport.via_token(), load.caller_addr);
        Self {
            run: load.run,
            via: format!(" SIP/2.0\r\nVia: SIP/2.0/{via} {local};rport;branch=z9hG4bK").into_bytes(),
            from: format!("@{}>;tag=", load.domain).into_bytes(),
            call_id: format!("@{}\r\nCSeq: ", local.ip()).into_bytes(),
        }
    }

    fn put_tail(&self, out: &mut Vec<u8>, to: &[u8], within: &Within<'_>) {
        out.extend_from_slice(within.caller);
        out.extend_from_slice(&self.from);
        within.token.put(out, self.run);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(to);
        out.extend_from_slice(b"Call-ID: ");
        within.token.put(out, self.run);
        out.extend_from_slice(&self.call_id);
        put_decimal(out, within.sequence);
        out.push(b' ');
        out.extend_from_slice(within.method);
        out.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
    }

    /// Appends a request that goes where the INVITE went, with its URI and branch: the ACK for an answer other than 2xx,
    /// with that answer's To (RFC 3261 §17.1.1.3), or a CANCEL (§9.1).
    pub(crate) fn put_beside(&self, out: &mut Vec<u8>, uri: &[u8], to: &[u8], within: &Within<'_>) {
        out.extend_from_slice(within.method);
        out.push(b' ');
        out.extend_from_slice(uri);
        out.extend_from_slice(&self.via);
        within.token.put(out, self.run);
        out.push(within.step);
        out.extend_from_slice(b"\r\nMax-Forwards: 70\r\nFrom: <sip:");
        self.put_tail(out, to, within);
    }
}

/// Addresses of URIs seen before: route sets of a load have few different first hops.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    known: Vec<(Box<[u8]>, SocketAddr)>,
}

impl Hops {
    const KNOWN_MAX: usize = 64;

    /// The address that a SIP URI with a literal IP address names; `None` for a host name.
    pub(crate) fn resolve(&mut self, uri: &[u8]) -> Option<SocketAddr> {
        let host_port = host_port(uri)?;
        if let Some((_, addr)) = self.known.iter().find(|(text, _)| **text == *host_port) {
            return Some(*addr);
        }
        let text = core::str::from_utf8(host_port).ok()?;
        let ip = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let addr = text.parse().ok().or_else(|| Some(SocketAddr::new(ip(text).ok()?, 5060)))?;
        if self.known.len() < Self::KNOWN_MAX {
            self.known.push((host_port.into(), addr));
        }
        Some(addr)
    }
}

/// `host:port` of a SIP URI.
pub(crate) fn host_port(uri: &[u8]) -> Option<&[u8]> {
    let colon = memchr(b':', uri)?;
    let (scheme, rest) = uri.split_at_checked(colon)?;
    if !scheme.eq_ignore_ascii_case(b"sip") && !scheme.eq_ignore_ascii_case(b"sips") {
        return None;
    }
    let rest = rest.get(1..)?;
    let rest = memchr(b'@', rest).and_then(|at| rest.get(at + 1..)).unwrap_or(rest);
    let end = rest.iter().position(|byte| b";?>".contains(byte)).unwrap_or(rest.len());
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::split;

    const ANSWER: &[u8] = b"SIP/2.0 200 OK\r\nVia: x\r\nRecord-Route: <sip:p2:5070;lr>, <sip:10.0.0.9:5080;lr>\r\n\
        Record-Route: <sip:10.0.0.1;lr=on>\r\nTo: <sip:b@d>;tag=q\r\nContact: \"B\" <sip:b@10.0.0.2:9>;x\r\n\r\n";

    #[test]
    fn the_route_set_is_the_record_route_reversed() {
        let dialog = Dialog::of(split(ANSWER).unwrap().1).unwrap();
        let routes: Vec<_> = dialog.routes().map(|r| core::str::from_utf8(r).unwrap()).collect();
        assert_eq!(routes, ["<sip:10.0.0.1;lr=on>", "<sip:10.0.0.9:5080;lr>", "<sip:p2:5070;lr>"]);
        assert_eq!(dialog.remote_target, b"sip:b@10.0.0.2:9");
        let mut hops = Hops::default();
        assert_eq!(hops.resolve(dialog.next_hop()), Some("10.0.0.1:5060".parse().unwrap()));
        assert_eq!(hops.resolve(b"sip:p2:5070;lr"), None);
        assert_eq!(hops.resolve(b"sip:a@[::1]:7"), Some("[::1]:7".parse().unwrap()));
    }

    #[test]
    fn a_strict_first_route_becomes_the_request_uri_and_the_target_the_last_route() {
        let text =
            b"SIP/2.0 200 OK\r\nRecord-Route: <sip:10.0.0.1>\r\nTo: <sip:b@d>;tag=q\r\nm: <sip:b@c>\r\n\r\n";
        let dialog = Dialog::of(split(text).unwrap().1).unwrap();
        let ours = Ours { run: 0, via: b"V".to_vec(), from: vec![], call_id: vec![] };
        let mut out = Vec::new();
        let token = Token { slot: 0, serial: 0 };
        let within = Within { method: b"ACK", token, step: b'a', sequence: 1, caller: b"c" };
        dialog.put(&mut out, &ours, &within);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("ACK sip:10.0.0.1V"), "{text}");
        assert!(text.contains("\r\nRoute: <sip:b@c>\r\n") && text.matches("Route").count() == 1, "{text}");
    }
}
