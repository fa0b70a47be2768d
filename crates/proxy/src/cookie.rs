//! What our Record-Route says of a dialog: whose it is, and since when (RFC 3261 §16.6 step 4).
//!
//! The cookie is the hour in which it was written, in four hexadecimal digits, and a keyed hash of that hour, the
//! Call-ID and the tag of whoever sent the request, in sixteen. That tag stands in From or in To of every later request
//! of the dialog, whichever side sends it (§12.2.1.1); more is not known when the first one passes. A re-INVITE renews
//! no route set (§12.2), so the time that a cookie serves must be longer than calls are; what comes after it is in no
//! dialog that we vouch for, and is challenged like anything else.

use core::time::Duration;

use tandem_base::HashKey;
use tandem_sip::{Message, NameAddr};

use crate::branch::hex64;

const HOUR_MS: u64 = 3_600_000;
const HOUR_DIGITS: usize = 4;
const LEN: usize = HOUR_DIGITS + 16;

/// An hour of the wall clock, in 16 bits: they come round after seven years.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hour(u16);

impl Hour {
    pub(crate) fn of_unix_ms(unix_ms: u64) -> Self {
        let [.., high, low] = (unix_ms / HOUR_MS).to_be_bytes();
        Self(u16::from_be_bytes([high, low]))
    }
}

/// What a cookie is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Worth {
    /// We wrote it for this dialog, lately enough.
    Good,
    /// We wrote it for this dialog, too long ago.
    Expired,
    /// We did not write it, or for another dialog.
    Forged,
}

/// The cookie for the dialog that `request` makes or refreshes.
pub(crate) fn write(key: &HashKey, hour: Hour, request: &Message<'_>) -> [u8; LEN] {
    sign(key, hour, request.call_id(), tag(request.from()))
}

/// Judges a cookie that `request` carries in its route; it serves for `lifetime`, and for up to an hour more.
///
/// A cookie of the hour to come is another node's whose clock is ahead.
pub(crate) fn judge(
    key: &HashKey,
    hour: Hour,
    lifetime: Duration,
    cookie: &[u8],
    request: &Message<'_>,
) -> Worth {
    let digits = cookie.get(..HOUR_DIGITS).and_then(|digits| core::str::from_utf8(digits).ok());
    let Some(written) = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()).map(Hour) else {
        return Worth::Forged;
    };
    let is_of = |tag| cookie == sign(key, written, request.call_id(), tag);
    if !is_of(tag(request.from())) && !is_of(tag(request.to())) {
        return Worth::Forged;
    }
    let age = u64::from(hour.0.wrapping_sub(written.0));
    let is_ahead = age == u64::from(u16::MAX);
    if is_ahead || age <= lifetime.as_secs().div_ceil(3600) { Worth::Good } else { Worth::Expired }
}

fn tag<'a>(party: Option<NameAddr<'a>>) -> &'a [u8] {
    party.and_then(|party| party.tag()).unwrap_or_default()
}

fn sign(key: &HashKey, hour: Hour, call_id: &[u8], tag: &[u8]) -> [u8; LEN] {
    let mac = hex64(key.mac64(&[b"rr", call_id, tag, &hour.0.to_be_bytes()]));
    let hour = hex64(u64::from(hour.0));
    let mut cookie = [0; LEN];
    let digits = hour.iter().skip(hour.len() - HOUR_DIGITS).chain(&mac);
    cookie.iter_mut().zip(digits).for_each(|(to, digit)| *to = *digit);
    cookie
}
