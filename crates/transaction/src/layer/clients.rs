//! Requests out and their responses in: the client transactions (RFC 3261 §17.1, §9.1).

use tandem_base::{Full, Instant, Key, Pool};
use tandem_sip::{Hop, Message, Method, Outbox};

use super::Layer;
use crate::client::{Client, ClientCore};
use crate::invite_client::InviteClient;
use crate::non_invite_client::NonInviteClient;
use crate::shared::{Class, Cx};
use crate::{ClientId, Event, PerKind, ResponseArrival, branch};

impl Layer {
    /// Opens a client transaction and sends its request to `hop`; `user` is the TU's handle of it.
    ///
    /// `write` appends the whole request to the buffer it is handed; its topmost Via has the branch given
    /// ([`BRANCH_BYTES`](crate::BRANCH_BYTES) octets of token), behind which the TU may put a suffix that starts
    /// with a dot. For any method but ACK, which has no transaction, and CANCEL, for which see [`Layer::cancel`].
    ///
    /// # Errors
    ///
    /// [`Full`]: nothing was written.
    pub fn open_client(
        &mut self,
        now: Instant,
        method: Method,
        hop: Hop,
        user: u64,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>, &[u8]),
    ) -> Result<ClientId, Full> {
        debug_assert!(!matches!(method, Method::Ack | Method::Cancel), "no client transaction of the TU's");
        self.turn(now);
        if self.clients.is_full() {
            self.shared.counters.clients_full += 1;
            return Err(Full);
        }
        let secret = self.rng.next_u64();
        let key = self.insert_client(now, secret, method, Some(user), hop, |slot| {
            out.write(hop, |bytes| write(bytes, &branch::encode(slot, secret)));
            out.last().into()
        })?;
        self.check();
        Ok(ClientId(key))
    }

    /// Puts a client transaction into the table; `send` sends its request and hands back its octets.
    fn insert_client(
        &mut self,
        now: Instant,
        secret: u64,
        method: Method,
        user: Option<u64>,
        hop: Hop,
        send: impl FnOnce(u32) -> Box<[u8]>,
    ) -> Result<Key, Full> {
        let cx = &mut Cx { now, shared: &mut self.shared };
        let key = self.clients.insert_with(|key| {
            let mut core = ClientCore::new(key, secret, method, user, hop);
            core.kept = Some(send(key.slot()));
            if method == Method::Invite {
                Client::Invite(InviteClient::new(core, cx))
            } else {
                Client::Other(NonInviteClient::new(core, cx))
            }
        })?;
        *client_kind(&mut self.shared.counters.opened, method == Method::Invite) += 1;
        Ok(key)
    }

    /// Matches a received response (§17.1.3) and does what its transaction does on its own, ACKs of failures
    /// and a CANCEL that waited for it included.
    pub fn receive_response(
        &mut self,
        now: Instant,
        response: &Message<'_>,
        out: &mut Outbox,
    ) -> ResponseArrival {
        self.turn(now);
        let method = response.cseq().method;
        let branch = response.via().branch.unwrap_or_default();
        let matched = if response.is_request() { None } else { find_client(&self.clients, branch, method) };
        let cx = &mut Cx { now, shared: &mut self.shared };
        let Some((key, client)) = matched.and_then(|key| Some((key, self.clients.get_mut(key)?))) else {
            self.shared.counters.strays += 1;
            return ResponseArrival::Stray;
        };
        let user = client.core().user;
        let pass = match client {
            Client::Invite(machine) => machine.receive(response, cx, out),
            Client::Other(machine) => machine.receive(Class::of(response.status()), cx),
        };
        self.send_due_cancel(now, key, out);
        self.reap_client(now, key);
        self.check();
        match user {
            Some(user) if pass => ResponseArrival::Pass { client: ClientId(key), user },
            Some(_) | None => {
                self.shared.counters.responses_absorbed += 1;
                ResponseArrival::Absorbed
            }
        }
    }

    /// Cancels an INVITE (§9.1): at once if a provisional response came, else as soon as one does.
    ///
    /// False if it has a final response or is over, and for other methods. If no final response follows within
    /// 64·T1 of the CANCEL, [`Event::ClientTimeout`] ends the transaction.
    pub fn cancel(&mut self, now: Instant, client: ClientId, out: &mut Outbox) -> bool {
        self.cancel_because(now, client, b"", out)
    }

    /// [`Layer::cancel`] with further header field lines, each with its line end, such as Reason (RFC 3326).
    ///
    /// Of two calls the first one's lines go out.
    pub fn cancel_because(
        &mut self,
        now: Instant,
        client: ClientId,
        headers: &[u8],
        out: &mut Outbox,
    ) -> bool {
        self.turn(now);
        let cancelled = match self.clients.get_mut(client.0) {
            Some(Client::Invite(machine)) => machine.cancel(headers),
            Some(Client::Other(_)) | None => false,
        };
        self.send_due_cancel(now, client.0, out);
        self.check();
        cancelled
    }

    fn send_due_cancel(&mut self, now: Instant, invite: Key, out: &mut Outbox) {
        let cx = &mut Cx { now, shared: &mut self.shared };
        let Some(Client::Invite(machine)) = self.clients.get_mut(invite) else { return };
        if !machine.due_cancel(cx, out) {
            return;
        }
        let (secret, hop) = (machine.core.secret, machine.core.hop);
        let opened = self.insert_client(now, secret, Method::Cancel, None, hop, |_| out.last().into());
        match (opened, self.clients.get_mut(invite)) {
            (Ok(key), Some(Client::Invite(machine))) => machine.set_cancel(key),
            // Sent without a transaction that would repeat it; the guard of the INVITE runs all the same.
            (Err(Full), _) => self.shared.counters.clients_full += 1,
            (Ok(_), _) => {}
        }
    }

    /// The TU's handle of a client transaction, while it lives.
    #[must_use]
    pub fn client_user(&self, client: ClientId) -> Option<u64> {
        self.clients.get(client.0).and_then(|client| client.core().user)
    }

    /// Changes the TU's handle of a client transaction; false if it is over.
    pub fn set_client_user(&mut self, client: ClientId, user: u64) -> bool {
        self.clients.get_mut(client.0).map(|client| client.core_mut().user = Some(user)).is_some()
    }

    /// Where the request of a client transaction went, while it lives.
    #[must_use]
    pub fn client_hop(&self, client: ClientId) -> Option<Hop> {
        self.clients.get(client.0).map(|client| client.core().hop)
    }

    /// Octets that a client transaction keeps.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self, client: ClientId) -> usize {
        self.clients.get(client.0).and_then(|c| c.core().kept.as_ref()).map_or(0, |kept| kept.len())
    }

    /// Takes a client transaction out if it has ended, and with an INVITE its CANCEL, whose responses can't be
    /// found any more.
    pub(super) fn reap_client(&mut self, now: Instant, key: Key) {
        if self.clients.get(key).is_some_and(Client::is_terminated) {
            let cancel = self.remove_client(now, key);
            if let Some(cancel) = cancel {
                self.remove_client(now, cancel);
            }
        }
    }

    fn remove_client(&mut self, now: Instant, key: Key) -> Option<Key> {
        let mut client = self.clients.remove(key)?;
        let cancel = match &client {
            Client::Invite(machine) => machine.sent_cancel(),
            Client::Other(_) => None,
        };
        let is_invite = matches!(client, Client::Invite(_));
        let core = client.core_mut();
        core.stop_timers(&mut Cx { now, shared: &mut self.shared });
        *client_kind(&mut self.shared.counters.finished, is_invite) += 1;
        if let Some(user) = core.user {
            self.shared.events.push_back(Event::ClientTerminated { client: core.id, user });
        }
        cancel
    }
}

/// The client transaction of a branch and a CSeq method (§17.1.3). Our CANCEL has its INVITE's branch.
pub(super) fn find_client(clients: &Pool<Client>, branch: &[u8], method: Method) -> Option<Key> {
    let (slot, secret) = branch::decode(branch)?;
    let key = clients.key_at(slot)?;
    let client = clients.get(key)?;
    let core = client.core();
    if core.secret != secret {
        return None;
    }
    match client {
        Client::Invite(machine) if method == Method::Cancel => machine.sent_cancel(),
        Client::Invite(_) | Client::Other(_) => (core.method == method).then_some(key),
    }
}

fn client_kind(counts: &mut PerKind, is_invite: bool) -> &mut u64 {
    if is_invite { &mut counts.invite_client } else { &mut counts.non_invite_client }
}
