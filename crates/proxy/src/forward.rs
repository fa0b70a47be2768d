//! RFC 3261 §16.6: the forwarded request is the received octets with a few edits.

use tandem_base::HashKey;
use tandem_sip::{Edits, HeaderName, Hop, Message, Span, Uri, write_number, write_via_received};

use crate::{Listeners, Routed, TargetSet, branch, cookie, cookie::Hour, targets::Target};

/// A request on its way through: as received, from where, and what §16.4 made of it.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    /// The request as received.
    pub request: Message<'a>,
    /// The hop it came by.
    pub hop: Hop,
    /// Its route.
    pub routed: Routed<'a>,
    /// The line of the credentials that were for us and were checked; it is taken out, other proxies' stay (§22.3).
    pub checked_credentials: Option<Span>,
    /// What is left of Max-Breadth for each branch, where there are several (RFC 5393 §5.3.3).
    pub breadth: Option<u32>,
}

/// What forwarding needs of the proxy.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) key: &'a HashKey,
    pub(crate) listeners: &'a Listeners,
    pub(crate) record_route: bool,
    pub(crate) max_forwards: u8,
    pub(crate) hour: Hour,
}

/// Where one copy of a request goes.
#[derive(Clone, Copy)]
pub(crate) struct Leg<'a> {
    pub(crate) set: &'a TargetSet,
    pub(crate) target: &'a Target,
    pub(crate) hop: Hop,
}

/// Writes the copy of a request that goes to one target (§16.6 steps 1 to 8).
///
/// `write_branch` writes our branch, whose loop part is handed to it.
pub(crate) fn write_request(
    rules: Rules<'_>,
    edits: &mut Edits,
    forwarding: &Forwarding<'_>,
    leg: Leg<'_>,
    out: &mut Vec<u8>,
    write_branch: impl FnOnce(&mut Vec<u8>, [u8; 16]),
) {
    let Forwarding { request, hop: from, routed, .. } = forwarding;
    let Leg { set, target, hop } = leg;
    edits.clear();
    let uri = set.uri(target);
    // Step 3: Max-Forwards. `validate` refused 0 and what is no number.
    match request.number(HeaderName::MaxForwards) {
        Ok(Some(hops)) => edits.set(request, HeaderName::MaxForwards, |out| {
            write_number(out, u64::from(hops.saturating_sub(1)))
        }),
        _ => edits
            .set(request, HeaderName::MaxForwards, |out| write_number(out, u64::from(rules.max_forwards))),
    }
    if let Some(breadth) = forwarding.breadth {
        edits.set(request, HeaderName::MaxBreadth, |out| write_number(out, u64::from(breadth)));
    }
    // Steps 2 and 6: Request-URI and route. A first route without `lr` is a strict router: it gets the Request-URI.
    edit_route(edits, request, routed, uri, set.route(target));
    // The Via that came: where it came from (§18.2.1).
    let via = request.via();
    let is_elsewhere = tandem_sip::host_ip(via.host) != Some(from.peer.ip());
    if (via.rport.is_some() || via.received.is_some() || is_elsewhere)
        && let Some(value) = request.values(HeaderName::Via).next()
    {
        edits.replace(value.span, |out| write_via_received(out, value.bytes, via, from.peer));
    }
    if let Some(line) = forwarding.checked_credentials {
        edits.remove(line);
    }
    // Steps 8 and 4: our Via, and our Record-Route, above all others.
    let loop_hash = branch::loop_hash(rules.key, request);
    edits.insert(request.headers_start(), |out| {
        if let Some(listener) = rules.listeners.get(hop.listener) {
            out.extend_from_slice(listener.via());
        }
        write_branch(out, loop_hash);
        out.extend_from_slice(b"\r\n");
        if rules.record_route && starts_dialog(request) {
            let cookie = cookie::write(rules.key, rules.hour, request);
            // Two values where the two sides differ, so that each side sees an address it can reach (RFC 5658 §3).
            let both = [hop.listener, from.listener];
            let count = if hop.listener == from.listener { 1 } else { 2 };
            for listener in both.iter().take(count).filter_map(|&id| rules.listeners.get(id)) {
                out.extend_from_slice(b"Record-Route: <");
                out.extend_from_slice(listener.route());
                out.extend_from_slice(b";c=");
                out.extend_from_slice(&cookie);
                out.extend_from_slice(b">\r\n");
            }
        }
    });
    edits.regularise(request);
    edits.write(request, out);
}

/// The requests that make or refresh a dialog's route set (§12.1, RFC 6665 §4.1); a REGISTER never gets one (§10.3).
fn starts_dialog(request: &Message<'_>) -> bool {
    use tandem_sip::Method::{Invite, Notify, Refer, Subscribe};
    matches!(request.method(), Invite | Subscribe | Notify | Refer)
}

fn edit_route(edits: &mut Edits, request: &Message<'_>, routed: &Routed<'_>, uri: &[u8], prepend: &[u8]) {
    let first =
        if prepend.is_empty() { routed.next_route } else { Some(crate::targets::first_value(prepend)) };
    let strict = first
        .and_then(tandem_sip::NameAddr::parse)
        .filter(|route| Uri::parse(route.uri_bytes).is_some_and(|uri| !uri.is_loose()))
        .map(|route| route.uri_bytes);
    let new_uri = strict.unwrap_or(uri);
    if new_uri != request.request_uri() {
        edits.replace(request.request_uri_span(), |out| out.extend_from_slice(new_uri));
    }
    if routed.own_routes == 0 && !routed.last_route_used && strict.is_none() {
        if !prepend.is_empty() {
            edits.insert(request.headers_start(), |out| write_route(out, &[prepend]));
        }
        return;
    }
    if routed.last_route_used || strict.is_some() {
        // Rare: behind or before a strict router the whole route is written anew.
        let kept = request.values(HeaderName::Route).count() - usize::from(routed.last_route_used);
        edits.insert(request.headers_start(), |out| {
            let (skip, rest) = match (strict, prepend.is_empty()) {
                (None, _) => (0, prepend),
                (Some(_), true) => (1, prepend),
                (Some(_), false) => {
                    let first = crate::targets::first_value(prepend).len();
                    (0, prepend.get(first + 1..).unwrap_or_default())
                }
            };
            let mut values = vec![rest];
            values.extend(
                request.values(HeaderName::Route).take(kept).skip(routed.own_routes + skip).map(|v| v.bytes),
            );
            let last = strict.map(|_| [b"<", uri, b">"].concat()).unwrap_or_default();
            values.push(&last);
            values.retain(|v| !v.is_empty());
            if !values.is_empty() {
                write_route(out, &values);
            }
        });
        edits.remove_all(request, HeaderName::Route);
        return;
    }
    edits.pop_values(request, HeaderName::Route, routed.own_routes);
    if !prepend.is_empty() {
        edits.insert(request.headers_start(), |out| write_route(out, &[prepend]));
    }
}

fn write_route(out: &mut Vec<u8>, values: &[&[u8]]) {
    out.extend_from_slice(b"Route: ");
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value);
    }
    out.extend_from_slice(b"\r\n");
}
