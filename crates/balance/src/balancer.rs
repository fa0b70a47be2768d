//! The machine: requests and responses in, what is sent out, a deadline.
//!
//! | step (Jiang et al., figure 3) | file |
//! |---|---|
//! | Session Recognition: whose is a request | `route`, `calls/` |
//! | Session State | `calls/` |
//! | Server Selection | `pool`, `policy/` |
//! | Load Estimates | `calls/book`, `board`, `loads` |
//! | what to do with a request, with a response | `request`, `response` |
//! | Sender: the received octets with a few edits | `forward` |
//! | Trigger: the next destination, deadlines | `failover`, `calls/progress` |
//!
//! It is stateful about calls and knows transactions, but absorbs no retransmission and answers nothing but overload,
//! questions about itself, and what it can't forward. What it writes into messages is enough to route every later
//! message of a call with an empty table (`token`).

use std::collections::VecDeque;
use std::sync::Arc;

use tandem_base::{HashKey, Instant, Key, Map, Rng, map};
use tandem_sip::{Edits, Hop, Index, Listener, Listeners, Message, Outbox, Transport};

use crate::byes::Byes;
use crate::calls::{Calls, Place};
use crate::config::{AUDIT_EVERY, AUDITED_AT_ONCE, Config, LOOKUPS_MAX};
use crate::counters::Counters;
use crate::failover::Copies;
use crate::lines::{Line, Lines};
use crate::occupancy::{Clock, Occupancy, Stopwatch, Timing};
use crate::token::{DestinationTag, Signer};
use crate::{Pool, ProbeAnswer, Slot, Watch, read_probe_answer, read_undelivered_probe, write_probe};

/// What a balancer asks of its node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The addresses of a host name (RFC 3263); answered by [`Balancer::resolved`].
    Resolve {
        /// Names the question.
        ticket: u64,
        /// The host name.
        host: Box<[u8]>,
        /// The port, where the URI has one.
        port: Option<u16>,
        /// The transport to reach it by.
        transport: Transport,
    },
    /// A probe was answered, or came back by ICMP, on a shard that does not probe; for [`Balancer::probed`] of the one that does.
    Probed(ProbeAnswer),
}

/// A request that waits for an address.
pub(crate) struct Waiting {
    pub(crate) hop: Hop,
    pub(crate) bytes: Box<[u8]>,
}

/// One shard's balancer.
pub struct Balancer {
    pub(crate) config: Arc<Config>,
    pub(crate) listeners: Listeners,
    pub(crate) signer: Signer,
    /// Signs the tags of our own answers.
    pub(crate) own: HashKey,
    pub(crate) calls: Calls,
    pub(crate) lines: Lines,
    /// Pools in the order of the configuration.
    pub(crate) order: Vec<u16>,
    /// The pool that takes what no other does.
    pub(crate) rest: Option<u16>,
    /// Destinations by what tokens and branches call them.
    pub(crate) tags: Map<DestinationTag, Place>,
    /// Destinations by address.
    pub(crate) sources: Map<core::net::SocketAddr, Place>,
    pub(crate) copies: Copies,
    pub(crate) byes: Byes,
    pub(crate) waiting: tandem_base::Pool<Waiting>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    pub(crate) edits: Edits,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) is_draining: bool,
    /// The health of each line's destinations, on the shard that probes.
    watches: Vec<Watch>,
    /// Marks our probes, on all shards alike.
    probe_key: HashKey,
    pub(crate) rng: Rng,
    audit_at: Instant,
    index: Index,
    shard: usize,
    key: HashKey,
}

