//! URIs: RFC 3261 §19.1 `sip:` and `sips:`, with room for `tel:` (RFC 3966) and what we only pass on.

use core::net::{IpAddr, Ipv6Addr};

use crate::Transport;
use crate::chars::{self, HOST, PASSWORD, TOKEN, URI_HEADER, URI_PARAM, USER};
use crate::params::{Param, Params};

/// A URI's scheme.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scheme {
    /// `sip:`
    Sip,
    /// `sips:`
    Sips,
    /// `tel:` (RFC 3966).
    Tel,
    /// Any other; a proxy answers 416 where it must route it (RFC 3261 §16.3 step 2).
    Other,
}

/// A URI, looked at in place. For `tel:` and other schemes only `scheme` and `opaque` mean something.
#[derive(Clone, Copy, Debug)]
pub struct Uri<'a> {
    /// The whole URI as it stood.
    pub bytes: &'a [u8],
    /// Its scheme.
    pub scheme: Scheme,
    /// Everything after the scheme's colon.
    pub opaque: &'a [u8],
    /// The user part, escapes and all; `None` without `@`.
    pub user: Option<&'a [u8]>,
    /// The password, whose use RFC 3261 §19.1.1 advises against.
    pub password: Option<&'a [u8]>,
    /// The host: a name, an IPv4 address, or an IPv6 reference with its brackets.
    pub host: &'a [u8],
    /// The port, where one is written.
    pub port: Option<u16>,
    params: &'a [u8],
    headers: &'a [u8],
}

