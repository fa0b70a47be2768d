//! Requests in and their responses out: the server transactions (RFC 3261 §17.2, §9.2).

use tandem_base::{Full, Instant, Key};
use tandem_sip::{Hop, Message, Method, Outbox};

use super::Layer;
use crate::invite_server::{Ack, InviteServer};
use crate::non_invite_server::NonInviteServer;
use crate::server::{Server, ServerCore};
use crate::shared::{Class, Cx};
use crate::{Arrival, Event, PerKind, ServerId, ServerKey, response_hop};

impl Layer {
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

    /// The TU's handle of a server transaction, while it lives.
    #[must_use]
    pub fn server_user(&self, server: ServerId) -> Option<u64> {
        self.servers.get(server.0).map(|server| server.core().user)
    }

    /// Changes the TU's handle of a server transaction; false if it is over.
    pub fn set_server_user(&mut self, server: ServerId, user: u64) -> bool {
        self.servers.get_mut(server.0).map(|server| server.core_mut().user = user).is_some()
    }

    /// Where the responses of a server transaction go, while it lives.
    #[must_use]
    pub fn server_hop(&self, server: ServerId) -> Option<Hop> {
        self.servers.get(server.0).map(|server| server.core().hop)
    }

    /// Whether [`Layer::open_server`] refuses.
    #[must_use]
    pub fn servers_full(&self) -> bool {
        self.servers.is_full()
    }

    /// Whether [`Layer::open_client`] refuses.
    #[must_use]
    pub fn clients_full(&self) -> bool {
        self.clients.is_full()
    }

    /// Takes a server transaction out if it has ended.
    pub(super) fn reap_server(&mut self, now: Instant, key: Key) {
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
}

fn server_kind(counts: &mut PerKind, is_invite: bool) -> &mut u64 {
    if is_invite { &mut counts.invite_server } else { &mut counts.non_invite_server }
}
