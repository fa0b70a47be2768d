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

mod clients;
mod servers;

use std::collections::VecDeque;

use tandem_base::{HashKey, Instant, KeyTable, Pool, Rng, Wheel};
use tandem_sip::{Index, Message, Method, Outbox};

use crate::client::Client;
use crate::key::Matcher;
use crate::server::Server;
use crate::shared::{Cx, Shared};
use crate::write::OWN;
use crate::{Config, Counters, Event, PerKind};

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

    /// Tells the transaction of a message that could not be sent (§17.1.4, §17.2.4); `message` is what was sent,
    /// or a part of it that reaches beyond Via, CSeq and Call-ID.
    pub fn transport_error(&mut self, now: Instant, message: &[u8]) {
        self.turn(now);
        let Ok(failed) = Message::parse(message, &mut self.shared.own, &OWN) else { return };
        if failed.is_request() {
            let branch = failed.via().branch.unwrap_or_default();
            let is_ack = failed.method() == Method::Ack;
            let method = if is_ack { Method::Invite } else { failed.method() };
            let Some(key) = clients::find_client(&self.clients, branch, method) else { return };
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
