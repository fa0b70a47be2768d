//! Challenges: RFC 3261 §22.1 to §22.3, RFC 7616 §3.3, RFC 8760 §2.

use core::time::Duration;

use tandem_base::{HashKey, Instant, Rng};

use crate::Algorithm;
use crate::nonce::{self, Nonce, Stamp};
use crate::params::write_quoted;

/// A nonce of another node may be this far ahead of our clock, in ms.
const SKEW_MS: u64 = 5_000;

/// Who asks for credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// A registrar or user agent server: 401, `WWW-Authenticate`, `Authorization`.
    Uas,
    /// A proxy: 407, `Proxy-Authenticate`, `Proxy-Authorization`.
    Proxy,
}

impl Party {
    /// The status code of its challenge.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Uas => 401,
            Self::Proxy => 407,
        }
    }

    /// The name of the header field that carries its challenge.
    #[must_use]
    pub const fn challenge_header(self) -> &'static str {
        match self {
            Self::Uas => "WWW-Authenticate",
            Self::Proxy => "Proxy-Authenticate",
        }
    }

    /// The name of the header field that answers it.
    #[must_use]
    pub const fn credentials_header(self) -> &'static str {
        match self {
            Self::Uas => "Authorization",
            Self::Proxy => "Proxy-Authorization",
        }
    }
}

/// What a [`Challenger`] is told.
#[derive(Clone, Debug)]
pub struct ChallengerConfig {
    /// How long a nonce serves; afterwards its credentials are stale.
    pub nonce_lifetime: Duration,
    /// Offered in this order, and the only ones accepted.
    pub algorithms: Vec<Algorithm>,
    /// The wall clock at [`Instant::ZERO`], in Unix milliseconds; nonce times are the monotonic clock's on top of
    /// it, so that a jump of the wall clock while we run changes nothing.
    pub unix_ms_at_zero: u64,
}

impl Default for ChallengerConfig {
    /// Five minutes, SHA-256 before MD5, clock at zero.
    fn default() -> Self {
        Self {
            nonce_lifetime: Duration::from_secs(300),
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
            unix_ms_at_zero: 0,
        }
    }
}

/// Writes challenges and checks what answers them. Holds no state but its key: share it by reference.
#[derive(Clone, Debug)]
pub struct Challenger {
    key: HashKey,
    config: ChallengerConfig,
}

pub(crate) enum NonceState {
    Fresh(Nonce),
    Expired,
    Foreign,
}

impl Challenger {
    /// A challenger under the cluster's key: all nodes that share the key read each other's nonces.
    #[must_use]
    pub fn new(cluster_key: &HashKey, config: ChallengerConfig) -> Self {
        Self { key: cluster_key.derive(b"nonce"), config }
    }

    /// The algorithms offered and accepted, best first.
    #[must_use]
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.config.algorithms
    }

    /// `now` on the wall clock that nonces are stamped with, in Unix milliseconds: give this, at the start, to
    /// [`crate::NonceCounts::new`].
    #[must_use]
    pub fn unix_ms(&self, now: Instant) -> u64 {
        self.config.unix_ms_at_zero.saturating_add(now.as_millis())
    }

    /// Writes one header field line for each algorithm, best first, each ending in CRLF, all with one new nonce.
    ///
    /// `stale` says that the password was right and only the nonce was not ([`crate::Outcome::is_stale`]).
    pub fn write_challenges(
        &self,
        now: Instant,
        party: Party,
        realm: &[u8],
        stale: bool,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) {
        let nonce = nonce::mint(&self.key, self.stamp(now), realm, rng);
        for algorithm in &self.config.algorithms {
            out.extend_from_slice(party.challenge_header().as_bytes());
            out.extend_from_slice(b": Digest realm=");
            write_quoted(realm.iter().copied(), out);
            out.extend_from_slice(b", nonce=\"");
            out.extend_from_slice(&nonce);
            out.extend_from_slice(b"\", algorithm=");
            out.extend_from_slice(algorithm.name().as_bytes());
            out.extend_from_slice(b", qop=\"auth\"");
            if stale {
                out.extend_from_slice(b", stale=TRUE");
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    pub(crate) fn read_nonce(&self, now: Instant, text: &[u8], realm: &[u8]) -> NonceState {
        let Some(nonce) = nonce::verify(&self.key, text, realm) else { return NonceState::Foreign };
        let now = self.stamp(now).as_millis();
        let issued = nonce.stamp.as_millis();
        let lifetime = u64::try_from(self.config.nonce_lifetime.as_millis()).unwrap_or(u64::MAX);
        if issued > now + SKEW_MS || now.saturating_sub(issued) >= lifetime {
            return NonceState::Expired;
        }
        NonceState::Fresh(nonce)
    }

    fn stamp(&self, now: Instant) -> Stamp {
        Stamp::from_unix_ms(self.unix_ms(now))
    }
}
