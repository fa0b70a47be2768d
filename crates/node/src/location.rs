//! REGISTER: RFC 3261 §10.3.

use std::sync::Arc;

use tandem_auth::Party;
use tandem_proxy::Rejection;
use tandem_registrar::Register;
use tandem_sip::{HeaderName, Hop, Message, NameAddr, Outbox, Uri, host_ip};

use crate::answer::{Pending, Said, write_server};
use crate::authorise::Standing;
use crate::request::Request;
use crate::{Challenge, Durability, Event, Node};

impl Node {
    /// Steps 1 to 8, in order; the Request-URI's domain is ours.
    pub(crate) fn register(
        &mut self,
        request: &Request<'_>,
        _uri: &Uri<'_>,
        out: &mut Outbox,
    ) -> Result<(), Rejection> {
        let message = request.message;
        let config = Arc::clone(&self.config);
        let Some(policy) = &config.registrar else { return Err(Rejection::status(405)) };
        if self.is_draining {
            return Err(Rejection::because(503, "Draining"));
        }
        // Step 2.
        Self::check_required(message)?;
        // Step 5 before 3 and 4: the address-of-record says whose credentials are needed.
        let to = message.to().and_then(|to| to.uri()).ok_or(Rejection::because(400, "Malformed To"))?;
        if !to.is_sip() {
            return Err(Rejection::because(400, "Not A SIP Address-Of-Record"));
        }
        if to.user.is_none() || !self.config.domains.write_aor(&to, &self.config.listeners, &mut self.aor) {
            return Err(Rejection::status(404));
        }
        let mut proved = false;
        if self.config.auth.challenge != Challenge::Never && !self.is_trusted(request.hop) {
            if self.check_credentials(request, Party::Uas, out)? == Standing::Challenged {
                return Ok(());
            }
            proved = true;
        }
        let received = behind_nat(request.hop, message).then_some(request.hop);
        let asked = Register::from_message(message, received)
            .map_err(|refusal| Rejection::because(refusal.status(), refusal.reason()))?;
        let is_stored = self.config.durability != Durability::Memory;
        if is_stored && self.pending.is_full() {
            self.counters.store_full += 1;
            return Err(Rejection::because(503, "Store Busy"));
        }
        // A transaction only where a repetition would not be harmless: its nonce is used up, or its answer waits.
        let needs_transaction = proved || self.config.durability == Durability::Commit;
        let server = match request.key.filter(|_| needs_transaction) {
            None => None,
            Some(key) => {
                let opened = self.layer.open_server(request.now, key, message, request.hop, 0);
                Some(opened.map_err(|_| Rejection::because(503, "Too Many Transactions"))?)
            }
        };
        let mut headers = core::mem::take(&mut self.scratch);
        headers.clear();
        let done = self.shared.locations.register(request.now, policy, &self.aor, &asked, &mut headers);
        let said = match done {
            Ok(registered) => {
                self.counters.registered += 1;
                write_server(&config.server, &mut headers);
                Said { status: 200, reason: None, headers: &headers, changed: registered.changed }
            }
            Err(refusal) => {
                self.counters.refused += 1;
                headers.clear();
                refusal.write_lines(&mut headers);
                if refusal.status() == 503 {
                    self.write_retry_after(&mut headers);
                }
                Said {
                    status: refusal.status(),
                    reason: Some(refusal.reason()),
                    headers: &headers,
                    changed: false,
                }
            }
        };
        let waits = said.changed && self.config.durability == Durability::Commit;
        if said.changed && is_stored {
            let pending = match server.filter(|_| waits) {
                Some(server) => Pending::Answer {
                    server,
                    hop: request.hop,
                    request: message.bytes().into(),
                    headers: said.headers.into(),
                },
                None => Pending::Nobody,
            };
            if let Ok(ticket) = self.pending.insert(pending) {
                self.events
                    .push_back(Event::Persist { ticket: ticket.to_bits(), aor: self.aor.as_slice().into() });
            }
        }
        if !waits {
            self.say(request, server, &said, out);
        }
        self.scratch = headers;
        Ok(())
    }

    /// The store has answered for one registration.
    pub(crate) fn persisted(&mut self, now: tandem_base::Instant, ticket: u64, ok: bool, out: &mut Outbox) {
        let Some(key) = tandem_base::Key::from_bits(ticket) else { return };
        let Some(pending) = self.pending.remove(key) else { return };
        if !ok {
            self.counters.store_failed += 1;
        }
        let Pending::Answer { server, hop, request, headers } = pending else { return };
        let mut index = tandem_sip::Index::new();
        let Ok(message) = Message::parse(&request, &mut index, &tandem_sip::Limits::unbounded()) else {
            return;
        };
        let request = Request { now, hop, message: &message, key: None };
        if ok {
            let said = Said { status: 200, reason: None, headers: &headers, changed: true };
            self.say(&request, Some(server), &said, out);
        } else {
            let mut headers = Vec::new();
            self.write_retry_after(&mut headers);
            let said = Said { status: 503, reason: Some("Store Failed"), headers: &headers, changed: false };
            self.say(&request, Some(server), &said, out);
        }
    }
}

/// Whether the phone can't know its own address: neither its Via nor its Contact names the one it sends from, so that
/// only the way it came by leads back.
fn behind_nat(hop: Hop, message: &Message<'_>) -> bool {
    let source = Some(hop.peer.ip().to_canonical());
    let is_elsewhere = |host: &[u8]| host_ip(host).is_some_and(|ip| Some(ip) != source);
    is_elsewhere(message.via().host)
        && message.values(HeaderName::Via).nth(1).is_none()
        && message.values(HeaderName::Contact).any(|value| {
            NameAddr::parse(value.bytes).and_then(|c| c.uri()).is_some_and(|uri| is_elsewhere(uri.host))
        })
}
