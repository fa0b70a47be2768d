//! The canonical form of an address-of-record: the index of the location service (RFC 3261 §10.3 step 5).
//!
//! Parameters go, escapes are undone, the host is compared without regard to case, and a port that says nothing new
//! is dropped. The scheme goes too: a `sip` and a `sips` URI of the same user and host are one address-of-record
//! (RFC 5630 §3.3), so that a caller reaches the phone by either. So does a password, which names nobody.

use core::net::IpAddr;
use tandem_sip::{Uri, host_ip, unescape, write_number};

/// Appends the canonical form of a `sip` or `sips` URI, `user@host[:port]`, to `out`; `host[:port]` without a user.
///
/// `is_local` says that this node is responsible for the host; then any port is dropped, since it names a listener
/// and not a subscriber. Else a port stays unless it is the scheme's usual one.
///
/// Returns whether it could: `false`, and nothing appended, for another scheme.
pub fn write_canonical_aor(uri: &Uri<'_>, is_local: bool, out: &mut Vec<u8>) -> bool {
    if !uri.is_sip() {
        return false;
    }
    let port = uri.port.filter(|port| !is_local && !matches!(port, 5060 | 5061));
    write_canonical_parts(uri.user.unwrap_or_default(), uri.host, port, out);
    true
}

/// As [`write_canonical_aor`], from a user, a host (an IPv6 address in brackets) and a port to keep.
///
/// For users and rows that come from elsewhere than a message. A broken escape stays as it is.
pub fn write_canonical_parts(user: &[u8], host: &[u8], port: Option<u16>, out: &mut Vec<u8>) {
    if !user.is_empty() {
        out.extend(unescape(user));
        out.push(b'@');
    }
    match host_ip(host) {
        Some(IpAddr::V6(ip)) => out.extend_from_slice(format!("[{ip}]").as_bytes()),
        // A dot at the end makes a name absolute and means the same host.
        Some(IpAddr::V4(_)) | None => {
            out.extend(host.strip_suffix(b".").unwrap_or(host).iter().map(u8::to_ascii_lowercase));
        }
    }
    if let Some(port) = port {
        out.push(b':');
        write_number(out, u64::from(port));
    }
}

/// Splits a canonical form into user and host; the user is empty if there is none.
///
/// The split is at the last `@`: an escaped one in the user was undone, and a host has none.
#[must_use]
pub fn split_aor(aor: &[u8]) -> (&[u8], &[u8]) {
    match aor.iter().rposition(|&byte| byte == b'@') {
        Some(at) => (aor.get(..at).unwrap_or_default(), aor.get(at + 1..).unwrap_or_default()),
        None => (&[], aor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(uri: &str, is_local: bool) -> String {
        let mut out = Vec::new();
        assert!(write_canonical_aor(&Uri::parse(uri.as_bytes()).unwrap(), is_local, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn spellings_of_one_address_of_record_share_one_canonical_form() {
        for (uri, is_local, want) in [
            ("sip:alice@example.com", true, "alice@example.com"),
            ("sips:alice@EXAMPLE.com;transport=tcp", true, "alice@example.com"),
            ("sip:%61lice:secret@example.com.:5060", false, "alice@example.com"),
            ("sip:alice@example.com:5070", true, "alice@example.com"),
            ("sip:Alice@example.com:5070;user=phone", false, "Alice@example.com:5070"),
            ("sip:alice@[2001:DB8:0::1]", true, "alice@[2001:db8::1]"),
            ("sip:example.com", true, "example.com"),
        ] {
            assert_eq!(canonical(uri, is_local), want, "{uri}");
        }
    }

    #[test]
    fn an_escaped_at_sign_stays_in_the_user() {
        assert_eq!(split_aor(canonical("sip:a%40b@h", true).as_bytes()), (&b"a@b"[..], &b"h"[..]));
        assert_eq!(split_aor(b"h"), (&b""[..], &b"h"[..]));
    }

    #[test]
    fn a_telephone_number_is_no_address_of_record() {
        let mut out = Vec::new();
        assert!(!write_canonical_aor(&Uri::parse(b"tel:+15551234").unwrap(), true, &mut out));
        assert!(out.is_empty());
    }
}
