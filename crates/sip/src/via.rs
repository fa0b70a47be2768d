//! Via: RFC 3261 §20.42, with `rport` (RFC 3581).

use core::net::IpAddr;

use crate::Transport;
use crate::chars::{self, TOKEN};
use crate::params::Params;
use crate::uri::{host_ip, split_host_port};

/// The seven characters that mark a branch of RFC 3261 and later (§8.1.1.7).
pub const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

/// One Via value.
#[derive(Clone, Copy, Debug)]
pub struct Via<'a> {
    /// The transport's token, as written.
    pub transport_token: &'a [u8],
    /// The host of `sent-by`, brackets included.
    pub host: &'a [u8],
    /// The port of `sent-by`, where one is written.
    pub port: Option<u16>,
    /// `branch`; RFC 2543 elements may leave it out.
    pub branch: Option<&'a [u8]>,
    /// `received`, as written by the element that got the request (§18.2.1).
    pub received: Option<&'a [u8]>,
    /// `rport`: asked for (`Some(None)`) or answered (RFC 3581 §4).
    pub rport: Option<Option<u16>>,
    /// `maddr`.
    pub maddr: Option<&'a [u8]>,
    params: Params<'a>,
}

impl<'a> Via<'a> {
    /// Reads one value. `None` if it breaks the grammar.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (transport_token, rest) = protocol(chars::trim(value))?;
        let end = rest.iter().position(|&b| b == b';').unwrap_or(rest.len());
        let (sent_by, params) = rest.split_at_checked(end)?;
        let (host, port) = sent_by_parts(chars::trim(sent_by))?;
        let params = Params::new(params);
        let mut via = Self {
            transport_token,
            host,
            port,
            branch: None,
            received: None,
            rport: None,
            maddr: None,
            params,
        };
        let mut walk = params;
        for param in walk.by_ref() {
            match param.name.len() {
                6 if param.name.eq_ignore_ascii_case(b"branch") => {
                    via.branch =
                        Some(param.value.filter(|v| chars::all(v, TOKEN | chars::VALUE | chars::WORD))?);
                }
                8 if param.name.eq_ignore_ascii_case(b"received") => via.received = Some(param.value?),
                5 if param.name.eq_ignore_ascii_case(b"rport") => {
                    via.rport = Some(match param.value {
                        None | Some(b"") => None,
                        Some(digits) => Some(u16::try_from(chars::decimal(digits)?).ok()?),
                    });
                }
                5 if param.name.eq_ignore_ascii_case(b"maddr") => via.maddr = Some(param.value?),
                _ => {}
            }
        }
        walk.is_at_end().then_some(via)
    }

    /// The transport, if it is one that we speak.
    #[must_use]
    pub fn transport(&self) -> Option<Transport> {
        Transport::from_token(self.transport_token)
    }

    /// The branch if it is unique by RFC 3261 §8.1.1.7: the magic cookie and something behind it.
    #[must_use]
    pub fn unique_branch(&self) -> Option<&'a [u8]> {
        self.branch.filter(|b| {
            b.len() > MAGIC_COOKIE.len()
                && b.get(..MAGIC_COOKIE.len()).is_some_and(|head| head.eq_ignore_ascii_case(MAGIC_COOKIE))
        })
    }

    /// `received` as an address.
    #[must_use]
    pub fn received_ip(&self) -> Option<IpAddr> {
        self.received.and_then(host_ip)
    }

    /// All parameters in order.
    #[must_use]
    pub const fn params(&self) -> Params<'a> {
        self.params
    }
}

/// `SIP/2.0/UDP` and the white space behind it; white space may stand around each slash.
fn protocol(value: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(rest) = value.strip_prefix(b"SIP/2.0/") {
        let (token, after) = chars::take(rest, TOKEN);
        if !token.is_empty() && after.first().is_some_and(|&b| chars::is_space(b)) {
            return Some((token, after));
        }
    }
    let (name, after) = chars::take(value, TOKEN);
    let [b'/', after @ ..] = chars::trim_start(after) else { return None };
    let (version, after) = chars::take(chars::trim_start(after), TOKEN);
    let [b'/', after @ ..] = chars::trim_start(after) else { return None };
    let (token, after) = chars::take(chars::trim_start(after), TOKEN);
    let spaced = after.first().is_some_and(|&b| chars::is_space(b));
    (name.eq_ignore_ascii_case(b"SIP") && version == b"2.0" && !token.is_empty() && spaced)
        .then_some((token, after))
}

/// `host [COLON port]`; white space may stand around the colon.
fn sent_by_parts(sent_by: &[u8]) -> Option<(&[u8], Option<u16>)> {
    if !sent_by.iter().any(|&b| chars::is_space(b)) {
        return split_host_port(sent_by);
    }
    let host_end = if sent_by.first() == Some(&b'[') { sent_by.iter().position(|&b| b == b']')? } else { 0 };
    let colon = host_end + sent_by.get(host_end..)?.iter().position(|&b| b == b':')?;
    let (host, _) = split_host_port(chars::trim_end(sent_by.get(..colon)?))?;
    let port = chars::decimal(chars::trim_start(sent_by.get(colon + 1..)?))?;
    Some((host, Some(u16::try_from(port).ok().filter(|&p| p != 0)?)))
}
