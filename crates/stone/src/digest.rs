//! Answers a challenge (RFC 7616, RFC 3261 §22.2).

use crate::users::User;

/// The credentials line for the first challenge that we can answer.
pub(crate) fn credentials<'a>(
    _challenges: impl Iterator<Item = &'a [u8]>,
    _proxy: bool,
    _method: &str,
    _uri: &str,
    _user: &User,
    _cnonce: u32,
) -> Option<Box<[u8]>> {
    None
}
