//! What our Via branch says: who signed it, and what was routed (RFC 3261 §16.6 step 8, §16.11, RFC 5393 §4.2).
//!
//! A stateful branch is the transaction layer's prefix and `.` and the loop hash. A stateless one is the magic cookie,
//! `S`, the listener that the request came to, a keyed hash of the Via below it, `.` and the loop hash: the same for
//! a retransmission, its CANCEL and its ACK, and checkable on the response without any state.

use tandem_base::HashKey;
use tandem_sip::{HeaderName, ListenerId, MAGIC_COOKIE, Message, Via};

const STATELESS: u8 = b'S';
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A hash of what decides where a request goes: equal on the second visit means a loop.
pub(crate) fn loop_hash(key: &HashKey, request: &Message<'_>) -> [u8; 16] {
    let mut hasher = key.hasher64();
    hasher.part(request.request_uri());
    hasher.part(request.call_id());
    hasher.word(u64::from(request.cseq().number));
    for name in [HeaderName::From, HeaderName::To, HeaderName::ProxyRequire, HeaderName::ProxyAuthorization] {
        hasher.part(request.header(name).unwrap_or_default());
    }
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

/// Signs the Via below ours.
fn stateless_tag(key: &HashKey, listener: ListenerId, via: &Via<'_>) -> u128 {
    let port = via.port.unwrap_or(0).to_be_bytes();
    let listener = listener.0.to_be_bytes();
    key.mac128(&[&listener, via.branch.unwrap_or_default(), via.host, &port])
}

/// Writes the branch of a request that is forwarded without state (§16.11).
///
/// A request of RFC 2543 may have no branch, or one that repeats: what names it there is hashed as well.
pub(crate) fn write_stateless(
    key: &HashKey,
    listener: ListenerId,
    request: &Message<'_>,
    loop_hash: [u8; 16],
    out: &mut Vec<u8>,
) {
    let tag = stateless_tag(key, listener, request.via());
    out.extend_from_slice(MAGIC_COOKIE);
    out.push(STATELESS);
    out.extend_from_slice(hex64(u64::from(listener.0)).get(12..).unwrap_or_default());
    write_hex128(tag, out);
    if request.via().unique_branch().is_none() {
        let number = request.cseq().number.to_be_bytes();
        let from = request.header(HeaderName::From).unwrap_or_default();
        out.extend_from_slice(&hex64(key.hash64(&[request.request_uri(), request.call_id(), &number, from])));
    }
    out.push(b'.');
    out.extend_from_slice(&loop_hash);
}

/// The listener that a stateless response goes back through, if the branch and the Via below it are as we signed them.
pub(crate) fn check_stateless(key: &HashKey, branch: &[u8], below: &Via<'_>) -> Option<ListenerId> {
    let rest = branch.strip_prefix(MAGIC_COOKIE)?.strip_prefix(&[STATELESS])?;
    let (listener, rest) = rest.split_at_checked(4)?;
    let (tag, _) = rest.split_at_checked(32)?;
    let listener = u16::from_str_radix(core::str::from_utf8(listener).ok()?, 16).ok().map(ListenerId)?;
    let tag = u128::from_str_radix(core::str::from_utf8(tag).ok()?, 16).ok()?;
    (tag == stateless_tag(key, listener, below)).then_some(listener)
}

/// The authenticator that our Record-Route URI carries for one call.
pub(crate) fn cookie(key: &HashKey, call_id: &[u8]) -> [u8; 16] {
    hex64(key.mac64(&[b"rr", call_id]))
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