impl<'a> Uri<'a> {
    /// Reads a URI that fills `bytes`. `None` if it breaks the grammar.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let colon = bytes.iter().position(|&b| b == b':')?;
        let (name, opaque) = (bytes.get(..colon)?, bytes.get(colon + 1..)?);
        let scheme = if name.eq_ignore_ascii_case(b"sip") {
            Scheme::Sip
        } else if name.eq_ignore_ascii_case(b"sips") {
            Scheme::Sips
        } else {
            return Self::parse_foreign(bytes, name, opaque);
        };
        // A `?` or `;` may stand in the user part, so the `@` is looked for first; it can't stand anywhere else bare.
        let (userinfo, rest) = match memchr::memchr(b'@', opaque) {
            Some(at) => (Some(opaque.get(..at)?), opaque.get(at + 1..)?),
            None => (None, opaque),
        };
        let (user, password) = match userinfo {
            None => (None, None),
            Some(info) => {
                let (user, password) = match info.iter().position(|&b| b == b':') {
                    Some(at) => (info.get(..at)?, Some(info.get(at + 1..)?)),
                    None => (info, None),
                };
                if user.is_empty() || !chars::all_or_escaped(user, USER) {
                    return None;
                }
                if password.is_some_and(|p| !chars::all_or_escaped(p, PASSWORD)) {
                    return None;
                }
                (Some(user), password)
            }
        };
        let (host, port, rest) = host_port(rest)?;
        let (params, headers) = match rest.iter().position(|&b| b == b'?') {
            Some(at) => (rest.get(..at)?, rest.get(at + 1..)?),
            None => (rest, &[][..]),
        };
        let uri = Self { bytes, scheme, opaque, user, password, host, port, params, headers };
        (params_are_valid(params) && (rest.len() == params.len() || headers_are_valid(headers)))
            .then_some(uri)
    }

    fn parse_foreign(bytes: &'a [u8], name: &'a [u8], opaque: &'a [u8]) -> Option<Self> {
        let first = *name.first()?;
        let rest_is_scheme = |&b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
        if !first.is_ascii_alphabetic() || !name.iter().all(rest_is_scheme) || opaque.is_empty() {
            return None;
        }
        // RFC 3986 §2: reserved, unreserved and escapes; no space, quote, angle bracket or control.
        if opaque.iter().any(|&b| b <= b' ' || b >= 0x7F || matches!(b, b'<' | b'>' | b'"')) {
            return None;
        }
        let scheme = if name.eq_ignore_ascii_case(b"tel") { Scheme::Tel } else { Scheme::Other };
        let params = match opaque.iter().position(|&b| b == b';') {
            Some(at) if scheme == Scheme::Tel => opaque.get(at..)?,
            _ => &[],
        };
        Some(Self {
            bytes,
            scheme,
            opaque,
            user: None,
            password: None,
            host: &[],
            port: None,
            params,
            headers: &[],
        })
    }

    /// Whether it is `sip:` or `sips:`, the two a proxy routes by host.
    #[must_use]
    pub const fn is_sip(&self) -> bool {
        matches!(self.scheme, Scheme::Sip | Scheme::Sips)
    }

    /// The URI's parameters in order.
    #[must_use]
    pub fn params(&self) -> Params<'a> {
        Params::new(self.params)
    }

    /// The parameters as they stand, from the first `;` on; empty without any.
    #[must_use]
    pub const fn params_bytes(&self) -> &'a [u8] {
        self.params
    }

    /// One parameter by name.
    #[must_use]
    pub fn param(&self, name: &[u8]) -> Option<Param<'a>> {
        self.params().find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// Whether the `lr` parameter says loose routing (RFC 3261 §16.12.1.1).
    #[must_use]
    pub fn is_loose(&self) -> bool {
        self.param(b"lr").is_some()
    }

    /// The `transport` parameter: `Err` names one that we do not speak.
    ///
    /// # Errors
    ///
    /// The value, where it is no transport of [`Transport`].
    pub fn transport(&self) -> Result<Option<Transport>, &'a [u8]> {
        match self.param(b"transport") {
            None => Ok(None),
            Some(param) => {
                let value = param.value.unwrap_or_default();
                Transport::from_token(value).map(Some).ok_or(value)
            }
        }
    }

    /// The header part (`?Subject=..`), without its `?`; empty without any.
    #[must_use]
    pub const fn headers(&self) -> &'a [u8] {
        self.headers
    }

    /// The host as an address, if it is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        host_ip(self.host)
    }

    fn has_many_parts(&self) -> bool {
        self.params().nth(COMPARED_PARTS_MAX).is_some()
            || self.headers.split(|&b| b == b'&').nth(COMPARED_PARTS_MAX).is_some()
    }

    /// Whether two URIs are equal by RFC 3261 §19.1.4, or for `tel:` by RFC 3966 §4. Other schemes are compared octet
    /// by octet, and so are URIs with more than 32 parameters or header fields, which costs at most their length.
    ///
    /// The relation is not transitive: a URI without, say, a `foo` parameter equals one with any `foo`.
    #[must_use]
    pub fn is_equal(&self, other: &Uri<'_>) -> bool {
        if self.scheme != other.scheme {
            return false;
        }
        if self.bytes == other.bytes {
            return true;
        }
        if self.scheme == Scheme::Tel {
            return same_tel(self, other);
        }
        if !self.is_sip() || self.has_many_parts() || other.has_many_parts() {
            return false;
        }
        let same_user = match (self.user, other.user) {
            (None, None) => true,
            (Some(a), Some(b)) => same_unescaped(a, b, false),
            (None, Some(_)) | (Some(_), None) => false,
        };
        let same_password = match (self.password, other.password) {
            (None, None) => true,
            (Some(a), Some(b)) => same_unescaped(a, b, false),
            (None, Some(_)) | (Some(_), None) => false,
        };
        same_user
            && same_password
            && same_host(self.host, other.host)
            && self.port == other.port
            && params_match(self.params(), other.params())
            && params_match(other.params(), self.params())
            && same_headers(self.headers, other.headers)
    }
}

/// Beyond these, comparing each parameter with each would cost the square of a long URI.
const COMPARED_PARTS_MAX: usize = 32;

/// Reads `host [":" port]` from the front; also hands back what follows, which must start a parameter or header part.
fn host_port(bytes: &[u8]) -> Option<(&[u8], Option<u16>, &[u8])> {
    let end = bytes.iter().position(|&b| matches!(b, b';' | b'?')).unwrap_or(bytes.len());
    let (host_port, rest) = bytes.split_at_checked(end)?;
    let (host, port) = split_host_port(host_port)?;
    Some((host, port, rest))
}

