//! The daemon as a machine: what ships is what the simulator runs.
//!
//! One [`Node`] is one shard's half of the server: it owns the transactions and forwarded requests of the calls whose
//! Call-ID the shard owns, and shares with the other shards only what [`Shared`] holds. Octets and commands come in
//! with the turn's time, messages go out through the [`Outbox`], questions for the control thread through
//! [`Node::poll_event`].
//!
//! The order of work on a request is the papers' (Singh fig. 22): `receive` parses and matches transactions,
//! `request` decides whose it is, `authorise` who sent it, `location` updates or looks up bindings, and the proxy
//! crate forwards; `answer` writes what we say ourselves.

mod answer;
mod authorise;
mod balance;
mod config;
mod counters;
mod domains;
mod local;
mod location;
mod receive;
mod reflection;
mod request;
mod shared;

use std::collections::VecDeque;
use std::sync::Arc;

use tandem_balance::{Balancer, ProbeAnswer};
use tandem_base::{HashKey, Instant, Pool, Rng};
use tandem_proxy::{Proxy, TargetSet, Turn};
use tandem_sip::{Index, Outbox};
use tandem_transaction::Layer;

pub use config::{Auth, Challenge, Config, Durability, Mode, Network};
pub use counters::{Counters, Each};
pub use domains::Domains;
pub use reflection::STRANGER_CREDIT;
pub use shared::Shared;
pub use tandem_proxy::{Listener, Listeners};

use answer::Pending;
use local::Local;
use reflection::Debts;

/// What a node asks of the control thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The bindings of this address-of-record changed and must be stored; answered by [`Command::Persisted`].
    Persist {
        /// Names the question.
        ticket: u64,
        /// The address-of-record in canonical form.
        aor: Box<[u8]>,
    },
    /// The addresses of a host name (RFC 3263); answered by [`Command::Resolved`].
    Resolve {
        /// Names the question.
        ticket: u64,
        /// The host name.
        host: Box<[u8]>,
        /// The port, where one is given: then no SRV records are asked for.
        port: Option<u16>,
        /// How it will be reached.
        transport: tandem_sip::Transport,
    },
    /// A destination answered a probe, which the first shard sent, or ICMP did; to be told to it by [`Command::Probed`].
    Probed(ProbeAnswer),
}

/// What the control thread tells a node.
#[derive(Clone, Debug)]
pub enum Command {
    /// The store has, or could not take, what [`Event::Persist`] named.
    Persisted {
        /// The tickets of the events.
        tickets: Box<[u64]>,
        /// Whether it is on disk.
        ok: bool,
    },
    /// The addresses that [`Event::Resolve`] asked for, in the order to try them; none if there are none.
    Resolved {
        /// The event's ticket.
        ticket: u64,
        /// The addresses.
        addresses: Box<[core::net::SocketAddr]>,
    },
    /// The network refused a message of ours (ICMP, no route): these are its octets.
    Undeliverable {
        /// The message as sent.
        message: Box<[u8]>,
    },
    /// Another configuration is in force from now on.
    Reconfigure(Arc<Config>),
    /// What [`Event::Probed`] of another shard said.
    Probed(ProbeAnswer),
    /// Look at the node: for an operator's question.
    Look(Look),
    /// Take no new calls and registrations (`true`), or take them again.
    Drain(bool),
}

/// What is done with a shard's node for an operator's question.
#[derive(Clone)]
pub struct Look(pub Arc<Glance>);

/// See [`Look`].
pub type Glance = dyn Fn(&Node, Instant) + Send + Sync;

impl core::fmt::Debug for Look {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Look(..)")
    }
}

/// One shard's half of the server.
pub struct Node {
    config: Arc<Config>,
    shared: Arc<Shared>,
    key: HashKey,
    /// The cluster's secret itself.
    cluster_key: HashKey,
    /// The one before it.
    previous_key: Option<HashKey>,
    /// Which shard this is.
    shard: usize,
    balancer: Option<Box<Balancer>>,
    rng: Rng,
    layer: Layer,
    proxy: Proxy,
    /// Answers that wait for the store, and what is on its way there without anyone waiting.
    pending: Pool<Pending>,
    events: VecDeque<Event>,
    is_draining: bool,
    counters: Counters,
    index: Index,
    targets: TargetSet,
    guesses: tandem_auth::Guesses,
    debts: Debts,
    /// Where header field lines and addresses-of-record are put together.
    scratch: Vec<u8>,
    aor: Vec<u8>,
    local: Arc<Local>,
}

