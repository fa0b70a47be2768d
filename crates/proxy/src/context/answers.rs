//! Responses in: what each does to its branch, and which goes upstream (RFC 3261 §16.7).

use tandem_base::{Instant, Key};
use tandem_sip::{HeaderName, Index, Limits, Message, NameAddr, Reply, Scheme, write_number};
use tandem_transaction::ClientId;

use super::{BranchState, TimerC};
use crate::locate::Wanted;
use crate::{Proxy, Turn};

/// What a 503 of ours says to wait, and up to as much again, so that not all come back at once.
const RETRY_AFTER_SECS: u64 = 5;

impl Proxy {
    /// A response that belongs to one of our client transactions (§16.7).
    pub(crate) fn respond_in_context(
        &mut self,
        turn: &mut Turn<'_>,
        key: Key,
        client: ClientId,
        response: &Message<'_>,
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let Some(branch) = context.branch_of(client) else {
            // A 2xx that is repeated after its branch was over, while others still ring.
            if context.is_invite && (200..300).contains(&response.status()) {
                self.forward_stray_success(turn, response);
            }
            return;
        };
        let status = response.status();
        match status {
            100 => {}
            101..200 => {
                let server = context.server;
                // Only a 100 may be said to other requests than INVITE (RFC 4320 §4.1).
                let is_over = context.final_status.is_some() || !context.is_invite;
                if let Some(leg) = context.branches.get_mut(branch) {
                    leg.state = BranchState::Proceeding(client);
                    if let Some(timer) = leg.timer_c.take() {
                        self.timers.cancel(timer);
                        let timer =
                            TimerC { context: key, branch: u16::try_from(branch).unwrap_or(u16::MAX) };
                        leg.timer_c = Some(self.timers.schedule(turn.now + self.config.timer_c, timer));
                    }
                }
                if !is_over {
                    self.forward_response(turn, server, response);
                }
            }
            200..300 => {
                let (server, earlier) = (context.server, context.final_status);
                context.final_status = earlier.or(Some(status));
                let is_invite = context.is_invite;
                self.complete(key, branch);
                match earlier {
                    None => self.forward_response(turn, server, response),
                    // Every 2xx to an INVITE goes upstream, whatever went before (step 5).
                    Some(_) if is_invite => self.forward_stray_success(turn, response),
                    Some(_) => {}
                }
                self.cancel_pending(turn, key);
                self.conclude(turn, key);
            }
            _ => {
                self.complete(key, branch);
                // RFC 3263 §4.3: a 503 fails the address, not the name.
                if status == 503 && self.try_alternate(turn, key, branch) {
                    self.conclude(turn, key);
                    return;
                }
                if (300..400).contains(&status) && self.recurse(turn.now, key, response) {
                    self.conclude(turn, key);
                    return;
                }
                self.answered_by_failure(turn, key, response);
            }
        }
    }

    /// Steps 4 to 6 for a final response above 2xx: the only one goes straight upstream, others wait for the best.
    fn answered_by_failure(&mut self, turn: &mut Turn<'_>, key: Key, response: &Message<'_>) {
        let status = response.status();
        let Some(context) = self.contexts.get_mut(key) else { return };
        let set_len = context.set.as_ref().map_or(0, |set| set.len());
        let is_last = !context.is_pending()
            && (context.next_target >= set_len || context.is_cancelled || status >= 600);
        if is_last && context.best.is_empty() && context.final_status.is_none() && context.may_answer(status)
        {
            context.final_status = Some(status);
            let server = context.server;
            self.forward_response(turn, server, response);
        } else {
            context.best.note(response);
            if status >= 600 {
                self.cancel_pending(turn, key);
            }
        }
        self.conclude(turn, key);
    }

    /// §16.7 step 4: the contacts of a 3xx become targets. Whether all of them did.
    fn recurse(&mut self, now: Instant, key: Key, response: &Message<'_>) -> bool {
        if !self.config.recurse_redirects {
            return false;
        }
        let Some(context) = self.contexts.get_mut(key) else { return false };
        if context.is_cancelled || context.final_status.is_some() {
            return false;
        }
        let (Some(set), listener) = (context.set.as_mut(), context.hop.listener) else { return false };
        let is_secure = context.is_secure;
        let (mut all, before) = (true, set.len());
        for value in response.values(HeaderName::Contact) {
            let contact = NameAddr::parse(value.bytes).and_then(|contact| Some((contact, contact.uri()?)));
            let Some((contact, uri)) =
                contact.filter(|(_, uri)| uri.is_sip() && (!is_secure || uri.scheme == Scheme::Sips))
            else {
                all = false;
                continue;
            };
            match self.locator.0.as_ref().filter(|locator| locator.is_ours(&uri)) {
                Some(locator) => {
                    let is_secure = uri.scheme == Scheme::Sips;
                    locator.locate(now, Wanted { uri: &uri, q: Some(1000), is_secure, listener }, set);
                }
                None => set.add(contact.uri_bytes, b"", None, 1000, &self.listeners, listener),
            }
        }
        all && set.len() > before
    }

    /// Steps 6, 7 and 9: the best response goes upstream, and the context ends.
    pub(super) fn send_best(&mut self, turn: &mut Turn<'_>, key: Key) {
        let Some(context) = self.contexts.remove(key) else { return };
        let status = context.best.status();
        if status == 408 && !context.is_invite {
            turn.layer.abandon_server(turn.now, context.server);
            return;
        }
        let sent = context.best.with_response(&mut self.edits, |edits, response| {
            turn.layer.respond(turn.now, context.server, status, |out| edits.write(response, out), turn.out);
        });
        if sent {
            self.counters.responses_forwarded += 1;
            return;
        }
        let mut index = Index::new();
        let Ok(request) = Message::parse(&context.request, &mut index, &Limits::unbounded()) else { return };
        let tag = self.new_tag();
        let mut headers = Vec::new();
        if status == 503 {
            headers.extend_from_slice(b"Retry-After: ");
            write_number(&mut headers, RETRY_AFTER_SECS + self.rng.below(RETRY_AFTER_SECS + 1));
            headers.extend_from_slice(b"\r\n");
        }
        let reply = Reply { headers: &headers, ..Reply::new(status, context.hop.peer, &tag) };
        turn.layer.respond(turn.now, context.server, status, |out| reply.write(&request, out), turn.out);
    }
}
