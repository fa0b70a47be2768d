//! Answers written from the request they answer (RFC 3261 §8.2.6), and the pieces that forwarding shares with them.

use core::net::{IpAddr, SocketAddr};

use crate::edit::write_unfolded;
use crate::{HeaderName, Message, Via, chars};

/// An answer to a request: Via, From, To, Call-ID and CSeq are the request's (RFC 3261 §8.2.6.2).
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The status code.
    pub status: u16,
    /// The reason phrase; the RFC's own if `None`.
    pub reason: Option<&'a [u8]>,
    /// Where the request came from, for `received` and `rport` in the topmost Via; `None` leaves it as it is.
    pub source: Option<SocketAddr>,
    /// The tag to put on a To that has none; `None` (only for a 100) leaves it without.
    pub to_tag: Option<&'a [u8]>,
    /// Further header field lines, each with its line end.
    pub headers: &'a [u8],
    /// The body; its Content-Type stands in `headers`.
    pub body: &'a [u8],
}

impl<'a> Reply<'a> {
    /// An answer with nothing but a status code and a tag.
    #[must_use]
    pub const fn new(status: u16, source: SocketAddr, to_tag: &'a [u8]) -> Self {
        Self { status, reason: None, source: Some(source), to_tag: Some(to_tag), headers: b"", body: b"" }
    }

    /// Writes the answer to the end of `out`.
    pub fn write(&self, request: &Message<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"SIP/2.0 ");
        write_number(out, u64::from(self.status));
        out.push(b' ');
        out.extend_from_slice(self.reason.unwrap_or_else(|| reason_phrase(self.status).as_bytes()));
        out.extend_from_slice(b"\r\n");
        let mut top = true;
        for field in request.fields(HeaderName::Via) {
            out.extend_from_slice(b"Via: ");
            match (self.source, field.values().next()) {
                (Some(source), Some(first)) if top => {
                    write_via_received(out, first.bytes, request.via(), source);
                    let behind = (first.span.end - field.value_span.start) as usize;
                    write_unfolded(out, field.value.get(behind..).unwrap_or_default());
                    top = false;
                }
                _ => write_unfolded(out, field.value),
            }
            out.extend_from_slice(b"\r\n");
        }
        // Timestamp goes into a 100 (§8.2.6.1); any other answer may carry it too.
        for name in
            [HeaderName::From, HeaderName::To, HeaderName::CallId, HeaderName::CSeq, HeaderName::Timestamp]
        {
            let Some(value) = request.header(name) else { continue };
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            write_unfolded(out, value);
            if name == HeaderName::To
                && let Some(tag) = self.to_tag
                && request.to().is_none_or(|to| to.tag().is_none())
            {
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(tag);
            }
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(self.headers);
        out.extend_from_slice(b"Content-Length: ");
        write_number(out, self.body.len() as u64);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(self.body);
    }
}

/// Writes a Via value with `received` and `rport` as the element that got it must (RFC 3261 §18.2.1, RFC 3581 §4).
///
/// What the sender wrote there itself is overwritten, so that no one can point our answers elsewhere. `via` is what
/// `value` says.
pub fn write_via_received(out: &mut Vec<u8>, value: &[u8], via: &Via<'_>, source: SocketAddr) {
    let ip = source.ip().to_canonical();
    let needs_received = via.rport.is_some() || crate::host_ip(via.host) != Some(ip);
    if via.received.is_none() && via.rport.is_none() {
        write_unfolded(out, value);
    } else {
        let params = via.params().bytes();
        let before = value.len().checked_sub(params.len()).and_then(|len| value.get(..len));
        write_unfolded(out, chars::trim_end(before.unwrap_or(value)));
        for param in via.params() {
            if param.name.eq_ignore_ascii_case(b"received") || param.name.eq_ignore_ascii_case(b"rport") {
                continue;
            }
            out.push(b';');
            out.extend_from_slice(param.name);
            if let Some(value) = param.value {
                out.push(b'=');
                write_unfolded(out, value);
            }
        }
    }
    if needs_received {
        out.extend_from_slice(b";received=");
        write_ip(out, ip, false);
    }
    if via.rport.is_some() {
        out.extend_from_slice(b";rport=");
        write_number(out, u64::from(source.port()));
    }
}

/// Writes `host:port` for a Via, URI or address list; an IPv6 address gets its brackets.
pub fn write_sent_by(out: &mut Vec<u8>, address: SocketAddr) {
    write_ip(out, address.ip().to_canonical(), true);
    out.push(b':');
    write_number(out, u64::from(address.port()));
}

fn write_ip(out: &mut Vec<u8>, ip: IpAddr, brackets: bool) {
    match ip {
        IpAddr::V4(ip) => {
            for (i, octet) in ip.octets().into_iter().enumerate() {
                if i > 0 {
                    out.push(b'.');
                }
                write_number(out, u64::from(octet));
            }
        }
        IpAddr::V6(ip) => {
            let text = ip.to_string();
            if brackets {
                out.push(b'[');
            }
            out.extend_from_slice(text.as_bytes());
            if brackets {
                out.push(b']');
            }
        }
    }
}

/// Writes a number in decimal.
pub fn write_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0_u8; 20];
    let mut left = number;
    let mut at = digits.len();
    for digit in digits.iter_mut().rev() {
        // `left % 10` is a digit.
        *digit = b'0' + u8::try_from(left % 10).unwrap_or(0);
        left /= 10;
        at -= 1;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

/// The reason phrase of a status code (RFC 3261 §21 and the extensions we answer with).
#[must_use]
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        183 => "Session Progress",
        200 => "OK",
        202 => "Accepted",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        305 => "Use Proxy",
        380 => "Alternative Service",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        410 => "Gone",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        420 => "Bad Extension",
        421 => "Extension Required",
        423 => "Interval Too Brief",
        430 => "Flow Failed",
        439 => "First Hop Lacks Outbound Support",
        440 => "Max-Breadth Exceeded",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        484 => "Address Incomplete",
        485 => "Ambiguous",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        491 => "Request Pending",
        493 => "Undecipherable",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Server Time-out",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        580 => "Precondition Failure",
        600 => "Busy Everywhere",
        603 => "Decline",
        604 => "Does Not Exist Anywhere",
        606 => "Not Acceptable",
        _ => "Unknown",
    }
}