impl Node {
    /// A node of the cluster whose secret is `key`; `seed` is this shard's own and differs from any other's.
    #[must_use]
    pub fn new(config: Arc<Config>, shared: Arc<Shared>, key: &HashKey, seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let secret = HashKey::from_rng(&mut rng);
        let layer = Layer::new(config.transaction, secret, rng.fork());
        let unix_ms_at_zero = shared.challenger.unix_ms(Instant::ZERO);
        let listeners = proxy_listeners(&config);
        let mut proxy = Proxy::new(config.proxy.clone(), listeners, *key, rng.fork(), unix_ms_at_zero);
        let local = Arc::new(Local { config: Arc::clone(&config), shared: Arc::clone(&shared) });
        proxy.set_locator(Arc::<Local>::clone(&local));
        let pending = Pool::new(config.persist_in_flight_max);
        let guesses = tandem_auth::Guesses::new(&secret, config.auth.guesses);
        let mut node = Self {
            key: key.derive(b"node"),
            cluster_key: *key,
            previous_key: None,
            shard: 0,
            balancer: None,
            rng,
            layer,
            proxy,
            pending,
            events: VecDeque::new(),
            is_draining: false,
            counters: Counters::default(),
            index: Index::new(),
            targets: TargetSet::new(),
            guesses,
            debts: Debts::new(&secret),
            scratch: Vec::new(),
            aor: Vec::new(),
            local,
            config,
            shared,
        };
        node.take_pools(Instant::ZERO);
        node
    }

    /// Believes what the cluster signed under `previous` too, its secret before this one: routes and branches of calls
    /// that were set up under it. Nothing new is signed so.
    #[must_use]
    pub fn with_previous_key(mut self, previous: Option<&HashKey>) -> Self {
        self.previous_key = previous.copied();
        self.proxy.set_previous_key(previous);
        if let Some(balancer) = &mut self.balancer {
            balancer.change_keys(&self.cluster_key, previous);
        }
        self
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.layer.handle_timeout(now, out);
        self.proxy.handle_timeout(&mut Turn { now, layer: &mut self.layer, out });
        if let Some(balancer) = &mut self.balancer {
            balancer.handle_timeout(now, out);
        }
        self.drain_layer(now, out);
    }

    /// When [`Node::handle_timeout`] has work, at the latest; `None` while nothing waits.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let balancer = self.balancer.as_ref().and_then(|balancer| balancer.poll_timeout());
        [self.layer.poll_timeout(), self.proxy.poll_timeout(), balancer].into_iter().flatten().min()
    }

    /// The next question for the control thread.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(tandem_proxy::Event::Resolve { ticket, host, port, transport }) = self.proxy.poll_event()
        {
            return Some(Event::Resolve { ticket, host, port, transport });
        }
        self.poll_balancer().or_else(|| self.events.pop_front())
    }

    /// Takes what the control thread says.
    pub fn handle_command(&mut self, now: Instant, command: &Command, out: &mut Outbox) {
        match command {
            Command::Persisted { tickets, ok } => {
                tickets.iter().for_each(|&ticket| self.persisted(now, ticket, *ok, out));
            }
            Command::Resolved { ticket, addresses } => {
                if self.balancer_resolved(now, *ticket, addresses, out) {
                    return;
                }
                self.proxy.resolved(&mut Turn { now, layer: &mut self.layer, out }, *ticket, addresses);
            }
            Command::Undeliverable { message } => {
                let balancer = self.balancer.as_mut();
                if balancer.is_some_and(|balancer| balancer.handle_undeliverable(now, message, out)) {
                    return;
                }
                self.layer.transport_error(now, message);
            }
            Command::Reconfigure(config) => {
                self.proxy.reconfigure(config.proxy.clone(), proxy_listeners(config));
                self.config = Arc::clone(config);
                self.take_pools(now);
                self.local = Arc::new(Local { config: Arc::clone(config), shared: Arc::clone(&self.shared) });
                self.proxy.set_locator(Arc::<Local>::clone(&self.local));
            }
            Command::Probed(answer) => {
                if let Some(balancer) = &mut self.balancer {
                    balancer.probed(now, answer);
                }
            }
            Command::Look(look) => (look.0)(self, now),
            Command::Drain(drain) => {
                self.is_draining = *drain;
                if let Some(balancer) = &mut self.balancer {
                    balancer.set_draining(*drain);
                }
            }
        }
        self.drain_layer(now, out);
    }

    fn drain_layer(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(event) = self.layer.poll_event() {
            self.proxy.handle_event(&mut Turn { now, layer: &mut self.layer, out }, &event);
        }
    }

    /// Whether nothing is in progress: no transaction, no forwarded request, no answer that waits for the store.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let is_balanced = self.balancer.as_ref().is_none_or(|balancer| balancer.is_idle());
        self.layer.is_empty() && self.proxy.is_empty() && self.pending.is_empty() && is_balanced
    }

    /// Calls and registrations in progress, finished transactions that only absorb retransmissions left out.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        let balanced = self.balancer.as_ref().map_or(0, |balancer| balancer.in_progress());
        self.proxy.len() + self.pending.len() + balanced
    }

    /// What this shard counted since its start.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The transaction layer's tables and counters.
    #[must_use]
    pub const fn transactions(&self) -> &Layer {
        &self.layer
    }

    /// The proxy's tables and counters.
    #[must_use]
    pub const fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Writes every counter of this shard as `name`, labels and value, for whoever exports them.
    pub fn report(&self, each: &mut Each<'_>) {
        counters::report(self, each);
    }
}

/// The listeners as the proxy knows them: a Route that names a domain of ours means us.
fn proxy_listeners(config: &Config) -> Listeners {
    config.listeners.clone().with_names(config.domains.iter())
}
