//! The two digest algorithms and what is stored of a password: RFC 7616 §3.4, RFC 8760 §2.
//!
//! Left out: SHA-512-256, which no phone we know of sends, and the `-sess` variants, whose session key helps only a
//! server that keeps sessions. Both are named as unsupported rather than guessed at.

use core::fmt;

use md5::Md5;
use sha2::{Digest, Sha256};

use crate::hex;

/// A digest algorithm we offer and accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// `SHA-256` (RFC 7616), offered first (RFC 8760 §2.4).
    Sha256,
    /// `MD5`, and what credentials without an `algorithm` mean (RFC 3261 §22.4).
    Md5,
}

impl Algorithm {
    /// The value of the `algorithm` parameter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Md5 => "MD5",
        }
    }

    /// The algorithm of that name in any case; `None` for those we do not support, `MD5-sess` among them.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Sha256, Self::Md5]
            .into_iter()
            .find(|algorithm| name.eq_ignore_ascii_case(algorithm.name().as_bytes()))
    }

    /// H of the parts joined by `:`.
    pub(crate) fn hash_joined(self, parts: &[&[u8]]) -> Hash {
        match self {
            Self::Sha256 => Hash::Sha256(joined::<Sha256>(parts).into()),
            Self::Md5 => Hash::Md5(joined::<Md5>(parts).into()),
        }
    }
}

fn joined<D: Digest>(parts: &[&[u8]]) -> sha2::digest::Output<D> {
    let mut hasher = D::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            hasher.update(b":");
        }
        hasher.update(part);
    }
    hasher.finalize()
}

/// A digest of either algorithm.
#[derive(Clone, Copy)]
pub(crate) enum Hash {
    Sha256([u8; 32]),
    Md5([u8; 16]),
}

impl Hash {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha256(bytes) => bytes,
            Self::Md5(bytes) => bytes,
        }
    }

    /// As lower-case hexadecimal, the form in which digests enter digests.
    pub(crate) fn to_hex(self) -> Hex {
        let bytes = self.as_bytes();
        let mut digits = [0; 64];
        hex::write(bytes, &mut digits);
        Hex { digits, len: 2 * bytes.len() }
    }
}

pub(crate) struct Hex {
    digits: [u8; 64],
    len: usize,
}

impl Hex {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.digits.get(..self.len).unwrap_or(&[])
    }
}

/// H(user:realm:password) under each algorithm: all that is stored of a password, and as secret as one.
///
/// Records imported from elsewhere may know one algorithm only; credentials of the other are then refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ha1 {
    /// Under SHA-256.
    pub sha256: Option<[u8; 32]>,
    /// Under MD5: the `ha1` column of Kamailio's `subscriber` table.
    pub md5: Option<[u8; 16]>,
}

impl Ha1 {
    /// Both hashes of a password in the clear.
    #[must_use]
    pub fn from_password(user: &[u8], realm: &[u8], password: &[u8]) -> Self {
        let parts = [user, realm, password];
        Self { sha256: Some(joined::<Sha256>(&parts).into()), md5: Some(joined::<Md5>(&parts).into()) }
    }

    /// A record that knows MD5 only, from 32 hexadecimal digits; `None` if they are not.
    #[must_use]
    pub fn from_md5_hex(digits: &[u8]) -> Option<Self> {
        hex::read(digits).map(|md5| Self { sha256: None, md5: Some(md5) })
    }

    pub(crate) fn under(&self, algorithm: Algorithm) -> Option<Hash> {
        match algorithm {
            Algorithm::Sha256 => self.sha256.map(Hash::Sha256),
            Algorithm::Md5 => self.md5.map(Hash::Md5),
        }
    }
}

impl fmt::Debug for Ha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ha1(..)")
    }
}

/// The `response` of credentials with `qop=auth`, or of RFC 2069 without (`extra` is `None`): RFC 7616 §3.4.1.
pub(crate) fn response(
    algorithm: Algorithm,
    ha1: Hash,
    method: &[u8],
    uri: &[u8],
    nonce: &[u8],
    extra: Option<(&[u8], &[u8])>,
) -> Hash {
    let ha1 = ha1.to_hex();
    let ha2 = algorithm.hash_joined(&[method, uri]).to_hex();
    match extra {
        Some((nc, cnonce)) => {
            algorithm.hash_joined(&[ha1.as_bytes(), nonce, nc, cnonce, b"auth", ha2.as_bytes()])
        }
        None => algorithm.hash_joined(&[ha1.as_bytes(), nonce, ha2.as_bytes()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &[u8] = b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
    const CNONCE: &[u8] = b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";

    fn compute(algorithm: Algorithm) -> Vec<u8> {
        let ha1 = Ha1::from_password(b"Mufasa", b"http-auth@example.org", b"Circle of Life");
        let ha1 = ha1.under(algorithm).unwrap();
        response(algorithm, ha1, b"GET", b"/dir/index.html", NONCE, Some((b"00000001", CNONCE)))
            .to_hex()
            .as_bytes()
            .to_vec()
    }

    /// RFC 7616 §3.9.1, both algorithms.
    #[test]
    fn rfc_7616_example_gives_the_rfcs_responses() {
        assert_eq!(compute(Algorithm::Md5), b"8ca523f5e9506fed4657c9700eebdbec");
        assert_eq!(
            compute(Algorithm::Sha256),
            b"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"
        );
    }

    /// RFC 2617 §3.5; and without qop, RFC 2069 §2.4 with the correction of its errata 749.
    #[test]
    fn rfc_2617_and_2069_examples_give_the_rfcs_responses() {
        let nonce = b"dcd98b7102dd2f0e8b11d0f600bfb0c093";
        let ha1 = Ha1::from_password(b"Mufasa", b"testrealm@host.com", b"Circle Of Life");
        let ha1 = ha1.under(Algorithm::Md5).unwrap();
        let extra: (&[u8], &[u8]) = (b"00000001", b"0a4f113b");
        let with = response(Algorithm::Md5, ha1, b"GET", b"/dir/index.html", nonce, Some(extra));
        assert_eq!(with.to_hex().as_bytes(), b"6629fae49393a05397450978507c4ef1");

        let ha1 = Ha1::from_password(b"Mufasa", b"testrealm@host.com", b"CircleOfLife");
        let ha1 = ha1.under(Algorithm::Md5).unwrap();
        let without = response(Algorithm::Md5, ha1, b"GET", b"/dir/index.html", nonce, None);
        assert_eq!(without.to_hex().as_bytes(), b"1949323746fe6a43ef61f9606e7febea");
    }

    #[test]
    fn names_match_in_any_case_and_sess_is_not_supported() {
        assert_eq!(Algorithm::from_name(b"sha-256"), Some(Algorithm::Sha256));
        assert_eq!(Algorithm::from_name(b"Md5"), Some(Algorithm::Md5));
        for name in ["MD5-sess", "SHA-256-sess", "SHA-512-256", "", "MD55"] {
            assert_eq!(Algorithm::from_name(name.as_bytes()), None, "{name}");
        }
    }
}