/// Reads `host [":" port]` that fills `bytes`; the port is 1 to 65535.
pub(crate) fn split_host_port(bytes: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let (host, rest) = if bytes.first() == Some(&b'[') {
        let (host, rest) = bytes.split_at_checked(memchr::memchr(b']', bytes)? + 1)?;
        host_ip(host)?;
        (host, rest)
    } else {
        chars::take(bytes, HOST)
    };
    match rest {
        _ if host.is_empty() => None,
        [] => Some((host, None)),
        [b':', digits @ ..] => {
            let port = u16::try_from(chars::decimal(digits)?).ok().filter(|&p| p != 0)?;
            Some((host, Some(port)))
        }
        _ => None,
    }
}

/// The address that a host is, with or without the brackets of an IPv6 reference.
#[must_use]
pub fn host_ip(host: &[u8]) -> Option<IpAddr> {
    match host {
        [b'[', inner @ .., b']'] => ipv6(inner).map(IpAddr::V6),
        [first, ..] if first.is_ascii_digit() || host.contains(&b':') => {
            let text = core::str::from_utf8(host).ok()?;
            text.parse().ok().or_else(|| ipv6(host).map(IpAddr::V6))
        }
        _ => None,
    }
}

/// An IPv6 address. One colon too many before an IPv4 part, which RFC 3261's grammar wrongly allows, is passed over
/// (RFC 5118 §4.10).
fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    let address = core::str::from_utf8(text).ok()?;
    match address.split_once(":::") {
        None => address.parse().ok(),
        Some((head, tail)) if tail.contains('.') && address.len() <= 45 => {
            format!("{head}::{tail}").parse().ok()
        }
        Some(_) => None,
    }
}

/// Whether two hosts are the same: names without regard to case, addresses by value (RFC 3261 §19.1.4).
#[must_use]
pub fn same_host(a: &[u8], b: &[u8]) -> bool {
    a.eq_ignore_ascii_case(b) || host_ip(a).is_some_and(|ip| host_ip(b) == Some(ip))
}

fn params_are_valid(params: &[u8]) -> bool {
    let mut rest = params;
    while let [b';', tail @ ..] = rest {
        let end = memchr::memchr(b';', tail).unwrap_or(tail.len());
        let Some((param, after)) = tail.split_at_checked(end) else { return false };
        let (name, value) = match memchr::memchr(b'=', param) {
            Some(at) => (param.get(..at), param.get(at + 1..)),
            None => (Some(param), None),
        };
        let name = name.unwrap_or_default();
        if name.is_empty() || !chars::all_or_escaped(name, URI_PARAM) {
            return false;
        }
        // Interop: an empty value (`;transport=`) is written by some phones; it is carried, and never matched.
        if value.is_some_and(|v| !chars::all_or_escaped(v, URI_PARAM | TOKEN)) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn headers_are_valid(headers: &[u8]) -> bool {
    headers.split(|&b| b == b'&').all(|header| {
        let Some(at) = memchr::memchr(b'=', header) else { return false };
        let (name, value) = header.split_at_checked(at).unwrap_or_default();
        !name.is_empty()
            && chars::all_or_escaped(name, URI_HEADER)
            && chars::all_or_escaped(value.get(1..).unwrap_or_default(), URI_HEADER)
    })
}

/// The octets that an escaped text stands for.
pub fn unescape(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = text;
    core::iter::from_fn(move || {
        let (&first, tail) = rest.split_first()?;
        if let (b'%', [h, l, after @ ..]) = (first, tail)
            && let (Some(h), Some(l)) = (chars::hex(*h), chars::hex(*l))
        {
            rest = after;
            return Some(h << 4 | l);
        }
        rest = tail;
        Some(first)
    })
}

/// Compares two escaped texts: an escape equals the octet it stands for, except that of a reserved one (§19.1.4).
fn same_unescaped(a: &[u8], b: &[u8], fold_case: bool) -> bool {
    let key = move |text| Escaped { rest: text, fold_case };
    a == b || key(a).eq(key(b))
}

struct Escaped<'a> {
    rest: &'a [u8],
    fold_case: bool,
}

impl Iterator for Escaped<'_> {
    /// The octet, and whether it was an escape that must stay one.
    type Item = (u8, bool);

    fn next(&mut self) -> Option<(u8, bool)> {
        let (&first, tail) = self.rest.split_first()?;
        let (octet, escaped, after) = match (first, tail) {
            (b'%', [h, l, after @ ..]) => match (chars::hex(*h), chars::hex(*l)) {
                (Some(h), Some(l)) => (h << 4 | l, true, after),
                _ => (first, false, tail),
            },
            _ => (first, false, tail),
        };
        self.rest = after;
        let reserved = matches!(octet, b';' | b'/' | b'?' | b':' | b'@' | b'&' | b'=' | b'+' | b'$' | b',');
        let octet = if self.fold_case { octet.to_ascii_lowercase() } else { octet };
        Some((octet, escaped && reserved))
    }
}

