//! The transactions of one shard: tables, timers, and the way in and out (RFC 3261 §17, §18.1.2, §9).
//!
//! Two pools with a bound each, one timer wheel, one index for requests; clients need no index (see `branch.rs`).
//! A transaction that is alive is never evicted; when a table is full the newcomer is refused, and the TU answers
//! it 503 without state. A turn's events wait in one queue, to be drained in the same turn.
//!
//! A transaction is 152 (server) or 160 octets (client) with 8 in its slot, 32 for each running timer, up to 50 in the
//! index for a server, and the message it may have to repeat in an allocation of exactly its length: buffers that
//! are used again would stay as long as the longest message. A finished one stays below 700 octets in all.
//!
//! What the TU owes: every server transaction gets a final response or [`Layer::abandon_server`], and a client
//! transaction that rings too long gets [`Layer::cancel`]; the RFC has no timer for either. Everything else ends by
//! itself.

use std::collections::VecDeque;

use tandem_base::{Full, HashKey, Instant, Key, KeyTable, Pool, Rng, Wheel};
use tandem_sip::{Hop, Index, Message, Method, Outbox};

use crate::client::{Client, ClientCore};
use crate::invite_client::InviteClient;
use crate::invite_server::{Ack, InviteServer};
use crate::key::Matcher;
use crate::non_invite_client::NonInviteClient;
use crate::non_invite_server::NonInviteServer;
use crate::server::{Server, ServerCore};
use crate::shared::{Class, Cx, Shared};
use crate::write::OWN;
use crate::{
    Arrival, ClientId, Config, Counters, Event, PerKind, ResponseArrival, ServerId, ServerKey, branch,
    response_hop,
};

/// See the module.
pub struct Layer {
    servers: Pool<Server>,
    clients: Pool<Client>,
    rng: Rng,
    /// The latest `now` that came in.
    latest: Instant,
    shared: Shared,
}

impl Layer {
    /// A layer without transactions. `key` keeps peers from steering the index, `rng` gives branches their secrets.
    #[must_use]
    pub fn new(config: Config, key: HashKey, rng: Rng) -> Self {
        Self {
            servers: Pool::new(config.servers_max),
            clients: Pool::new(config.clients_max),
            rng,
            latest: Instant::ZERO,
            shared: Shared {
                config,
                matcher: Matcher::new(key),
                wheel: Wheel::new(),
                index: KeyTable::new(),
                events: VecDeque::new(),
                counters: Counters::default(),
                own: Index::new(),
            },
        }
    }

    /// Matches a received request (RFC 3261 §17.2.3) and does what its transaction does on its own.
    ///
    /// For [`Arrival::New`] and [`Arrival::Cancel`] the TU goes on with [`Layer::open_server`], or without state.
    pub fn receive_request(
        &mut self,
        now: Instant,
        request: &Message<'_>,
        hop: Hop,
        out: &mut Outbox,
    ) -> Arrival {
        self.turn(now);
        let key = self.shared.matcher.key(request);
        let cx = &mut Cx { now, shared: &mut self.shared };
        let matched = cx.shared.index.get(key.hash);
        let arrival = match (matched, matched.and_then(|key| self.servers.get_mut(key))) {
            (Some(server), Some(Server::Invite(machine))) if key.method == Method::Ack => {
                match machine.receive_ack(cx) {
                    Ack::Absorbed => {
                        cx.shared.counters.acks_absorbed += 1;
                        self.reap_server(now, server);
                        Arrival::AckAbsorbed
                    }
                    Ack::ForUser => Arrival::AckToAccepted(ServerId(server)),
                }
            }
            (_, Some(server)) => {
                match server {
                    Server::Invite(machine) => machine.receive_invite(cx, out),
                    Server::Other(machine) => machine.receive_request(cx, out),
                }
                cx.shared.counters.requests_absorbed += 1;
                Arrival::Retransmission
            }
            (_, None) if key.method == Method::Cancel => {
                Arrival::Cancel { key, invite: self.cancelled(request, hop) }
            }
            (_, None) => Arrival::New(key),
        };
        self.check();
        arrival
    }

    /// The INVITE that a CANCEL means (§9.2). It has to come from where the INVITE came from: whoever has read or
    /// guessed a branch elsewhere can't end the call.
    fn cancelled(&mut self, cancel: &Message<'_>, hop: Hop) -> Option<ServerId> {
        let key = self.shared.index.get(self.shared.matcher.cancelled(cancel))?;
        let core = self.servers.get(key)?.core();
        if core.hop.peer.ip().to_canonical() == hop.peer.ip().to_canonical() {
            return Some(core.id);
        }
        self.shared.counters.foreign_cancels += 1;
        None
    }

