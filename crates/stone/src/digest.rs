//! Answers a challenge (RFC 7616, RFC 3261 §22.2).

use tandem_auth::{Challenge, Ha1, ResponseInput, respond};

use crate::token::put_hex;
use crate::users::User;

/// A request that was challenged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Challenged<'a> {
    /// By a proxy: 407.
    pub(crate) proxy: bool,
    pub(crate) method: &'a str,
    pub(crate) uri: &'a str,
    pub(crate) user: &'a User,
    pub(crate) cnonce: u32,
}

/// The credentials line for the first challenge that we can answer; `None` if there is none.
pub(crate) fn credentials<'a>(
    challenges: impl Iterator<Item = &'a [u8]>,
    request: &Challenged<'_>,
) -> Option<Box<[u8]>> {
    let challenge = Challenge::pick(challenges)?;
    let Challenged { proxy, method, uri, user, cnonce } = *request;
    let (name, password) = (user.name.as_bytes(), user.password.as_bytes());
    let ha1 = Ha1::from_password(name, challenge.realm.raw(), password);
    let mut text = Vec::with_capacity(8);
    put_hex(&mut text, cnonce);
    let mut line = Vec::with_capacity(400);
    line.extend_from_slice(if proxy { b"Proxy-Authorization: " } else { b"Authorization: " });
    let input = ResponseInput {
        method: method.as_bytes(),
        uri: uri.as_bytes(),
        user: name,
        ha1: &ha1,
        cnonce: &text,
        nc: 1,
    };
    if !respond(&challenge, input, &mut line) {
        return None;
    }
    line.extend_from_slice(b"\r\n");
    Some(line.into_boxed_slice())
}
