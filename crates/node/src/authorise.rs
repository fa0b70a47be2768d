//! Who sent it: a dialog of ours, a trusted neighbour, a user with the password, or a stranger (RFC 3261 §22, §26).

use tandem_auth::{Credentials, Outcome, Party, Verdict, source_prefix};
use tandem_proxy::{Dialog, Rejection, Routed};
use tandem_sip::{HeaderName, Hop, Method, Outbox, Span};

use crate::request::Request;
use crate::{Challenge, Node};

/// What a request may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Part of a dialog that came through us: its Record-Route cookie says so.
    InDialog,
    /// From a network that the operator trusts.
    Trusted,
    /// From a user who knows the password; the line of the credentials, which are for us and go no further.
    Authenticated(Span),
    /// From nobody known, where nobody is challenged, or an ACK or CANCEL: it reaches local users only.
    Stranger,
    /// It was challenged or refused, and answered.
    Challenged,
}

impl Standing {
    /// Whether it may go to other places than our own users: no open relay.
    pub(crate) const fn may_leave(self) -> bool {
        matches!(self, Self::InDialog | Self::Trusted | Self::Authenticated(_))
    }
}

impl Node {
    /// Decides what a request to be forwarded may do; answers it itself if it must be challenged first.
    pub(crate) fn authorise(
        &mut self,
        request: &Request<'_>,
        routed: &Routed<'_>,
        out: &mut Outbox,
    ) -> Result<Standing, Rejection> {
        let is_trusted = self.is_trusted(request.hop);
        match routed.dialog {
            Dialog::Ours => return Ok(Standing::InDialog),
            Dialog::Forged if !is_trusted => {
                self.counters.cookies_forged += 1;
                return Err(Rejection::because(403, "Forged Route"));
            }
            Dialog::Expired => {
                self.counters.cookies_expired += 1;
                // The ACK of a re-INVITE that was let through can't be challenged, and nobody answers one.
                if request.message.method() == Method::Ack {
                    return Ok(Standing::InDialog);
                }
            }
            Dialog::Forged | Dialog::Preloaded | Dialog::None => {}
        }
        if is_trusted {
            return Ok(Standing::Trusted);
        }
        let is_mute = matches!(request.message.method(), Method::Ack | Method::Cancel);
        if is_mute || self.config.auth.challenge == Challenge::Never {
            return Ok(Standing::Stranger);
        }
        // The identity that the request claims is what it must prove (RFC 3261 §22.3).
        let claimed = request.message.from().and_then(|from| from.uri());
        let domains = &self.config.domains;
        let is_local =
            claimed.is_some_and(|uri| domains.write_aor(&uri, &self.config.listeners, &mut self.aor));
        if !is_local {
            self.aor.clear();
        }
        self.check_credentials(request, Party::Proxy, out)
    }

    /// Whether the source needs no credentials.
    pub(crate) fn is_trusted(&self, hop: Hop) -> bool {
        self.config.auth.challenge == Challenge::Outside
            && self.config.auth.trusted.iter().any(|net| net.contains(hop.peer.ip()))
    }

    /// Checks the credentials of a request that acts for the address-of-record in `self.aor` (empty: none of ours).
    ///
    /// Without credentials for our realm, with wrong or stale ones, it is challenged here.
    ///
    /// # Errors
    ///
    /// 403 for a user who acts for somebody else.
    pub(crate) fn check_credentials(
        &mut self,
        request: &Request<'_>,
        party: Party,
        out: &mut Outbox,
    ) -> Result<Standing, Rejection> {
        let message = request.message;
        let header = match party {
            Party::Uas => HeaderName::Authorization,
            Party::Proxy => HeaderName::ProxyAuthorization,
        };
        let realm = self.realm();
        let mut stale = false;
        for field in message.fields(header) {
            // Basic, or the credentials of another proxy's realm, may stand beside ours and need not be our kind.
            let Ok(credentials) = Credentials::parse(field.value) else {
                self.counters.auth_malformed += 1;
                continue;
            };
            if !credentials.realm.is(&realm) {
                continue;
            }
            let source = source_prefix(request.hop.peer.ip());
            let mut guessed = Vec::new();
            credentials.write_aor(&mut guessed);
            if let Verdict::Wait(wait) = self.guesses.allow(request.now, &source, &guessed) {
                self.counters.auth_throttled += 1;
                self.answer_busy(request.hop, message, wait, out);
                return Ok(Standing::Challenged);
            }
            let shared = &self.shared;
            let asked = tandem_auth::Request {
                method: message.method_token(),
                uri: message.request_uri(),
                realm: &realm,
            };
            let outcome = shared.challenger.check(
                request.now,
                asked,
                &credentials,
                &shared.users,
                &shared.nonce_counts,
            );
            self.guesses.note(request.now, &source, &guessed, outcome);
            match outcome {
                Outcome::Accepted => {
                    self.counters.auth_accepted += 1;
                    self.debts.prove(&source);
                    if !self.is_own(&credentials) {
                        self.counters.auth_foreign += 1;
                        return Err(Rejection::because(403, "Not Your Address"));
                    }
                    return Ok(Standing::Authenticated(field.line));
                }
                Outcome::Stale(_) => {
                    self.counters.auth_stale += 1;
                    stale = true;
                }
                Outcome::Failed(_) | Outcome::Unknown => self.counters.auth_failed += 1,
            }
        }
        self.counters.challenges += 1;
        let mut headers = core::mem::take(&mut self.scratch);
        headers.clear();
        let challenger = &self.shared.challenger;
        challenger.write_challenges(request.now, party, &realm, stale, &mut self.rng, &mut headers);
        self.answer(request.hop, message, party.status(), &headers, out);
        self.scratch = headers;
        Ok(Standing::Challenged)
    }

    /// The realm that is asked: the configured one, or the domain of the address-of-record, or our first domain.
    fn realm(&self) -> Vec<u8> {
        if let Some(realm) = &self.config.auth.realm {
            return realm.clone();
        }
        let (_, domain) = tandem_registrar::split_aor(&self.aor);
        if domain.is_empty() { self.config.domains.first().to_vec() } else { domain.to_vec() }
    }

    /// Whether the user with these credentials is the one the request acts for.
    fn is_own(&self, credentials: &Credentials<'_>) -> bool {
        let (user, _) = tandem_registrar::split_aor(&self.aor);
        credentials.username.is(user)
    }
}