impl Balancer {
    /// The balancer of shard number `shard`. `key` is the cluster's secret: all its balancers believe each other's
    /// tokens, and those that `previous` signed. `rng` is this shard's own.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        listeners: Listeners,
        key: &HashKey,
        previous: Option<&HashKey>,
        shard: usize,
        mut rng: Rng,
    ) -> Self {
        let local = HashKey::from_rng(&mut rng);
        let calls = Calls::new(local.derive(b"calls"), config.entries_max, config.times);
        let copies = Copies::new(config.copies_max);
        let byes = Byes::new(config.copies_max, local.derive(b"byes"));
        let mut balancer = Self {
            listeners,
            signer: Signer::new(key, previous),
            own: key.derive(b"balance tag"),
            calls,
            lines: Lines { all: Vec::new(), now: Instant::ZERO },
            order: Vec::new(),
            rest: None,
            tags: map(local.derive(b"tags")),
            sources: map(local.derive(b"sources")),
            copies,
            byes,
            waiting: tandem_base::Pool::new(LOOKUPS_MAX),
            events: VecDeque::new(),
            counters: Counters::default(),
            edits: Edits::new(),
            stopwatch: Stopwatch::default(),
            is_draining: false,
            watches: Vec::new(),
            probe_key: key.derive(b"balance probe"),
            rng,
            audit_at: Instant::ZERO,
            index: Index::new(),
            shard,
            key: *key,
            config: Arc::clone(&config),
        };
        balancer.take_pools(Instant::ZERO, &config);
        balancer
    }

    /// Takes over another configuration. Pools keep their calls by name, destinations by id; the calls of a pool that
    /// is gone go on, and no new ones come. Bounds of tables need a restart.
    pub fn reconfigure(&mut self, now: Instant, config: Arc<Config>, listeners: Listeners) {
        self.listeners = listeners;
        self.calls.set_times(config.times);
        self.take_pools(now, &config);
        self.config = config;
    }

    fn take_pools(&mut self, now: Instant, config: &Config) {
        self.order.clear();
        for pool in &config.pools {
            let name = pool.settings.name();
            let at = self.lines.all.iter().position(|line| line.pool.settings().name() == name);
            let number = u16::try_from(at.unwrap_or(self.lines.all.len())).unwrap_or(u16::MAX);
            match at.and_then(|at| self.lines.all.get_mut(at)) {
                Some(line) => {
                    for slot in line.reconfigure(now, pool.clone()) {
                        self.calls.remove_place(Place { pool: number, slot });
                    }
                }
                None => {
                    let key = self.key.derive(b"balance policy");
                    self.lines.all.push(Line::new(pool.clone(), self.shard, key, self.rng.fork()));
                }
            }
            self.order.push(number);
        }
        for (at, line) in self.lines.all.iter().enumerate() {
            let settings = Arc::clone(line.pool.settings());
            match self.watches.get_mut(at) {
                Some(watch) => watch.reconfigure(now, settings),
                None if self.shard == 0 => {
                    let key = HashKey::from_rng(&mut self.rng);
                    self.watches.push(Watch::new(now, settings, Arc::clone(line.pool.board()), key));
                }
                None => {}
            }
        }
        let is_rest = |&pool: &u16| self.lines.get(pool).is_some_and(|line| line.config.hosts.is_empty());
        self.rest = self.order.iter().copied().find(is_rest);
        self.tags.clear();
        self.sources.clear();
        for (place, destination) in self.lines.iter() {
            self.tags.insert(self.lines.tag(place), place);
            self.sources.insert(destination.hop.peer, place);
        }
    }

    /// Believes tokens of `key` and of `previous` from now on, and signs under `key`.
    pub fn change_keys(&mut self, key: &HashKey, previous: Option<&HashKey>) {
        self.signer = Signer::new(key, previous);
    }

    /// Lends a clock, by which one new request of 64 is timed; without one nothing is.
    pub fn lend_clock(&mut self, clock: Clock) {
        self.stopwatch.lend(clock);
    }

    /// Takes no new calls (`true`), or takes them again.
    pub const fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// Takes one received message, for a node that is nothing but a balancer.
    pub fn handle_input(&mut self, now: Instant, hop: Hop, bytes: &[u8], out: &mut Outbox) {
        let mut index = core::mem::take(&mut self.index);
        if let Ok(message) = Message::parse(bytes, &mut index, &self.config.limits) {
            if !message.is_request() {
                self.handle_response(now, &message, out);
            } else if let Some(defect) = message.defect() {
                self.answer_defect(hop, &message, defect, out);
            } else if let Some(routed) = self.route(hop, &message, false) {
                self.handle_request(now, hop, &message, &routed, out);
            }
        }
        self.index = index;
    }

    /// The addresses that [`Event::Resolve`] asked for; none if there are none.
    pub fn resolved(
        &mut self,
        now: Instant,
        ticket: u64,
        addresses: &[core::net::SocketAddr],
        out: &mut Outbox,
    ) {
        let Some(waiting) = Key::from_bits(ticket).and_then(|key| self.waiting.remove(key)) else { return };
        let mut index = core::mem::take(&mut self.index);
        if let Ok(message) = Message::parse(&waiting.bytes, &mut index, &self.config.limits)
            && let Some(routed) = self.route(waiting.hop, &message, false)
        {
            self.handle_resolved(now, waiting.hop, &message, &routed, addresses.first().copied(), out);
        }
        self.index = index;
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.lines.now = now;
        if now >= self.audit_at {
            for (pool, line) in (0_u16..).zip(&mut self.lines.all) {
                line.pool.refresh(now);
                for slot in line.pool.take_fallen() {
                    self.calls.place_fell(Place { pool, slot });
                }
            }
        }
        self.calls.handle_timeout(now, &mut self.lines);
        self.let_copies_go();
        while let Some(copy) = self.copies.pop_due(now) {
            self.first_request_timed_out(now, copy, out);
        }
        self.byes.handle_timeout(now, out);
        for (pool, watch) in (0_u16..).zip(&mut self.watches) {
            watch.handle_timeout(now);
            while let Some(probe) = watch.poll_probe() {
                if let Some(listener) = self.listeners.get(probe.hop.listener) {
                    let from = advertised(listener);
                    out.write(probe.hop, |out| write_probe(&self.probe_key, pool, from, &probe, out));
                }
            }
        }
        if now >= self.audit_at {
            self.audit_at = now + AUDIT_EVERY;
            let lines = &self.lines;
            self.calls.audit(AUDITED_AT_ONCE, |place| lines.booked(place));
        }
    }

    /// When [`Balancer::handle_timeout`] has work, at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.calls.is_removing() {
            return Some(self.lines.now);
        }
        let watches = self.watches.iter().map(Watch::poll_timeout);
        let tables = [self.calls.poll_timeout(), self.copies.poll_timeout(), self.byes.poll_timeout()];
        watches.chain(tables).flatten().min()
    }

    /// What became of a probe, which another shard may have received.
    pub fn probed(&mut self, now: Instant, answer: &ProbeAnswer) {
        if let Some(watch) = self.watches.get_mut(usize::from(answer.pool)) {
            watch.handle_outcome(now, answer.slot, answer.number, answer.outcome);
        }
    }

    /// Whether a response answers one of our probes.
    pub(crate) fn take_probe_answer(&mut self, now: Instant, response: &Message<'_>) -> bool {
        read_probe_answer(&self.probe_key, response).is_some_and(|answer| self.take_probed(now, &answer))
    }

    /// Whether what came back by ICMP is one of our probes: then it failed, and nobody need wait for its timeout.
    pub(crate) fn take_undelivered_probe(&mut self, now: Instant, request: &Message<'_>) -> bool {
        read_undelivered_probe(&self.probe_key, request).is_some_and(|answer| self.take_probed(now, &answer))
    }

    fn take_probed(&mut self, now: Instant, answer: &ProbeAnswer) -> bool {
        if self.watches.is_empty() {
            self.events.push_back(Event::Probed(*answer));
        } else {
            self.probed(now, answer);
        }
        true
    }

    /// The next question for the node.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether nothing is in progress: no call, no request, nothing that waits for an address.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.calls.len() == self.calls.expired() && self.waiting.is_empty()
    }

    /// Requests in progress at destinations. Calls that are up wait for nobody: another balancer finds them by their
    /// tokens.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        let loads = self.lines.all.iter().flat_map(|line| {
            line.pool.settings().iter().map(|(slot, _)| line.pool.own_load(slot).transactions)
        });
        loads.map(|transactions| transactions as usize).sum()
    }

    /// The call table.
    #[must_use]
    pub const fn calls(&self) -> &Calls {
        &self.calls
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The pools in force, in the order of the configuration.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.order.iter().filter_map(|&pool| Some(&self.lines.get(pool)?.pool))
    }

    /// A pool in force.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools().find(|pool| pool.settings().name() == name)
    }

    /// What new requests found ahead of them on each destination of a pool.
    pub fn occupancy(&self, pool: &str) -> impl Iterator<Item = (Slot, &Occupancy)> {
        let line = self.lines.all.iter().find(|line| line.pool.settings().name() == pool);
        line.into_iter().flat_map(|line| {
            let slots = line.pool.settings().iter();
            slots.filter_map(|(slot, _)| Some((slot, line.occupancy.get(slot.index())?)))
        })
    }

    /// How long the choice of a destination took, and the whole of forwarding, over a sample.
    #[must_use]
    pub const fn timings(&self) -> (&Timing, &Timing) {
        (&self.stopwatch.decision, &self.stopwatch.forward)
    }

    /// Copies of first requests that may still go elsewhere.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.copies.len()
    }

    /// BYEs of our own that are not answered yet.
    #[must_use]
    pub fn byes(&self) -> usize {
        self.byes.len()
    }

    /// Where the call of this Call-ID is, if the table knows.
    #[must_use]
    pub fn whereabouts(&self, call_id: &[u8]) -> Option<(&str, &crate::Destination, &crate::calls::Call)> {
        let call = self.calls.get(self.calls.find(self.calls.hash(call_id))?)?;
        let pool = &self.lines.get(call.place().pool)?.pool;
        Some((pool.settings().name(), pool.settings().destination(call.place().slot)?, call))
    }
}

impl core::fmt::Debug for Balancer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Balancer({:?})", self.calls)
    }
}

/// The address that a listener goes by: as others are told, where that is an address.
fn advertised(listener: &Listener) -> core::net::SocketAddr {
    let told = core::str::from_utf8(listener.sent_by()).ok().and_then(|text| text.parse().ok());
    told.unwrap_or(listener.address)
}