    /// Opens the server transaction of a request just received on `hop`; `user` is the TU's handle of it.
    ///
    /// To be called in the turn that received it, as a repetition would be taken for new until then. An ACK opens none
    /// (§17). Nothing is sent, and no timer starts.
    ///
    /// # Errors
    ///
    /// [`Full`]: the TU answers 503 without state.
    pub fn open_server(
        &mut self,
        now: Instant,
        key: ServerKey,
        request: &Message<'_>,
        hop: Hop,
        user: u64,
    ) -> Result<ServerId, Full> {
        debug_assert!(key.method != Method::Ack, "an ACK opens no transaction");
        self.turn(now);
        let hop = response_hop(hop, request.via());
        let opened = self.servers.insert_with(|slot| {
            let core = ServerCore::new(slot, key.hash, key.legacy, hop, user);
            if key.method == Method::Invite {
                Server::Invite(InviteServer::new(core))
            } else {
                Server::Other(NonInviteServer::new(core))
            }
        });
        let Ok(slot) = opened else {
            self.shared.counters.servers_full += 1;
            return Err(Full);
        };
        let replaced = self.shared.index.insert(key.hash, slot);
        debug_assert!(replaced.is_none(), "opened twice");
        let opened = &mut self.shared.counters.opened;
        *server_kind(opened, key.method == Method::Invite) += 1;
        self.check();
        Ok(ServerId(slot))
    }

    /// Sends a response of the TU's, which `write` appends to the buffer it is handed.
    ///
    /// False if the transaction is over or too far for it; `write` is not called then. Over an unreliable transport
    /// it is kept and repeated as the machine says; the 2xx of an INVITE is not, its repetition is the UAS core's.
    pub fn respond(
        &mut self,
        now: Instant,
        server: ServerId,
        status: u16,
        write: impl FnOnce(&mut Vec<u8>),
        out: &mut Outbox,
    ) -> bool {
        self.turn(now);
        let cx = &mut Cx { now, shared: &mut self.shared };
        let class = Class::of(status);
        let sent = match self.servers.get_mut(server.0) {
            Some(Server::Invite(machine)) => machine.respond(class, write, cx, out),
            Some(Server::Other(machine)) => machine.respond(class, write, cx, out),
            None => false,
        };
        self.reap_server(now, server.0);
        self.check();
        sent
    }

    /// Ends a server transaction that will get no final response, as a non-INVITE whose time is up must not
    /// (RFC 4320 §4.2). Does nothing once there is one.
    pub fn abandon_server(&mut self, now: Instant, server: ServerId) {
        self.turn(now);
        let cx = &mut Cx { now, shared: &mut self.shared };
        match self.servers.get_mut(server.0) {
            Some(Server::Invite(machine)) => machine.abandon(cx),
            Some(Server::Other(machine)) => machine.abandon(cx),
            None => {}
        }
        self.reap_server(now, server.0);
        self.check();
    }

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

    /// Tells the transaction of a message that could not be sent (§17.1.4, §17.2.4); `message` is what was sent,
    /// or a part of it that reaches beyond Via, CSeq and Call-ID.
    pub fn transport_error(&mut self, now: Instant, message: &[u8]) {
        self.turn(now);
        let Ok(failed) = Message::parse(message, &mut self.shared.own, &OWN) else { return };
        if failed.is_request() {
            let branch = failed.via().branch.unwrap_or_default();
            let is_ack = failed.method() == Method::Ack;
            let method = if is_ack { Method::Invite } else { failed.method() };
            let Some(key) = find_client(&self.clients, branch, method) else { return };
            let cx = &mut Cx { now, shared: &mut self.shared };
            if let Some(client) = self.clients.get_mut(key) {
                client.transport_error(cx);
            }
            self.reap_client(now, key);
        } else {
            let hash = self.shared.matcher.answered(&failed);
            let Some(key) = hash.and_then(|hash| self.shared.index.get(hash)) else { return };
            let cx = &mut Cx { now, shared: &mut self.shared };
            if let Some(server) = self.servers.get_mut(key) {
                server.transport_error(cx);
            }
            self.reap_server(now, key);
        }
        self.check();
    }

