//! Digest credentials: the challenges met, and one nonce count for each (RFC 3261 §22.2, RFC 7616 §3.4).

use tandem_auth::{Challenge, Ha1, ResponseInput, respond};
use tandem_sip::{HeaderName, Message};

/// A challenge and how often it was answered.
#[derive(Clone, Debug)]
struct Kept {
    /// `WWW-Authenticate` or `Proxy-Authenticate`.
    asked_by: HeaderName,
    value: Vec<u8>,
    cnonce: Vec<u8>,
    nc: u32,
}

/// The challenges of one user agent: the newest of each realm and kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyring(Vec<Kept>);

/// What a request needs of its credentials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a [u8],
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
}

impl Keyring {
    /// Takes the challenges of a 401 or 407; whether there was one that can be answered, and whether it says stale.
    pub(crate) fn take(&mut self, response: &Message<'_>, cnonce: &[u8]) -> Option<bool> {
        let mut stale = None;
        for asked_by in [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate] {
            let mut taken: Vec<&[u8]> = Vec::new();
            for field in response.fields(asked_by) {
                let Ok(challenge) = Challenge::parse(field.value) else { continue };
                // The first of each realm is the server's preference (RFC 8760 §2.4).
                if taken.contains(&challenge.realm.raw()) {
                    continue;
                }
                taken.push(challenge.realm.raw());
                stale = Some(stale.unwrap_or(false) || challenge.stale);
                self.0.retain(|kept| {
                    kept.asked_by != asked_by
                        || Challenge::parse(&kept.value)
                            .is_ok_and(|other| other.realm.raw() != challenge.realm.raw())
                });
                self.0.push(Kept { asked_by, value: field.value.to_vec(), cnonce: cnonce.to_vec(), nc: 0 });
            }
        }
        stale
    }

    /// Writes the credential lines of one request, each with a new nonce count.
    pub(crate) fn write(&mut self, asked: Asked<'_>, out: &mut Vec<u8>) {
        for kept in &mut self.0 {
            let Ok(challenge) = Challenge::parse(&kept.value) else { continue };
            kept.nc += 1;
            let realm: Vec<u8> = challenge.realm.bytes().collect();
            let ha1 = Ha1::from_password(asked.user.as_bytes(), &realm, asked.password.as_bytes());
            let name = if kept.asked_by == HeaderName::WwwAuthenticate {
                HeaderName::Authorization
            } else {
                HeaderName::ProxyAuthorization
            };
            let input = ResponseInput {
                method: asked.method.as_bytes(),
                uri: asked.uri,
                user: asked.user.as_bytes(),
                ha1: &ha1,
                cnonce: &kept.cnonce,
                nc: kept.nc,
            };
            let mut value = Vec::new();
            if respond(&challenge, input, &mut value) {
                out.extend_from_slice(format!("{name}: ").as_bytes());
                out.extend_from_slice(&value);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}
