//! `name-addr` and `addr-spec` with parameters: From, To, Contact, Route, Record-Route, Path (RFC 3261 §20.10).

use crate::Uri;
use crate::chars::{self, REQUEST_URI, TOKEN};
use crate::params::{Param, Params};

/// A display name, a URI and the header field's own parameters.
#[derive(Clone, Copy, Debug)]
pub struct NameAddr<'a> {
    /// The display name as written, quotes and all; empty without any.
    pub display: &'a [u8],
    /// The URI, not yet looked into.
    pub uri_bytes: &'a [u8],
    params: Params<'a>,
}

impl<'a> NameAddr<'a> {
    /// Reads one value. `None` if it breaks the grammar, the URI's own apart.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let value = chars::trim(value);
        let (display, after) = if value.first() == Some(&b'"') {
            let (display, after) = value.split_at_checked(chars::quoted_len(value)?)?;
            (display, chars::trim_start(after))
        } else {
            // Interop: phones write names in UTF-8 without the quotes that the grammar asks for; a call is worth more.
            let is_word = |&&b: &&u8| chars::is(b, TOKEN) || chars::is_space(b) || b >= 0x80;
            let words = value.iter().take_while(is_word).count();
            match value.get(words) {
                Some(b'<') => (chars::trim_end(value.get(..words)?), value.get(words..)?),
                _ => return Self::parse_addr_spec(value),
            }
        };
        let [b'<', inner @ ..] = after else { return None };
        let close = memchr::memchr(b'>', inner)?;
        let (uri_bytes, after) = inner.split_at_checked(close)?;
        let params = Params::new(after.get(1..)?);
        Self::checked(display, uri_bytes, params)
    }

    /// Without angle brackets every parameter is the header field's, and the URI ends at `;`, `,` or `?` (§20.10).
    fn parse_addr_spec(value: &'a [u8]) -> Option<Self> {
        let end = value.iter().position(|&b| matches!(b, b';' | b',' | b'?')).unwrap_or(value.len());
        let (uri, params) = value.split_at_checked(end)?;
        if params.first() == Some(&b'?') {
            return None;
        }
        let uri = chars::trim_end(uri);
        if !chars::all(uri, REQUEST_URI) {
            return None;
        }
        Self::checked(&[], uri, Params::new(params))
    }

    fn checked(display: &'a [u8], uri_bytes: &'a [u8], params: Params<'a>) -> Option<Self> {
        let mut walk = params;
        while walk.next().is_some() {}
        (walk.is_at_end() && !uri_bytes.is_empty()).then_some(Self { display, uri_bytes, params })
    }

    /// The URI; `None` if it breaks the grammar.
    #[must_use]
    pub fn uri(&self) -> Option<Uri<'a>> {
        Uri::parse(self.uri_bytes)
    }

    /// The header field's parameters.
    #[must_use]
    pub const fn params(&self) -> Params<'a> {
        self.params
    }

    /// One parameter by name.
    #[must_use]
    pub fn param(&self, name: &[u8]) -> Option<Param<'a>> {
        self.params.into_iter().find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// The `tag` parameter's value.
    #[must_use]
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.param(b"tag").and_then(|p| p.value)
    }
}
