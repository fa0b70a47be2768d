//! Via: RFC 3261 §20.42, with `rport` (RFC 3581).

use core::net::IpAddr;

use crate::Transport;
use crate::chars::{self, TOKEN};
use crate::params::{Param, Params};
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
    /// Reads one value. `None` if it breaks the grammar, or one of the parameters below stands twice.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (version, mut via) = Self::read(value)?;
        if version != b"2.0" {
            return None;
        }
        let mut walk = via.params;
        for param in walk.by_ref() {
            match param.name.len() {
                6 if param.name.eq_ignore_ascii_case(b"branch") => {
                    once(&mut via.branch, unquoted(param)?)?;
                }
                8 if param.name.eq_ignore_ascii_case(b"received") => {
                    once(&mut via.received, unquoted(param)?)?
                }
                5 if param.name.eq_ignore_ascii_case(b"rport") => {
                    let port = match param.value {
                        None | Some(b"") => None,
                        Some(digits) => Some(u16::try_from(chars::decimal(digits)?).ok()?),
                    };
                    once(&mut via.rport, port)?;
                }
                5 if param.name.eq_ignore_ascii_case(b"maddr") => once(&mut via.maddr, unquoted(param)?)?,
                _ => {}
            }
        }
        walk.is_at_end().then_some(via)
    }

    /// Reads of a value that breaks the grammar as much as an answer needs: `sent-by`, of any SIP version.
    pub(crate) fn parse_sent_by(value: &'a [u8]) -> Option<Self> {
        Self::read(value).map(|(_, via)| via)
    }

    /// The version, and the value without its parameters looked into.
    fn read(value: &'a [u8]) -> Option<(&'a [u8], Self)> {
        let (version, transport_token, rest) = protocol(chars::trim(value))?;
        let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
        let (sent_by, params) = rest.split_at_checked(end)?;
        let (host, port) = sent_by_parts(chars::trim(sent_by))?;
        let params = Params::new(params);
        let (branch, received, rport, maddr) = (None, None, None, None);
        Some((version, Self { transport_token, host, port, branch, received, rport, maddr, params }))
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

/// The value of a parameter that is a token or a host.
fn unquoted<'a>(param: Param<'a>) -> Option<&'a [u8]> {
    param.value.filter(|value| !value.is_empty() && !value.starts_with(b"\""))
}

/// Puts a parameter's value in its place, unless it has been there already (RFC 3261 §7.3.1).
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// The version and the transport of `SIP/2.0/UDP`, and what follows; white space may stand around each slash.
fn protocol(value: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    if let Some((version, rest)) = value.split_first_chunk::<8>()
        && version == b"SIP/2.0/"
    {
        let (token, after) = chars::take(rest, TOKEN);
        if !token.is_empty() && after.first().is_some_and(|&b| chars::is_space(b)) {
            return Some((b"2.0", token, after));
        }
    }
    let (name, after) = chars::take(value, TOKEN);
    let [b'/', after @ ..] = chars::trim_start(after) else { return None };
    let (version, after) = chars::take(chars::trim_start(after), TOKEN);
    let [b'/', after @ ..] = chars::trim_start(after) else { return None };
    let (token, after) = chars::take(chars::trim_start(after), TOKEN);
    let spaced = after.first().is_some_and(|&b| chars::is_space(b));
    (name.eq_ignore_ascii_case(b"SIP") && !token.is_empty() && spaced).then_some((version, token, after))
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
