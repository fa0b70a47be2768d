//! The two requests that a client transaction builds itself: the ACK of a failure (RFC 3261 §17.1.1.3) and the
//! CANCEL of an INVITE (§9.1). Both are the INVITE's next-hop companions: its Request-URI, its topmost Via, its Route.

use tandem_sip::{HeaderName, Limits, Message, write_number};

/// Our own requests are read again without bounds; they were written under the TU's.
pub(crate) const OWN: Limits = Limits {
    message_bytes_max: usize::MAX,
    start_line_bytes_max: usize::MAX,
    header_bytes_max: usize::MAX,
    headers_max: usize::MAX,
    values_max: usize::MAX,
    token_bytes_max: usize::MAX,
};

/// Writes the ACK of a failure whose To has the value `to`.
pub(crate) fn ack(invite: &Message<'_>, to: &[u8], out: &mut Vec<u8>) {
    companion(invite, b"ACK", to, b"", out);
}

/// Writes the CANCEL; `headers` are further lines, each with its line end.
pub(crate) fn cancel(invite: &Message<'_>, headers: &[u8], out: &mut Vec<u8>) {
    companion(invite, b"CANCEL", invite.header(HeaderName::To).unwrap_or_default(), headers, out);
}

fn companion(invite: &Message<'_>, method: &[u8], to: &[u8], headers: &[u8], out: &mut Vec<u8>) {
    let line = |out: &mut Vec<u8>, name: HeaderName, value: &[u8]| {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    };
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(invite.request_uri());
    out.extend_from_slice(b" SIP/2.0\r\n");
    let via = invite.values(HeaderName::Via).next();
    line(out, HeaderName::Via, via.map(|via| via.bytes).unwrap_or_default());
    for route in invite.fields(HeaderName::Route) {
        line(out, HeaderName::Route, route.value);
    }
    line(out, HeaderName::MaxForwards, b"70");
    line(out, HeaderName::From, invite.header(HeaderName::From).unwrap_or_default());
    line(out, HeaderName::To, to);
    line(out, HeaderName::CallId, invite.call_id());
    out.extend_from_slice(b"CSeq: ");
    write_number(out, invite.cseq().number.into());
    out.push(b' ');
    out.extend_from_slice(method);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(headers);
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}
