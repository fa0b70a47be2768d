//! What our Via branch says: who signed it, and what was routed (RFC 3261 §16.6 step 8, §16.11, RFC 5393 §4.2).
//!
//! A stateful branch is the transaction layer's prefix, for an INVITE the way back, `.` and the loop hash. A stateless
//! one is the magic cookie, `S`, the way back, `.` and the loop hash: the same for a retransmission, its CANCEL and its
//! ACK. The way back is the listener that the request came to and a keyed hash of the Via below ours and of the address
//! it came from: so a response that has nothing but its Via goes where the request came from, or nowhere.

use core::net::{IpAddr, SocketAddr};

use tandem_base::HashKey;
use tandem_sip::{HeaderName, Hop, ListenerId, MAGIC_COOKIE, Message, Via};

use crate::stateless::upstream_of;

const STATELESS: u8 = b'S';
/// Digits of the listener and of the hash in the way back.
const LISTENER_DIGITS: usize = 4;
const TAG_DIGITS: usize = 32;
const LOOP_DIGITS: usize = 16;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A hash of what decides where a request goes: equal on the second visit means a loop.
///
/// An ACK and a CANCEL must get their INVITE's branch (§16.11), so what may differ in them stays out: the To tag, and
/// the credentials, which a CANCEL need not have.
pub(crate) fn loop_hash(key: &HashKey, request: &Message<'_>) -> [u8; 16] {
    let mut hasher = key.hasher64();
    hasher.part(request.request_uri());
    hasher.part(request.call_id());
    hasher.word(u64::from(request.cseq().number));
    hasher.part(request.header(HeaderName::From).unwrap_or_default());
    for field in request.fields(HeaderName::Route) {
        hasher.part(field.value);
    }
    hex64(hasher.finish())
}

/// The loop hash that stands in a branch, if it is one of ours.
pub(crate) fn loop_part(branch: &[u8]) -> Option<[u8; 16]> {
    let dot = branch.len().checked_sub(17)?;
    let (_, tail) = branch.split_at_checked(dot)?;
    let (b'.', hash) = tail.split_first().map(|(b, rest)| (*b, rest))? else { return None };
    hash.try_into().ok()
}

/// Signs the Via below ours and the address that answers to it go to.
fn way_back_tag(key: &HashKey, listener: ListenerId, via: &Via<'_>, upstream: SocketAddr) -> u128 {
    let (ip, len) = match upstream.ip().to_canonical() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().octets(), 4_u8),
        IpAddr::V6(ip) => (ip.octets(), 16),
    };
    let (port, listener) = (upstream.port().to_be_bytes(), listener.0.to_be_bytes());
    key.mac128(&[&listener, via.branch.unwrap_or_default(), via.host, &[len], &ip, &port])
}

/// Writes where a request came from, so that [`read_way_back`] knows it again in the response.
pub(crate) fn write_way_back(key: &HashKey, request: &Message<'_>, from: Hop, out: &mut Vec<u8>) {
    let via = request.via();
    let sent_by_port = via.port.unwrap_or(from.transport.default_port());
    let port = if via.rport.is_some() { from.peer.port() } else { sent_by_port };
    let tag = way_back_tag(key, from.listener, via, SocketAddr::new(from.peer.ip(), port));
    out.extend_from_slice(hex64(u64::from(from.listener.0)).get(16 - LISTENER_DIGITS..).unwrap_or_default());
    write_hex128(tag, out);
}

/// The listener and address that a response goes back by, if the Via below ours is as we wrote and signed it.
fn read_way_back(key: &HashKey, way_back: &[u8], below: &Via<'_>) -> Option<(ListenerId, SocketAddr)> {
    let (listener, tag) = way_back.split_at_checked(LISTENER_DIGITS)?;
    let tag = tag.get(..TAG_DIGITS)?;
    let listener = u16::from_str_radix(core::str::from_utf8(listener).ok()?, 16).ok().map(ListenerId)?;
    let tag = u128::from_str_radix(core::str::from_utf8(tag).ok()?, 16).ok()?;
    let upstream = upstream_of(below)?;
    (tag == way_back_tag(key, listener, below, upstream)).then_some((listener, upstream))
}

/// Writes the branch of a request that is forwarded without state (§16.11).
///
/// A request of RFC 2543 may have no branch, or one that repeats: the loop hash tells it from others.
pub(crate) fn write_stateless(
    key: &HashKey,
    from: Hop,
    request: &Message<'_>,
    loop_hash: [u8; 16],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(MAGIC_COOKIE);
    out.push(STATELESS);
    write_way_back(key, request, from, out);
    out.push(b'.');
    out.extend_from_slice(&loop_hash);
}

/// The way back of a stateless response, if its branch and the Via below it are as we signed them.
pub(crate) fn check_stateless(
    key: &HashKey,
    branch: &[u8],
    below: &Via<'_>,
) -> Option<(ListenerId, SocketAddr)> {
    read_way_back(key, branch.strip_prefix(MAGIC_COOKIE)?.strip_prefix(&[STATELESS])?, below)
}

/// The same for a response to an INVITE whose client transaction knows it and whose response context is gone.
pub(crate) fn check_stateful(
    key: &HashKey,
    branch: &[u8],
    below: &Via<'_>,
) -> Option<(ListenerId, SocketAddr)> {
    let start = branch.len().checked_sub(LISTENER_DIGITS + TAG_DIGITS + 1 + LOOP_DIGITS)?;
    read_way_back(key, branch.get(start..)?, below)
}

/// Sixteen hexadecimal digits.
pub(crate) fn hex64(value: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    for (digit, shift) in digits.iter_mut().zip((0..16).rev()) {
        let nibble = (value >> (4 * shift)) & 15;
        *digit = usize::try_from(nibble).ok().and_then(|n| HEX.get(n)).copied().unwrap_or(b'0');
    }
    digits
}

fn write_hex128(value: u128, out: &mut Vec<u8>) {
    for half in [value >> 64, value & u128::from(u64::MAX)] {
        out.extend_from_slice(&hex64(u64::try_from(half).unwrap_or(0)));
    }
}
