//! The header lines of a message, cut in one pass: enough for an end that knows its own messages.
//!
//! RFC 3261 §7.3 with compact forms (§7.3.3) and folding (§7.3.1). Nothing is decoded; a caller that needs more than
//! the raw value hands the message to `tandem_sip`. Left out: header fields that neither end of a test call reads.

use memchr::memchr;

/// The header fields that the ends look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    Via,
    RecordRoute,
    From,
    To,
    CallId,
    CSeq,
    Contact,
    WwwAuthenticate,
    ProxyAuthenticate,
    Other,
}

/// One header line: its name, its raw value without the line's end, and the whole of it with the line's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) name: Name,
    pub(crate) value: &'a [u8],
    pub(crate) whole: &'a [u8],
}

/// Iterates over the header lines after the start line; ends at the empty line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    rest: &'a [u8],
}

/// The start line of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start<'a> {
    Response { status: u16 },
    Request { method: &'a [u8], uri: &'a [u8] },
}

/// Cuts the start line off; `None` if it is neither a status line nor a request line of SIP/2.0.
pub(crate) fn split(message: &[u8]) -> Option<(Start<'_>, Lines<'_>)> {
    let end = memchr(b'\n', message)?;
    let (line, rest) = message.split_at_checked(end + 1)?;
    let line = trim_end(line);
    let lines = Lines { rest };
    if let Some(status) = line.strip_prefix(b"SIP/2.0 ") {
        let &[a, b, c, ref reason @ ..] = status else { return None };
        let digit = |d: u8| d.is_ascii_digit().then(|| u16::from(d - b'0'));
        let status = digit(a)? * 100 + digit(b)? * 10 + digit(c)?;
        let ends = reason.first().is_none_or(|&b| b == b' ');
        return ((100..700).contains(&status) && ends).then_some((Start::Response { status }, lines));
    }
    let line = line.strip_suffix(b" SIP/2.0")?;
    let space = memchr(b' ', line)?;
    let (method, uri) = line.split_at_checked(space)?;
    let uri = uri.get(1..)?;
    (!method.is_empty() && !uri.is_empty() && memchr(b' ', uri).is_none())
        .then_some((Start::Request { method, uri }, lines))
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        let mut end = memchr(b'\n', self.rest)? + 1;
        if matches!(self.rest.first(), Some(b'\r' | b'\n')) {
            self.rest = &[];
            return None;
        }
        while matches!(self.rest.get(end), Some(b' ' | b'\t')) {
            end += memchr(b'\n', self.rest.get(end..)?)? + 1;
        }
        let (whole, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        let Some(colon) = memchr(b':', whole) else {
            return Some(Line { name: Name::Other, value: &[], whole });
        };
        let (name, value) = whole.split_at_checked(colon)?;
        Some(Line { name: Name::of(name.trim_ascii_end()), value: value.get(1..)?.trim_ascii(), whole })
    }
}

impl Name {
    #[inline]
    fn of(name: &[u8]) -> Self {
        let is = |text: &[u8]| name.eq_ignore_ascii_case(text);
        let Some(first) = name.first() else { return Self::Other };
        match (first | 0x20, name.len()) {
            (b'v', 1 | 3) if name.len() == 1 || is(b"via") => Self::Via,
            (b'r', 12) if is(b"record-route") => Self::RecordRoute,
            (b'f', 1 | 4) if name.len() == 1 || is(b"from") => Self::From,
            (b't', 1 | 2) if name.len() == 1 || is(b"to") => Self::To,
            (b'i', 1) => Self::CallId,
            (b'm', 1) => Self::Contact,
            (b'c', 7) if is(b"call-id") => Self::CallId,
            (b'c', 7) if is(b"contact") => Self::Contact,
            (b'c', 4) if is(b"cseq") => Self::CSeq,
            (b'w', 16) if is(b"www-authenticate") => Self::WwwAuthenticate,
            (b'p', 18) if is(b"proxy-authenticate") => Self::ProxyAuthenticate,
            _ => Self::Other,
        }
    }
}

/// The URI of a `name-addr` or `addr-spec` (RFC 3261 §20.10): between the angle brackets, or up to the first parameter.
pub(crate) fn uri_of(value: &[u8]) -> Option<&[u8]> {
    let uri = match memchr(b'<', after_display_name(value)?) {
        Some(open) => {
            let inner = after_display_name(value)?.get(open + 1..)?;
            inner.get(..memchr(b'>', inner)?)?
        }
        None => value.get(..memchr(b';', value).unwrap_or(value.len()))?.trim_ascii(),
    };
    (!uri.is_empty() && memchr(b'\n', uri).is_none()).then_some(uri)
}

/// Skips a quoted display name, in which an angle bracket means nothing.
fn after_display_name(value: &[u8]) -> Option<&[u8]> {
    if value.first() != Some(&b'"') {
        return Some(value);
    }
    let mut escaped = false;
    for (place, &byte) in value.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return value.get(place + 1..),
            _ => {}
        }
    }
    None
}

/// The value of a `;name=` parameter outside the angle brackets; `name` in lower case.
pub(crate) fn param<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let after = after_display_name(value)?;
    let params = memchr(b'>', after).and_then(|end| after.get(end..)).unwrap_or(after);
    params.split(|&byte| byte == b';').skip(1).find_map(|param| {
        let equals = memchr(b'=', param)?;
        let (key, rest) = param.split_at_checked(equals)?;
        key.trim_ascii().eq_ignore_ascii_case(name).then_some(rest.get(1..)?.trim_ascii())
    })
}

/// Splits a header field value at its top-level commas (RFC 3261 §7.3.1).
pub(crate) fn values(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped, mut angle) = (false, false, false);
    value
        .split(move |&byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' if !angle => quoted = !quoted,
                b'<' if !quoted => angle = true,
                b'>' if !quoted => angle = false,
                b',' => return !quoted && !angle,
                _ => {}
            }
            false
        })
        .map(<[u8]>::trim_ascii)
        .filter(|value| !value.is_empty())
}

fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_line_is_one_line_and_the_body_is_none() {
        let text = b"SIP/2.0 200 OK\r\nv: SIP/2.0/UDP a\r\nTo: \"a<b\" <sip:x@y>\r\n ;tag=1\r\nCSeq : 1 BYE\r\n\r\nVia: no\r\n";
        let (start, lines) = split(text).unwrap();
        assert_eq!(start, Start::Response { status: 200 });
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.iter().map(|l| l.name).collect::<Vec<_>>(), [Name::Via, Name::To, Name::CSeq]);
        assert_eq!(uri_of(lines[1].value), Some(&b"sip:x@y"[..]));
        assert_eq!(param(lines[1].value, b"tag"), Some(&b"1"[..]));
    }

    #[test]
    fn start_lines_that_are_none_are_refused() {
        for bad in [
            &b"SIP/2.0 2000 OK\r\n"[..],
            b"SIP/2.0 20x OK\r\n",
            b"INVITE SIP/2.0\r\n",
            b"GET / HTTP/1.1\r\n",
            b"x",
        ] {
            assert!(split(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn commas_split_values_only_outside_brackets_and_quotes() {
        let found: Vec<_> = values(b"<sip:a;x=\",\">, \"q,\\\" \" <sip:b,c> ,<sip:d>").collect();
        assert_eq!(found, [&b"<sip:a;x=\",\">"[..], b"\"q,\\\" \" <sip:b,c>", b"<sip:d>"]);
    }
}
