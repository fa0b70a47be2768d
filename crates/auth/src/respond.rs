//! The user agent's side: choosing a challenge and answering it. RFC 3261 §22.2, §22.3; RFC 7616 §3.3, §3.4.

use crate::algorithm;
use crate::params::{self, Text, write_quoted};
use crate::{Algorithm, CredentialError, Ha1};

/// One `WWW-Authenticate` or `Proxy-Authenticate` value.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// `realm`.
    pub realm: Text<'a>,
    /// `nonce`.
    pub nonce: Text<'a>,
    /// `opaque`, to be returned unchanged.
    pub opaque: Option<Text<'a>>,
    /// `algorithm`; [`Algorithm::Md5`] if not given.
    pub algorithm: Algorithm,
    /// `qop` was given and `auth` is in it.
    pub qop_auth: bool,
    /// The password was right and only the nonce was not: answer without asking anybody.
    pub stale: bool,
}

impl<'a> Challenge<'a> {
    /// Reads the value of one header field.
    ///
    /// # Errors
    ///
    /// See [`CredentialError`]; also for algorithms and qops we cannot answer.
    pub fn parse(value: &'a [u8]) -> Result<Self, CredentialError> {
        let (mut realm, mut nonce, mut opaque, mut algorithm) = (None, None, None, None);
        let (mut qop, mut stale) = (None, None);
        params::for_each(value, |name, text| {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            let field = if is("realm") {
                &mut realm
            } else if is("nonce") {
                &mut nonce
            } else if is("opaque") {
                &mut opaque
            } else if is("algorithm") {
                &mut algorithm
            } else if is("qop") {
                &mut qop
            } else if is("stale") {
                &mut stale
            } else {
                return Ok(());
            };
            match field.replace(text) {
                None => Ok(()),
                Some(_) => Err(CredentialError::Duplicate),
            }
        })?;
        let algorithm = match algorithm {
            Some(name) => Algorithm::from_name(name.raw()).ok_or(CredentialError::UnknownAlgorithm)?,
            None => Algorithm::Md5,
        };
        let qop_auth = match qop {
            Some(list) if has_auth(list) => true,
            Some(_) => return Err(CredentialError::UnknownQop),
            None => false,
        };
        Ok(Self {
            realm: realm.ok_or(CredentialError::Missing)?,
            nonce: nonce.ok_or(CredentialError::Missing)?,
            opaque,
            algorithm,
            qop_auth,
            stale: stale.is_some_and(|text| text.raw().eq_ignore_ascii_case(b"true")),
        })
    }

    /// The first challenge that we can answer: the server's order is its preference (RFC 8760 §2.4).
    #[must_use]
    pub fn pick(values: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        values.into_iter().find_map(|value| Self::parse(value).ok())
    }
}

fn has_auth(list: Text<'_>) -> bool {
    list.raw().split(|&byte| byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(b"auth"))
}

/// What a response is made of, besides the challenge.
#[derive(Clone, Copy, Debug)]
pub struct ResponseInput<'a> {
    /// The method of the request.
    pub method: &'a [u8],
    /// Its Request-URI as it will be sent.
    pub uri: &'a [u8],
    /// The user's name in the realm.
    pub user: &'a [u8],
    /// The password's hashes ([`Ha1::from_password`] with the challenge's realm).
    pub ha1: &'a Ha1,
    /// Bytes of the caller's choice without quotes or backslashes; new for each nonce.
    pub cnonce: &'a [u8],
    /// How often this nonce was used, this time included: 1 first.
    pub nc: u32,
}

/// Writes the value of an `Authorization` or `Proxy-Authorization` header field that answers `challenge`.
///
/// A challenge without `qop` is answered in the manner of RFC 2069. False, and nothing written, if `ha1` has no
/// hash for the challenge's algorithm.
pub fn respond(challenge: &Challenge<'_>, input: ResponseInput<'_>, out: &mut Vec<u8>) -> bool {
    let Some(ha1) = input.ha1.under(challenge.algorithm) else { return false };
    let nc = format!("{:08x}", input.nc);
    let extra = challenge.qop_auth.then_some((nc.as_bytes(), input.cnonce));
    let nonce = challenge.nonce.raw();
    let response = algorithm::response(challenge.algorithm, ha1, input.method, input.uri, nonce, extra);
    out.extend_from_slice(b"Digest username=");
    write_quoted(input.user.iter().copied(), out);
    for (name, text) in [(&b", realm=\""[..], challenge.realm.raw()), (b"\", nonce=\"", nonce)] {
        out.extend_from_slice(name);
        out.extend_from_slice(text);
    }
    for (name, text) in [
        (&b"\", uri=\""[..], input.uri),
        (b"\", response=\"", response.to_hex().as_bytes()),
        (b"\", algorithm=", challenge.algorithm.name().as_bytes()),
    ] {
        out.extend_from_slice(name);
        out.extend_from_slice(text);
    }
    if challenge.qop_auth {
        out.extend_from_slice(b", cnonce=\"");
        out.extend_from_slice(input.cnonce);
        out.extend_from_slice(b"\", qop=auth, nc=");
        out.extend_from_slice(nc.as_bytes());
    }
    if let Some(opaque) = challenge.opaque {
        out.extend_from_slice(b", opaque=\"");
        out.extend_from_slice(opaque.raw());
        out.push(b'"');
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7616 §3.9.1: of the two challenges the client understands the first, SHA-256.
    #[test]
    fn rfc_7616_example_is_answered_as_the_rfc_answers_it() {
        let challenge = |algorithm: &str| {
            format!(
                "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={algorithm}, \
                 nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                 opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
            )
        };
        let offers = ["SHA-512-256", "SHA-256", "MD5"].map(challenge);
        let picked = Challenge::pick(offers.iter().map(|value| value.as_bytes())).unwrap();
        assert_eq!(picked.algorithm, Algorithm::Sha256);
        let ha1 = Ha1::from_password(b"Mufasa", b"http-auth@example.org", b"Circle of Life");
        let input = ResponseInput {
            method: b"GET",
            uri: b"/dir/index.html",
            user: b"Mufasa",
            ha1: &ha1,
            cnonce: b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            nc: 1,
        };
        let mut value = Vec::new();
        assert!(respond(&picked, input, &mut value));
        assert_eq!(
            std::str::from_utf8(&value).unwrap(),
            "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", \
             nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", uri=\"/dir/index.html\", \
             response=\"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1\", algorithm=SHA-256, \
             cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, nc=00000001, \
             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
        );
    }

    #[test]
    fn a_challenge_without_qop_is_answered_without_counts() {
        let challenge = Challenge::parse(b"Digest realm=\"r\", nonce=\"n\", stale=true").unwrap();
        assert!(challenge.stale && !challenge.qop_auth);
        let ha1 = Ha1::from_password(b"u", b"r", b"p");
        let input =
            ResponseInput { method: b"REGISTER", uri: b"sip:r", user: b"u", ha1: &ha1, cnonce: b"c", nc: 1 };
        let mut value = Vec::new();
        assert!(respond(&challenge, input, &mut value));
        let value = String::from_utf8(value).unwrap();
        assert!(!value.contains("nc=") && !value.contains("cnonce") && !value.contains("qop"), "{value}");
        for refused in
            ["Digest nonce=\"n\"", "Digest realm=\"r\"", "Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\""]
        {
            assert!(Challenge::parse(refused.as_bytes()).is_err(), "{refused}");
        }
    }
}
