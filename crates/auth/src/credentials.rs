//! `Authorization` and `Proxy-Authorization` values: RFC 3261 §20.7, §20.28; RFC 7616 §3.4.

use core::fmt;

use crate::params::{self, Text};
use crate::{Algorithm, hex};

/// Longest username, in bytes as written.
const USERNAME_MAX: usize = 255;
/// Longest realm, nonce and cnonce, in bytes as written.
const TEXT_MAX: usize = 255;
/// Longest `uri`, in bytes.
const URI_MAX: usize = 2048;

/// Why a value is not credentials we can check. All but [`CredentialError::OtherScheme`] are the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialError {
    /// Not `Digest`: another header field may be.
    OtherScheme,
    /// Against the grammar.
    Syntax,
    /// The value, its number of parameters, or one of them passes its limit.
    TooLong,
    /// A parameter that counts stands there twice.
    Duplicate,
    /// A mandatory parameter is missing or empty.
    Missing,
    /// An algorithm we do not know; `-sess` variants are among them.
    UnknownAlgorithm,
    /// `qop` is missing or other than `auth`, the only one we offer.
    UnknownQop,
    /// `nc` is not eight hexadecimal digits, or zero.
    BadCount,
    /// `response` does not have the form of the algorithm's digest.
    BadResponse,
    /// `userhash=true`, which we do not offer (RFC 7616 §3.4.4).
    UserHash,
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherScheme => "not a Digest value",
            Self::Syntax => "against the grammar of Digest",
            Self::TooLong => "too long",
            Self::Duplicate => "a parameter twice",
            Self::Missing => "a parameter missing",
            Self::UnknownAlgorithm => "unsupported algorithm",
            Self::UnknownQop => "unsupported qop",
            Self::BadCount => "nc is not a count",
            Self::BadResponse => "response is not a digest",
            Self::UserHash => "userhash is not offered",
        })
    }
}

impl core::error::Error for CredentialError {}

/// Checked in form, not yet in truth. Borrows the header field's value.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// `username`.
    pub username: Text<'a>,
    /// `realm`.
    pub realm: Text<'a>,
    /// `nonce`.
    pub nonce: Text<'a>,
    /// `uri` (`digest-uri`).
    pub uri: Text<'a>,
    /// `algorithm`; [`Algorithm::Md5`] if not given.
    pub algorithm: Algorithm,
    /// `cnonce`.
    pub cnonce: Text<'a>,
    /// `nc` as written: eight digits.
    pub(crate) nc_digits: &'a [u8],
    /// `nc` as a number, at least 1.
    pub nc: u32,
    /// `response`, already 32 or 64 hexadecimal digits as the algorithm demands.
    pub(crate) response: Response,
}

#[derive(Clone, Copy)]
pub(crate) enum Response {
    Sha256([u8; 32]),
    Md5([u8; 16]),
}

impl Response {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha256(bytes) => bytes,
            Self::Md5(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Response(..)") // enough to guess a password offline
    }
}

impl<'a> Credentials<'a> {
    /// Reads the value of an `Authorization` or `Proxy-Authorization` header field.
    ///
    /// Unknown parameters are passed over; `opaque` is, because our challenges carry none.
    ///
    /// # Errors
    ///
    /// See [`CredentialError`]. Takes time linear in the length, whatever the bytes.
    pub fn parse(value: &'a [u8]) -> Result<Self, CredentialError> {
        let mut fields = Fields::default();
        params::for_each(value, |name, text| fields.take(name, text))?;
        fields.check()
    }

    /// The key of these credentials in [`crate::Users`], `username@realm`, written to `out`.
    pub fn write_aor(&self, out: &mut Vec<u8>) {
        out.extend(self.username.bytes());
        out.push(b'@');
        out.extend(self.realm.bytes());
    }
}

#[derive(Default)]
struct Fields<'a> {
    username: Option<Text<'a>>,
    realm: Option<Text<'a>>,
    nonce: Option<Text<'a>>,
    uri: Option<Text<'a>>,
    response: Option<Text<'a>>,
    algorithm: Option<Text<'a>>,
    cnonce: Option<Text<'a>>,
    qop: Option<Text<'a>>,
    nc: Option<Text<'a>>,
    userhash: Option<Text<'a>>,
}

