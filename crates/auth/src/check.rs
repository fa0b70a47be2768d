//! Checking credentials: RFC 3261 §22.4, RFC 7616 §3.4.6.
//!
//! A user that does not exist costs the same hashing as one that does, and all refusals look alike outside: the
//! [`Outcome`] is for counters and the log. `stale` is said only of credentials whose digest is right, so it tells
//! nothing to those who do not know the password.

use subtle::ConstantTimeEq;
use tandem_base::Instant;

use crate::algorithm;
use crate::challenge::NonceState;
use crate::{Challenger, Credentials, NonceCounts, Users};

/// What the credentials must fit.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method as written.
    pub method: &'a [u8],
    /// The Request-URI as written.
    pub uri: &'a [u8],
    /// Our realm for this request.
    pub realm: &'a [u8],
}

/// What credentials turned out to be. Only `Accepted` lets a request pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The user knows the password, now.
    Accepted,
    /// The user knows the password, but the nonce cannot be used (again): challenge with `stale=TRUE`.
    Stale(Staleness),
    /// Refused.
    Failed(Refusal),
    /// No such user, or none that has a hash for this algorithm. To be answered exactly like `Failed`.
    Unknown,
}

impl Outcome {
    /// True if the new challenge says `stale=TRUE`.
    #[must_use]
    pub const fn is_stale(self) -> bool {
        matches!(self, Self::Stale(_))
    }

    /// True if somebody may have been guessing at a password.
    #[must_use]
    pub const fn is_guess(self) -> bool {
        matches!(self, Self::Unknown | Self::Failed(Refusal::WrongResponse))
    }
}

/// Why a nonce cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// Older than its lifetime.
    Expired,
    /// Not minted under our key for our realm: of another server, or from before a change of key.
    Foreign,
    /// Its count was used, or a newer nonce displaced it.
    Replayed,
}

/// Why credentials are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The digest is wrong: wrong password, method or URI.
    WrongResponse,
    /// Made for another realm; another header field may be for ours.
    OtherRealm,
    /// Made for another Request-URI.
    OtherUri,
    /// Made with an algorithm we did not offer.
    AlgorithmNotOffered,
}

impl Challenger {
    /// Checks credentials whose `uri` must equal the Request-URI byte for byte; see [`Challenger::check_with`].
    #[must_use]
    pub fn check(
        &self,
        now: Instant,
        request: Request<'_>,
        credentials: &Credentials<'_>,
        users: &Users,
        counts: &NonceCounts,
    ) -> Outcome {
        self.check_with(now, request, credentials, users, counts, |uri| uri == request.uri)
    }

    /// Checks credentials; `same_uri` decides whether their `uri` means the Request-URI.
    ///
    /// The digest is computed from the `uri` of the credentials. An accepted count is used up: check a request
    /// once, and let the transaction absorb its retransmissions.
    #[must_use]
    pub fn check_with(
        &self,
        now: Instant,
        request: Request<'_>,
        credentials: &Credentials<'_>,
        users: &Users,
        counts: &NonceCounts,
        same_uri: impl FnOnce(&[u8]) -> bool,
    ) -> Outcome {
        if !credentials.realm.is(request.realm) {
            return Outcome::Failed(Refusal::OtherRealm);
        }
        if !self.algorithms().contains(&credentials.algorithm) {
            return Outcome::Failed(Refusal::AlgorithmNotOffered);
        }
        if !same_uri(credentials.uri.raw()) {
            return Outcome::Failed(Refusal::OtherUri);
        }
        let mut buffer = [0; AOR_MAX];
        let aor = aor(credentials, &mut buffer);
        let (known, ha1) = users.find(aor, credentials.algorithm);
        let expected = algorithm::response(
            credentials.algorithm,
            ha1,
            request.method,
            credentials.uri.raw(),
            credentials.nonce.raw(),
            Some((credentials.nc_digits, credentials.cnonce.raw())),
        );
        // Read before the verdict on the digest, so that both verdicts take the same time.
        let nonce = self.read_nonce(now, credentials.nonce.raw(), request.realm);
        let right: bool = expected.as_bytes().ct_eq(credentials.response.as_bytes()).into();
        match (known, right, nonce) {
            (false, _, _) => Outcome::Unknown,
            (true, false, _) => Outcome::Failed(Refusal::WrongResponse),
            (true, true, NonceState::Foreign) => Outcome::Stale(Staleness::Foreign),
            (true, true, NonceState::Expired) => Outcome::Stale(Staleness::Expired),
            (true, true, NonceState::Fresh(nonce)) if counts.use_up(&nonce, credentials.nc) => {
                Outcome::Accepted
            }
            (true, true, NonceState::Fresh(_)) => Outcome::Stale(Staleness::Replayed),
        }
    }
}

/// Longest `username@realm` by the limits of [`Credentials`].
const AOR_MAX: usize = 255 + 1 + 255;

/// `username@realm`, without allocating.
fn aor<'b>(credentials: &Credentials<'_>, buffer: &'b mut [u8; AOR_MAX]) -> &'b [u8] {
    let mut len = 0;
    let text = credentials.username.bytes().chain([b'@']).chain(credentials.realm.bytes());
    for (to, byte) in buffer.iter_mut().zip(text) {
        *to = byte;
        len += 1;
    }
    buffer.get(..len).unwrap_or(&[])
}
