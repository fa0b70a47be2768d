//! The forwarded message: the received octets with a few edits (RFC 3261 §16.6).

use core::net::SocketAddr;

use tandem_sip::{
    Edits, HeaderName, Hop, Listeners, Message, Method, Outbox, Uri, Via, write_number, write_sent_by,
    write_via_received,
};

use crate::Balancer;
use crate::config::MAX_FORWARDS;
use crate::route::Routed;
use crate::token::{DestinationTag, Direction, PARAMETER, RETURN_PARAMETER, Signer, Token};

/// One request on its way.
#[derive(Clone, Copy)]
pub(crate) struct Forward<'a> {
    pub(crate) request: &'a Message<'a>,
    pub(crate) routed: &'a Routed<'a>,
    pub(crate) from: Hop,
    pub(crate) to: Hop,
    pub(crate) direction: Direction,
    pub(crate) tag: DestinationTag,
    /// What our Record-Route says; `None` for no Record-Route.
    pub(crate) token: Option<&'a Token>,
    /// Whether we add a Via.
    pub(crate) has_via: bool,
    /// Whether it leaves under the address it came from.
    pub(crate) disguised: bool,
}

impl Balancer {
    pub(crate) fn write(&mut self, forward: &Forward<'_>, out: &mut Outbox) {
        let (listeners, signer, edits) = (&self.listeners, &self.signer, &mut self.edits);
        let write = |out: &mut Vec<u8>| write_request(listeners, signer, edits, forward, out);
        if forward.disguised {
            out.write_as(forward.from.peer, forward.to, write);
        } else {
            out.write(forward.to, write);
        }
    }

    /// A 302 to the destination: the caller goes there itself (RFC 3261 §8.3).
    pub(crate) fn redirect(&mut self, hop: Hop, request: &Message<'_>, to: Hop, out: &mut Outbox) {
        if request.method() == Method::Ack {
            return;
        }
        self.counters.redirected += 1;
        let mut headers = b"Contact: <".to_vec();
        match Uri::parse(request.request_uri()) {
            Some(uri) => write_uri_at(&uri, to, &mut headers),
            None => headers.extend_from_slice(request.request_uri()),
        }
        headers.extend_from_slice(b">\r\n");
        self.answer(hop, request, 302, None, &headers, out);
    }
}

pub(crate) fn write_request(
    listeners: &Listeners,
    signer: &Signer,
    edits: &mut Edits,
    forward: &Forward<'_>,
    out: &mut Vec<u8>,
) {
    let Forward { request, routed, from, to, .. } = *forward;
    edits.clear();
    match request.number(HeaderName::MaxForwards) {
        Ok(Some(hops)) => edits.set(request, HeaderName::MaxForwards, |out| {
            write_number(out, u64::from(hops.saturating_sub(1)));
        }),
        _ => edits.set(request, HeaderName::MaxForwards, |out| write_number(out, MAX_FORWARDS)),
    }
    // Our own address in the Request-URI stands for the pool; the destination answers for its own (§16.5).
    if let Some(uri) = routed.uri.filter(|_| routed.is_ours && forward.direction == Direction::In) {
        edits.replace(request.request_uri_span(), |out| write_uri_at(&uri, to, out));
    }
    // The Via that came: where it came from (§18.2.1).
    let via = request.via();
    let is_elsewhere = tandem_sip::host_ip(via.host) != Some(from.peer.ip());
    if forward.disguised {
        // It comes from where it came from: the destination does as §18.2.1 and RFC 3581 say, as if we were not there.
    } else if !forward.has_via {
        if let Some(value) = request.values(HeaderName::Via).next() {
            edits.replace(value.span, |out| {
                write_via_received(out, value.bytes, via, from.peer);
                out.push(b';');
                out.extend_from_slice(RETURN_PARAMETER);
                out.push(b'=');
                signer.write_return(request, from, out);
            });
        }
    } else if (via.rport.is_some() || via.received.is_some() || is_elsewhere)
        && let Some(value) = request.values(HeaderName::Via).next()
    {
        edits.replace(value.span, |out| write_via_received(out, value.bytes, via, from.peer));
    }
    if routed.own_routes > 0 {
        edits.pop_values(request, HeaderName::Route, routed.own_routes);
    }
    edits.insert(request.headers_start(), |out| {
        if forward.has_via
            && let Some(listener) = listeners.get(to.listener)
        {
            out.extend_from_slice(listener.via());
            signer.write_branch(forward.direction, forward.tag, request, from, out);
            out.extend_from_slice(b"\r\n");
        }
        let Some(token) = forward.token.filter(|_| makes_dialog(request.method())) else { return };
        // Two values where the two sides differ, so that each side sees an address it can reach (RFC 5658 §3).
        let both = [to.listener, from.listener];
        let count = if to.listener == from.listener { 1 } else { 2 };
        for listener in both.iter().take(count).filter_map(|&id| listeners.get(id)) {
            out.extend_from_slice(b"Record-Route: <");
            out.extend_from_slice(listener.route());
            out.push(b';');
            out.extend_from_slice(PARAMETER);
            out.push(b'=');
            signer.write_token(token, request.call_id(), out);
            out.extend_from_slice(b">\r\n");
        }
    });
    edits.regularise(request);
    edits.write(request, out);
}

/// The requests that make or refresh a dialog's route set (§12.1, RFC 6665 §4.1).
const fn makes_dialog(method: Method) -> bool {
    matches!(method, Method::Invite | Method::Subscribe | Method::Notify | Method::Refer)
}

/// Writes the Via value of a caller as it was, with `received` and `rport` as the caller's: what we and the destination
/// put there goes.
pub(crate) fn write_via_returned(value: &[u8], via: &Via<'_>, peer: SocketAddr, out: &mut Vec<u8>) {
    let params = via.params().bytes();
    let before = value.len().checked_sub(params.len()).and_then(|len| value.get(..len));
    out.extend_from_slice(before.unwrap_or(value));
    let is_added = |name: &[u8]| {
        [RETURN_PARAMETER, b"received", b"rport"].iter().any(|added| name.eq_ignore_ascii_case(added))
    };
    for param in via.params().filter(|param| !is_added(param.name)) {
        out.push(b';');
        out.extend_from_slice(param.name);
        if let Some(value) = param.value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    if tandem_sip::host_ip(via.host) != Some(peer.ip()) || via.rport.is_some() {
        let mut address = Vec::new();
        write_sent_by(&mut address, SocketAddr::new(peer.ip(), 0));
        out.extend_from_slice(b";received=");
        let ip = address.strip_suffix(b":0").unwrap_or(&address);
        out.extend_from_slice(ip.strip_prefix(b"[").and_then(|ip| ip.strip_suffix(b"]")).unwrap_or(ip));
    }
    if via.rport.is_some() {
        out.extend_from_slice(b";rport=");
        write_number(out, u64::from(peer.port()));
    }
}

/// Writes a URI with another address: its user part and parameters stay.
pub(crate) fn write_uri_at(uri: &Uri<'_>, to: Hop, out: &mut Vec<u8>) {
    let head = uri.bytes.iter().position(|&b| b == if uri.user.is_some() { b'@' } else { b':' });
    let (before, rest) = uri.bytes.split_at_checked(head.map_or(0, |at| at + 1)).unwrap_or_default();
    let tail = rest.iter().position(|&b| matches!(b, b';' | b'?')).unwrap_or(rest.len());
    out.extend_from_slice(before);
    write_sent_by(out, to.peer);
    out.extend_from_slice(rest.get(tail..).unwrap_or_default());
}