impl<'a> Fields<'a> {
    fn take(&mut self, name: &[u8], text: Text<'a>) -> Result<(), CredentialError> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        // Most names differ in length, so that this chain compares few bytes.
        let (field, max) = if is("username") {
            (&mut self.username, USERNAME_MAX)
        } else if is("realm") {
            (&mut self.realm, TEXT_MAX)
        } else if is("nonce") {
            (&mut self.nonce, TEXT_MAX)
        } else if is("uri") {
            (&mut self.uri, URI_MAX)
        } else if is("response") {
            (&mut self.response, TEXT_MAX)
        } else if is("algorithm") {
            (&mut self.algorithm, TEXT_MAX)
        } else if is("cnonce") {
            (&mut self.cnonce, TEXT_MAX)
        } else if is("qop") {
            (&mut self.qop, TEXT_MAX)
        } else if is("nc") {
            (&mut self.nc, TEXT_MAX)
        } else if is("userhash") {
            (&mut self.userhash, TEXT_MAX)
        } else {
            return Ok(());
        };
        if text.raw().len() > max {
            return Err(CredentialError::TooLong);
        }
        match field.replace(text) {
            None => Ok(()),
            Some(_) => Err(CredentialError::Duplicate),
        }
    }

    fn check(self) -> Result<Credentials<'a>, CredentialError> {
        let present = |text: Option<Text<'a>>| {
            text.filter(|text| !text.raw().is_empty()).ok_or(CredentialError::Missing)
        };
        let username = present(self.username)?;
        let realm = present(self.realm)?;
        let nonce = present(self.nonce)?;
        let uri = present(self.uri)?;
        let digits = present(self.response)?;
        if self.userhash.is_some_and(|text| text.raw().eq_ignore_ascii_case(b"true")) {
            return Err(CredentialError::UserHash);
        }
        let algorithm = match self.algorithm {
            Some(name) => Algorithm::from_name(name.raw()).ok_or(CredentialError::UnknownAlgorithm)?,
            None => Algorithm::Md5,
        };
        if !self.qop.is_some_and(|qop| qop.raw().eq_ignore_ascii_case(b"auth")) {
            return Err(CredentialError::UnknownQop);
        }
        let cnonce = present(self.cnonce)?;
        let nc_digits = present(self.nc)?.raw();
        let nc = hex::read_count(nc_digits).filter(|&nc| nc > 0).ok_or(CredentialError::BadCount)?;
        let response = match algorithm {
            Algorithm::Sha256 => hex::read(digits.raw()).map(Response::Sha256),
            Algorithm::Md5 => hex::read(digits.raw()).map(Response::Md5),
        };
        let response = response.ok_or(CredentialError::BadResponse)?;
        Ok(Credentials { username, realm, nonce, uri, algorithm, cnonce, nc_digits, nc, response })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"Digest username="alice", realm="example.com", nonce="abc", uri="sip:example.com", response="8ca523f5e9506fed4657c9700eebdbec", cnonce="c", qop=auth, nc=00000001"#;

    #[test]
    fn spellings_that_phones_use_mean_the_same() {
        for value in [
            GOOD.to_owned(),
            GOOD.replace(", ", ","),
            GOOD.replace(", ", "\r\n\t, ,"),
            GOOD.replace("Digest ", "  dIGEST\t"),
            GOOD.replace("username", "UserName").replace("qop=auth", "qop=\"AUTH\""),
            GOOD.replace("nc=00000001", "nc=\"00000001\", algorithm=\"md5\", opaque=\"\", x=y,"),
            GOOD.replace("alice", r"al\ice"),
            GOOD.replace("uri=", "uri = "),
        ] {
            let credentials = Credentials::parse(value.as_bytes()).expect(&value);
            assert!(credentials.username.is(b"alice"), "{value}");
            assert_eq!((credentials.nc, credentials.algorithm), (1, Algorithm::Md5));
            let mut aor = Vec::new();
            credentials.write_aor(&mut aor);
            assert_eq!(aor, b"alice@example.com");
        }
    }

    #[test]
    fn malformed_credentials_are_refused_with_their_reason() {
        use CredentialError::*;
        let long = |n: usize| "a".repeat(n);
        for (value, error) in [
            (String::new(), OtherScheme),
            ("Basic QWxhZGRpbjpvcGVu".into(), OtherScheme),
            (GOOD.replace("Digest ", "Digestusername=\"x\", "), OtherScheme),
            ("Digest".into(), Missing),
            ("Digest ,,,,".into(), Missing),
            (GOOD.replace("Digest ", "Digest="), Syntax),
            (GOOD.replace("Digest ", "Digest;"), Syntax),
            (GOOD.replace("\"alice\"", "\"alice"), Syntax),
            (GOOD.replace("\"alice\"", "\"alice\\\""), Syntax),
            (GOOD.replace("\"alice\"", "\"ali\0ce\""), Syntax),
            (GOOD.replace("\"alice\"", "\"ali\r\nce\""), Syntax),
            (GOOD.replace("\"alice\"", "\"alice\" x"), Syntax),
            (GOOD.replace("\"sip:example.com\"", "sip:example.com"), Syntax),
            (GOOD.replace("username=", "username"), Syntax),
            (GOOD.replace("username=", "="), Syntax),
            (format!("{GOOD}, x=\""), Syntax),
            (GOOD.replace("\"alice\"", "\"\""), Missing),
            (GOOD.replace("username=", "username*="), Missing),
            (GOOD.replace("\"example.com\"", "\"\""), Missing),
            (GOOD.replace("cnonce=\"c\", ", ""), Missing),
            (GOOD.replace("cnonce=\"c\"", "cnonce=\"\""), Missing),
            (GOOD.replace(", nc=00000001", ""), Missing),
            (GOOD.replace("nonce=\"abc\"", "nonce=\"\""), Missing),
            (GOOD.replace("8ca523f5e9506fed4657c9700eebdbec", ""), Missing),
            (GOOD.replace("8ca523f5e9506fed4657c9700eebdbec", "8ca523f5"), BadResponse),
            (GOOD.replace("8ca523f5e9506fed4657c9700eebdbec", &long(31)), BadResponse),
            (GOOD.replace("8ca523f5e9506fed4657c9700eebdbec", &"g".repeat(32)), BadResponse),
            (GOOD.replace("8ca523f5e9506fed4657c9700eebdbec", &long(64)), BadResponse),
            (format!("{GOOD}, algorithm=SHA-256"), BadResponse),
            (format!("{GOOD}, algorithm=MD5-sess"), UnknownAlgorithm),
            (format!("{GOOD}, algorithm=SHA-512-256"), UnknownAlgorithm),
            (format!("{GOOD}, algorithm=\"\""), UnknownAlgorithm),
            (GOOD.replace("qop=auth, ", ""), UnknownQop),
            (GOOD.replace("qop=auth", "qop=auth-int"), UnknownQop),
            (GOOD.replace("qop=auth", "qop=\"auth,auth-int\""), UnknownQop),
            (GOOD.replace("qop=auth", "qop="), UnknownQop),
            (GOOD.replace("00000001", "1"), BadCount),
            (GOOD.replace("00000001", "00000000"), BadCount),
            (GOOD.replace("00000001", "0000000x"), BadCount),
            (GOOD.replace("00000001", "000000001"), BadCount),
            (GOOD.replace("00000001", "+0000001"), BadCount),
            (format!("{GOOD}, userhash=true"), UserHash),
            (format!("{GOOD}, USERNAME=\"bob\""), Duplicate),
            (format!("{GOOD}, response=\"8ca523f5e9506fed4657c9700eebdbec\""), Duplicate),
            (format!("{GOOD}, qop=auth"), Duplicate),
            (GOOD.replace("alice", &long(256)), TooLong),
            (GOOD.replace("abc", &long(256)), TooLong),
            (GOOD.replace("sip:example.com", &long(2049)), TooLong),
            (format!("{GOOD}{}", ", x=y".repeat(25)), TooLong),
            (format!("{GOOD}, x=\"{}\"", long(4096)), TooLong),
        ] {
            assert_eq!(Credentials::parse(value.as_bytes()).err(), Some(error), "{value}");
        }
    }

    proptest! {
        /// Any bytes end in an answer, and quotes written are quotes read.
        #[test]
        fn any_bytes_end_in_an_answer(mut bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0..200usize) {
            let _ = Credentials::parse(&bytes);
            let mut mixed = GOOD.as_bytes().to_vec();
            mixed.truncate(cut);
            mixed.append(&mut bytes);
            let _ = Credentials::parse(&mixed);
        }

        #[test]
        fn a_quoted_username_comes_back_whole(name in "[ -~]{1,100}") {
            let mut quoted = Vec::new();
            params::write_quoted(name.bytes(), &mut quoted);
            let value = GOOD.replace("\"alice\"", std::str::from_utf8(&quoted).unwrap());
            prop_assert!(Credentials::parse(value.as_bytes()).unwrap().username.is(name.as_bytes()));
        }
    }
}
