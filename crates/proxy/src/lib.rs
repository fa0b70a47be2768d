//! The proxy: RFC 3261 §16, cut where the RFC cuts it.
//!
//! | step | file |
//! |---|---|
//! | §16.3 validate the request, RFC 5393 loops and breadth | `validate` |
//! | §16.4 route information, and whose Record-Route it is | `route`, `cookie` |
//! | §16.5 the target set (the caller looks the targets up) | `targets` |
//! | §16.6 forward: the received octets with a few edits | `forward` |
//! | §16.7 the response context: forks, best response, CANCEL, timer C | `context`, `respond`, `best` |
//! | §16.11 stateless forwarding | `stateless` |
//! | §8.3 redirect | `redirect` |
//!
//! It owns no sockets, clock or location service: the node tells it the targets, and it asks for addresses of host
//! names by [`Event::Resolve`]. Left out: rewriting of Record-Route in responses (§16.7 step 8), because a second
//! Record-Route value serves the same end (RFC 5658).

mod best;
mod branch;
mod config;
mod context;
mod cookie;
mod counters;
mod forward;
mod locate;
mod redirect;
mod respond;
mod route;
mod stateless;
mod targets;
mod validate;

use std::collections::VecDeque;
use std::sync::Arc;

use tandem_base::{HashKey, Instant, Key, Pool, Rng, Wheel};
use tandem_sip::{Edits, Outbox};
use tandem_transaction::Layer;

pub use config::{Config, Fork};
pub use counters::Counters;
pub use forward::Forwarding;
pub use locate::{Locate, Wanted};
pub use redirect::redirect_headers;
pub use route::{Dialog, Routed};
pub use tandem_sip::{Listener, Listeners};
pub use targets::{NextHop, Part, Target, TargetSet};
pub use validate::Rejection;

use context::ResponseContext;
use locate::Locator;

/// Host names being looked up at once, each a branch that waits.
const LOOKUPS_MAX: u32 = 65_536;

/// What every step is handed: the turn's time, the transactions, and where to write.
pub struct Turn<'a> {
    /// The turn's time.
    pub now: Instant,
    /// The transaction layer, shared with the node's own user agent server.
    pub layer: &'a mut Layer,
    /// What is sent.
    pub out: &'a mut Outbox,
}

/// What the proxy asks of its node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The addresses of a host name (RFC 3263); answered by [`Proxy::resolved`].
    Resolve {
        /// Names the branch that waits.
        ticket: u64,
        /// The host name.
        host: Box<[u8]>,
        /// The port, where the URI has one; without, SRV records are asked for.
        port: Option<u16>,
        /// The transport to reach it by.
        transport: tandem_sip::Transport,
    },
}

/// The proxy core: all response contexts of one shard.
#[derive(Debug)]
pub struct Proxy {
    config: Config,
    listeners: Listeners,
    /// Signs Record-Route cookies and stateless branches: the same on every node of a cluster.
    key: HashKey,
    /// The key before it: what it signed is believed, and nothing is signed under it.
    previous: Option<HashKey>,
    rng: Rng,
    contexts: Pool<ResponseContext>,
    timers: Wheel<context::TimerC>,
    edits: Edits,
    /// Branches whose host name is being looked up; the key is the ticket.
    lookups: Pool<(Key, usize)>,
    events: VecDeque<Event>,
    counters: Counters,
    /// The wall clock at [`Instant::ZERO`], in Unix milliseconds.
    unix_ms_at_zero: u64,
    /// Knows the users of our own domains.
    locator: Locator,
}

impl Proxy {
    /// A proxy on `listeners`; `key` is the cluster's secret, `rng` this shard's own. `unix_ms_at_zero` is the wall clock
    /// at [`Instant::ZERO`] in Unix milliseconds, by which nodes agree on the age of a Record-Route.
    #[must_use]
    pub fn new(config: Config, listeners: Listeners, key: HashKey, rng: Rng, unix_ms_at_zero: u64) -> Self {
        let contexts = Pool::new(config.contexts_max);
        Self {
            config,
            listeners,
            key: key.derive(b"proxy"),
            previous: None,
            rng,
            contexts,
            timers: Wheel::new(),
            edits: Edits::new(),
            lookups: Pool::new(LOOKUPS_MAX),
            events: VecDeque::new(),
            counters: Counters::default(),
            unix_ms_at_zero,
            locator: Locator::default(),
        }
    }

    /// Believes what the cluster signed under `previous` too, its secret before this one, so that calls outlive a change
    /// of the secret.
    pub fn set_previous_key(&mut self, previous: Option<&HashKey>) {
        self.previous = previous.map(|previous| previous.derive(b"proxy"));
    }

    /// The keys that may have signed what comes back to us, the one in force first.
    fn keys(&self) -> impl Iterator<Item = &HashKey> {
        core::iter::once(&self.key).chain(&self.previous)
    }

    /// Tells who knows the users of our own domains: contacts of a 3xx that name one are looked up, not sent to.
    pub fn set_locator(&mut self, locator: Arc<dyn Locate>) {
        self.locator = Locator(Some(locator));
    }

    /// Replaces what may change while calls are up; contexts in progress go on under the new values.
    pub fn reconfigure(&mut self, config: Config, listeners: Listeners) {
        self.config = Config { contexts_max: self.config.contexts_max, ..config };
        self.listeners = listeners;
    }

    /// The configuration in force.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Our listeners.
    #[must_use]
    pub const fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Forwarded requests whose state is kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contexts.len()
    }

    /// Whether no state is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// Whether a further request can't be forwarded with state.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.contexts.is_full()
    }

    fn hour(&self, now: Instant) -> cookie::Hour {
        cookie::Hour::of_unix_ms(self.unix_ms_at_zero.saturating_add(now.as_millis()))
    }

    /// The next question for the node.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Proxy::handle_timeout`] has work, at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    fn context(&self, bits: u64) -> Option<(Key, &ResponseContext)> {
        let key = Key::from_bits(bits)?;
        self.contexts.get(key).map(|context| (key, context))
    }
}