/// Whether each of `left`'s parameters agrees with `right` (§19.1.4): those in both must be equal; `user`, `ttl`,
/// `method`, `maddr` and `transport` must be in both or neither.
///
/// Of a name that stands twice, which it must not (§19.1.1), the first counts, as it does everywhere else.
fn params_match<'a>(left: Params<'a>, right: Params<'a>) -> bool {
    for param in left.filter_map(|p| left.named(p.name)) {
        match right.named(param.name) {
            Some(twin) => {
                if !same_unescaped(param.value.unwrap_or_default(), twin.value.unwrap_or_default(), true) {
                    return false;
                }
            }
            None => {
                let binding: [&[u8]; 5] = [b"user", b"ttl", b"method", b"maddr", b"transport"];
                if binding.iter().any(|name| param.name.eq_ignore_ascii_case(name)) {
                    return false;
                }
            }
        }
    }
    true
}

/// RFC 3966 §4: numbers without regard to visual separators, parameters in any order, each in both; no case counts.
fn same_tel(a: &Uri<'_>, b: &Uri<'_>) -> bool {
    fn digits(number: &[u8]) -> impl Iterator<Item = u8> {
        let visual = |b: &u8| matches!(b, b'-' | b'.' | b'(' | b')');
        number.iter().copied().filter(move |b| !visual(b)).map(|b| b.to_ascii_lowercase())
    }
    fn same_value(a: Param<'_>, b: Param<'_>) -> bool {
        let (a_value, b_value) = (a.value.unwrap_or_default(), b.value.unwrap_or_default());
        let is_number = a.name.eq_ignore_ascii_case(b"ext")
            || (a.name.eq_ignore_ascii_case(b"phone-context") && a_value.starts_with(b"+"));
        match is_number {
            true => digits(a_value).eq(digits(b_value)),
            false => same_unescaped(a_value, b_value, true),
        }
    }
    fn covers(a: &Uri<'_>, b: &Uri<'_>) -> bool {
        let params = a.params();
        let mut first = params.filter_map(|param| params.named(param.name));
        first.all(|param| b.params().named(param.name).is_some_and(|twin| same_value(param, twin)))
    }
    let number = |uri: &Uri<'_>| uri.opaque.len() - uri.params.len();
    let (a_number, b_number) = (a.opaque.get(..number(a)), b.opaque.get(..number(b)));
    !a.has_many_parts()
        && !b.has_many_parts()
        && digits(a_number.unwrap_or_default()).eq(digits(b_number.unwrap_or_default()))
        && covers(a, b)
        && covers(b, a)
}

/// Whether every header field of each stands in the other (§19.1.4).
fn same_headers(a: &[u8], b: &[u8]) -> bool {
    fn parts(headers: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        headers.split(|&x| x == b'&').map(|header| {
            let end = memchr::memchr(b'=', header).unwrap_or(header.len());
            header.split_at_checked(end).unwrap_or_default()
        })
    }
    let covers = |a, b| {
        parts(a).all(|(name, value)| {
            parts(b).any(|(n, v)| same_unescaped(name, n, true) && same_unescaped(value, v, false))
        })
    };
    a == b || (covers(a, b) && covers(b, a) && parts(a).count() == parts(b).count())
}
