//! Digest authentication (RFC 7616, RFC 8760): challenge and check.
//!
//! A request meets these in order: [`Guesses::allow`] (may this source guess now?), [`Credentials::parse`],
//! [`Challenger::check`] with [`Users`] and [`NonceCounts`], [`Guesses::note`]; then, unless the [`Outcome`] is
//! `Accepted`, [`Challenger::write_challenges`] into the 401 or 407. Nothing is stored for a challenge: the nonce
//! carries its own proof, and any node with the same key reads it. [`respond()`] is the other side, for user agents.

mod algorithm;
mod challenge;
mod check;
mod credentials;
mod guesses;
mod hex;
mod nonce;
mod nonce_counts;
mod params;
mod respond;
mod users;

pub use algorithm::{Algorithm, Ha1};
pub use challenge::{Challenger, ChallengerConfig, Party};
pub use check::{Outcome, Refusal, Request, Staleness};
pub use credentials::{CredentialError, Credentials};
pub use guesses::{GuessLimits, Guesses, Verdict, source_prefix};
pub use nonce_counts::NonceCounts;
pub use params::Text;
pub use respond::{Challenge, ResponseInput, respond};
pub use users::Users;