    /// Fires the timers due at `now`.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.turn(now);
        while let Some(alarm) = self.shared.wheel.pop_due(now) {
            let cx = &mut Cx { now, shared: &mut self.shared };
            if alarm.timer.is_of_server() {
                if let Some(server) = self.servers.get_mut(alarm.key) {
                    server.fire(alarm.timer, cx, out);
                }
                self.reap_server(now, alarm.key);
            } else {
                if let Some(client) = self.clients.get_mut(alarm.key) {
                    client.fire(alarm.timer, cx, out);
                }
                self.reap_client(now, alarm.key);
            }
        }
        self.check();
    }

    /// When to call [`Layer::handle_timeout`] next, at the latest; `None` without timers.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.shared.wheel.next_deadline()
    }

    /// The next thing that the TU has to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// The TU's handle of a server transaction, while it lives.
    #[must_use]
    pub fn server_user(&self, server: ServerId) -> Option<u64> {
        self.servers.get(server.0).map(|server| server.core().user)
    }

    /// The TU's handle of a client transaction, while it lives.
    #[must_use]
    pub fn client_user(&self, client: ClientId) -> Option<u64> {
        self.clients.get(client.0).and_then(|client| client.core().user)
    }

    /// Changes the TU's handle of a server transaction; false if it is over.
    pub fn set_server_user(&mut self, server: ServerId, user: u64) -> bool {
        self.servers.get_mut(server.0).map(|server| server.core_mut().user = user).is_some()
    }

    /// Changes the TU's handle of a client transaction; false if it is over.
    pub fn set_client_user(&mut self, client: ClientId, user: u64) -> bool {
        self.clients.get_mut(client.0).map(|client| client.core_mut().user = Some(user)).is_some()
    }

    /// Where the responses of a server transaction go, while it lives.
    #[must_use]
    pub fn server_hop(&self, server: ServerId) -> Option<Hop> {
        self.servers.get(server.0).map(|server| server.core().hop)
    }

    /// Where the request of a client transaction went, while it lives.
    #[must_use]
    pub fn client_hop(&self, client: ClientId) -> Option<Hop> {
        self.clients.get(client.0).map(|client| client.core().hop)
    }

    /// Whether [`Layer::open_server`] refuses.
    #[must_use]
    pub fn servers_full(&self) -> bool {
        self.servers.is_full()
    }

    /// Transactions alive, by kind.
    #[must_use]
    pub const fn len(&self) -> PerKind {
        let Counters { opened, finished, .. } = &self.shared.counters;
        PerKind {
            invite_server: opened.invite_server - finished.invite_server,
            non_invite_server: opened.non_invite_server - finished.non_invite_server,
            invite_client: opened.invite_client - finished.invite_client,
            non_invite_client: opened.non_invite_client - finished.non_invite_client,
        }
    }

    /// Whether no transaction is alive; then no timer runs either.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.clients.is_empty()
    }

    /// What happened so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Octets that a client transaction keeps.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self, client: ClientId) -> usize {
        self.clients.get(client.0).and_then(|c| c.core().kept.as_ref()).map_or(0, |kept| kept.len())
    }

    /// Takes a server transaction out if it has ended.
    fn reap_server(&mut self, now: Instant, key: Key) {
        if !self.servers.get(key).is_some_and(Server::is_terminated) {
            return;
        }
        let Some(mut server) = self.servers.remove(key) else { return };
        let is_invite = matches!(server, Server::Invite(_));
        let core = server.core_mut();
        core.stop_timers(&mut Cx { now, shared: &mut self.shared });
        self.shared.index.remove_exact(core.hash(), key);
        if let Some(ack) = core.legacy_ack() {
            self.shared.index.remove_exact(ack, key);
        }
        *server_kind(&mut self.shared.counters.finished, is_invite) += 1;
        self.shared.events.push_back(Event::ServerTerminated { server: core.id, user: core.user });
    }

    /// Takes a client transaction out if it has ended, and with an INVITE its CANCEL, whose responses can't be
    /// found any more.
    fn reap_client(&mut self, now: Instant, key: Key) {
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

    /// The wheel stands on time that never goes back.
    fn turn(&mut self, now: Instant) {
        debug_assert!(now >= self.latest, "time went back");
        self.latest = now;
    }

    /// What holds after every call.
    fn check(&self) {
        let (servers, clients) = (self.servers.len(), self.clients.len());
        let shared = &self.shared;
        debug_assert_eq!(self.len().sum(), (servers + clients) as u64);
        debug_assert!(shared.wheel.len() <= 2 * (servers + clients), "a timer outlived its transaction");
        debug_assert!((servers..=2 * servers).contains(&shared.index.len()), "index and table differ");
    }
}

/// The client transaction of a branch and a CSeq method (§17.1.3). Our CANCEL has its INVITE's branch.
fn find_client(clients: &Pool<Client>, branch: &[u8], method: Method) -> Option<Key> {
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

fn server_kind(counts: &mut PerKind, is_invite: bool) -> &mut u64 {
    if is_invite { &mut counts.invite_server } else { &mut counts.non_invite_server }
}

fn client_kind(counts: &mut PerKind, is_invite: bool) -> &mut u64 {
    if is_invite { &mut counts.invite_client } else { &mut counts.non_invite_client }
}
