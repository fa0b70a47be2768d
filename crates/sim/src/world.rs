//! The world: hosts, the heap of what is to come, and the loop that makes it happen.

use core::cmp::Reverse;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BinaryHeap};
use std::{env, fs, path::PathBuf, thread};

use tandem_auth::Ha1;
use tandem_base::{HashKey, Instant, Rng};
use tandem_node::{Command, Config, Domains, Event as NodeEvent, Listener, Listeners, Node};
use tandem_registrar::Locations;
use tandem_sip::{Hop, Index, Limits, ListenerId, Message, Outbox, Transport};
use tandem_ua::{DialogId, Event, RequestId, Settings, Ua, Wish};

use crate::check::{self, Check, Role, Wire};
use crate::host::{NodeHost, NodeId, Phone, PhoneId};
use crate::pcap::{Captured, capture};
use crate::{Network, Store};

/// The domain of nodes that are given no other.
pub const DOMAIN: &str = "example.com";

/// Steps after which a world that does not come to rest is given up.
const STEPS_MAX: u64 = 2_000_000;
/// Datagrams kept for the capture.
const CAPTURED_MAX: usize = 200_000;

/// Whole seconds.
#[must_use]
pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Whole milliseconds.
#[must_use]
pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Who does something next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Actor {
    Shard(usize, usize),
    Phone(usize),
}

#[derive(Debug)]
enum What {
    Deliver { from: SocketAddr, to: SocketAddr, bytes: Box<[u8]> },
    Wake(Actor),
    Undeliverable { to: SocketAddr, bytes: Box<[u8]> },
    Commit { node: usize, boot: u64 },
    Resolved { node: usize, shard: usize, boot: u64, ticket: u64, host: Box<[u8]>, port: Option<u16> },
}

#[derive(Debug)]
struct Scheduled {
    at: Instant,
    sequence: u64,
    what: What,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// A world; see the crate.
pub struct World {
    seed: u64,
    now: Instant,
    /// The scenario's own dice; also the network's.
    pub rng: Rng,
    /// What happens to datagrams.
    pub network: Network,
    /// What names resolve to; a name that is not here does not exist.
    pub dns: BTreeMap<String, Vec<SocketAddr>>,
    /// How long a name takes to resolve.
    pub dns_delay: Duration,
    /// Whether a host without that address, or without a process there, says so by ICMP.
    pub icmp: bool,
    heap: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
    steps: u64,
    nodes: Vec<NodeHost>,
    phones: Vec<Phone>,
    strangers: BTreeMap<SocketAddr, Vec<Vec<u8>>>,
    addresses: BTreeMap<SocketAddr, Actor>,
    checks: Vec<Box<dyn Check>>,
    captured: Vec<Captured>,
    digest: u64,
    is_finished: bool,
}

impl World {
    /// An empty world; everything in it follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Instant::from_secs(1000),
            rng: Rng::from_seed(seed),
            network: Network::default(),
            dns: BTreeMap::new(),
            dns_delay: millis(20),
            icmp: false,
            heap: BinaryHeap::new(),
            sequence: 0,
            steps: 0,
            nodes: Vec::new(),
            phones: Vec::new(),
            strangers: BTreeMap::new(),
            addresses: BTreeMap::new(),
            checks: check::all(),
            captured: Vec::new(),
            digest: 0,
            is_finished: false,
        }
    }

    /// A world whose every link is poor: loss, delay, jitter and duplicates drawn from the seed.
    #[must_use]
    pub fn poor(seed: u64) -> Self {
        let mut world = Self::new(seed);
        world.network.link = crate::Link::poor(&mut world.rng);
        world
    }

    /// Takes the checkers of messages out, where messages are broken on purpose; the tables must drain all the same.
    pub fn without_message_checks(&mut self) {
        self.checks = check::of_tables();
    }

    /// The seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The virtual clock.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// A hash of every datagram so far with its time: equal for equal runs.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Adds a node for [`DOMAIN`], changed by `change`, and starts it.
    pub fn node(&mut self, name: &str, change: impl FnOnce(&mut Config)) -> NodeId {
        self.node_of(name, DOMAIN, 1, change)
    }

    /// Adds a node for `domain` with so many shards, changed by `change`, and starts it.
    ///
    /// All nodes of a domain have the same secret, as a cluster has.
    ///
    /// # Panics
    ///
    /// On a domain that is none.
    pub fn node_of(
        &mut self,
        name: &str,
        domain: &str,
        shards: usize,
        change: impl FnOnce(&mut Config),
    ) -> NodeId {
        let number = self.nodes.len();
        let address = host_address(0, number);
        let listener = Listener::new(Transport::Udp, address, None).expect("an address is a listener");
        let domains = Domains::new(&[domain]).expect("one domain");
        let mut config = Config::new(domains, Listeners::new(vec![listener]));
        // Small tables: a thousand worlds are made, and none needs more.
        config.transaction.servers_max = 4096;
        config.transaction.clients_max = 4096;
        config.proxy.contexts_max = 4096;
        config.auth.guesses.failures_max = 64;
        config.auth.guesses.successes_max = 64;
        config.persist_in_flight_max = 64;
        change(&mut config);
        let key = HashKey::from_bytes([7; 16]).derive(domain.as_bytes());
        let mut host = NodeHost::new(name, address, config, shards, key);
        host.start(self.now, self.rng.next_u64());
        self.nodes.push(host);
        for shard in 0..shards {
            self.addresses.insert(address, Actor::Shard(number, shard));
        }
        self.dns.entry(domain.to_owned()).or_default().push(address);
        NodeId(number)
    }

    /// Adds a telephone of `user` behind a node, in its domain, known to it by its password.
    pub fn phone(&mut self, user: &str, node: NodeId) -> PhoneId {
        let domain = self
            .nodes
            .get(node.0)
            .map(|node| String::from_utf8_lossy(node.config.domains.first()).into_owned())
            .unwrap_or_default();
        let number = self.phones.len();
        let address = host_address(1, number);
        let settings = Settings::new(user, &domain, address, self.node_address(node));
        if let Some(node) = self.nodes.get_mut(node.0) {
            let (name, password) = (settings.user.as_bytes(), settings.password.as_bytes());
            let ha1 = Ha1::from_password(name, domain.as_bytes(), password);
            let aor = format!("{user}@{domain}");
            node.shared.users.insert(aor.as_bytes(), ha1);
            node.users.push((aor, ha1));
        }
        let ua = Ua::new(settings, self.rng.next_u64());
        let name = format!("{user}-{number}");
        self.phones.push(Phone { name, address, ua, log: Vec::new(), wake: None });
        self.addresses.insert(address, Actor::Phone(number));
        PhoneId(number)
    }

    /// An address from which the scenario sends what it likes; what arrives there is kept.
    pub fn stranger(&mut self) -> SocketAddr {
        let address = host_address(2, self.strangers.len());
        self.strangers.insert(address, Vec::new());
        address
    }

    /// What a stranger received.
    #[must_use]
    pub fn received(&self, stranger: SocketAddr) -> &[Vec<u8>] {
        self.strangers.get(&stranger).map_or(&[], |received| received)
    }

    /// Sends one datagram from any address.
    pub fn send_raw(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.transmit(from, to, bytes);
    }

    /// The node that was added as the `number`-th, counted from 0.
    #[must_use]
    pub const fn node_id(&self, number: usize) -> NodeId {
        NodeId(number)
    }

    /// A node's address.
    #[must_use]
    pub fn node_address(&self, node: NodeId) -> SocketAddr {
        self.nodes.get(node.0).map_or(host_address(0, node.0), |node| node.address)
    }

    /// A telephone's address.
    #[must_use]
    pub fn phone_address(&self, phone: PhoneId) -> SocketAddr {
        host_address(1, phone.0)
    }

    /// A node's shards; none while it is down.
    #[must_use]
    pub fn shards(&self, node: NodeId) -> &[Node] {
        self.nodes.get(node.0).map_or(&[], |node| &node.shards)
    }

    /// All nodes that are up, with their names.
    pub fn nodes_up(&self) -> impl Iterator<Item = (NodeId, &str, &[Node])> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.is_up()).map(|(number, node)| {
            let shards: &[Node] = &node.shards;
            (NodeId(number), &node.name[..], shards)
        })
    }

    /// A node's location service.
    ///
    /// # Panics
    ///
    /// On a node of another world.
    #[must_use]
    pub fn locations(&self, node: NodeId) -> &Locations {
        &self.nodes.get(node.0).expect("a node of this world").shared.locations
    }

    /// A node's configuration.
    ///
    /// # Panics
    ///
    /// On a node of another world.
    #[must_use]
    pub fn config(&self, node: NodeId) -> &Config {
        &self.nodes.get(node.0).expect("a node of this world").config
    }

    /// How often a node was started.
    #[must_use]
    pub fn boots(&self, node: NodeId) -> u64 {
        self.nodes.get(node.0).map_or(0, |node| node.boot)
    }

    /// A node's store.
    ///
    /// # Panics
    ///
    /// On a node of another world.
    pub fn store(&mut self, node: NodeId) -> &mut Store {
        &mut self.nodes.get_mut(node.0).expect("a node of this world").store
    }

    /// How long the nonces of a node serve, from its next start on.
    pub fn set_nonce_lifetime(&mut self, node: NodeId, lifetime: Duration) {
        let (now, seed) = (self.now, self.rng.next_u64());
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.challenger.nonce_lifetime = lifetime;
            node.start(now, seed);
        }
    }

    /// A telephone.
    ///
    /// # Panics
    ///
    /// On a telephone of another world.
    #[must_use]
    pub fn ua(&self, phone: PhoneId) -> &Ua {
        &self.phones.get(phone.0).expect("a telephone of this world").ua
    }

    /// All telephones with their names.
    pub fn phones(&self) -> impl Iterator<Item = (PhoneId, &str, &Ua)> {
        self.phones.iter().enumerate().map(|(number, phone)| (PhoneId(number), &phone.name[..], &phone.ua))
    }

    /// Changes a telephone's habits.
    pub fn set(&mut self, phone: PhoneId, change: impl FnOnce(&mut Settings)) {
        if let Some(phone) = self.phones.get_mut(phone.0) {
            change(phone.ua.settings_mut());
        }
    }

    /// What happened at a telephone, in order.
    ///
    /// # Panics
    ///
    /// On a telephone of another world.
    pub fn events(&self, phone: PhoneId) -> impl Iterator<Item = &Event> {
        self.phones.get(phone.0).expect("a telephone of this world").log.iter().map(|(_, event)| event)
    }

    /// Whether an event happened at a telephone.
    #[must_use]
    pub fn saw(&self, phone: PhoneId, is: impl Fn(&Event) -> bool) -> bool {
        self.events(phone).any(is)
    }

    /// The final status of a request, once it has one.
    #[must_use]
    pub fn status(&self, phone: PhoneId, request: RequestId) -> Option<u16> {
        self.answered(phone, request).map(|(status, _)| status)
    }

    /// The final response to a request, once it came.
    #[must_use]
    pub fn answer(&self, phone: PhoneId, request: RequestId) -> Option<&[u8]> {
        self.answered(phone, request).map(|(_, message)| message)
    }

    fn answered(&self, phone: PhoneId, request: RequestId) -> Option<(u16, &[u8])> {
        self.events(phone).find_map(|event| {
            let Event::Answered { request: of, status, message } = event else { return None };
            (*of == request).then_some((*status, &message[..]))
        })
    }

    /// The dialog of a call, once it is answered.
    #[must_use]
    pub fn dialog(&self, phone: PhoneId, call: RequestId) -> Option<DialogId> {
        self.events(phone).find_map(|event| {
            let Event::Established { request, dialog } = event else { return None };
            (*request == call).then_some(*dialog)
        })
    }

    /// Lets a telephone do something now.
    ///
    /// # Panics
    ///
    /// On a telephone of another world.
    pub fn act<R>(&mut self, phone: PhoneId, act: impl FnOnce(&mut Ua, Instant, &mut Outbox) -> R) -> R {
        let mut out = Outbox::new();
        let now = self.now;
        let result =
            act(&mut self.phones.get_mut(phone.0).expect("a telephone of this world").ua, now, &mut out);
        self.end_turn(Actor::Phone(phone.0), &out);
        result
    }

    /// Starts a registration for an hour.
    pub fn register(&mut self, phone: PhoneId) -> RequestId {
        self.act(phone, |ua, now, out| ua.register(now, Wish::Bind(3600), out))
    }

    /// Registers all of them and waits until they are.
    ///
    /// # Panics
    ///
    /// If one of them is refused.
    pub fn register_all(&mut self, phones: &[PhoneId]) {
        for &phone in phones {
            let request = self.register(phone);
            assert!(
                self.run_until(secs(64), |world| world.status(phone, request).is_some()),
                "no answer to a REGISTER"
            );
            assert_eq!(self.status(phone, request), Some(200), "{:?}", self.ua(phone).settings().aor());
        }
    }

    /// Starts a call to the address-of-record of another telephone.
    pub fn call(&mut self, caller: PhoneId, callee: PhoneId) -> RequestId {
        let target = self.ua(callee).settings().aor();
        self.act(caller, |ua, now, out| ua.call(now, &target, out))
    }

    /// Hangs up; `None` if the dialog is over.
    pub fn hang_up(&mut self, phone: PhoneId, dialog: DialogId) -> Option<RequestId> {
        self.act(phone, |ua, now, out| ua.hang_up(now, dialog, out))
    }

    /// The node's process dies; its store keeps what it acknowledged.
    pub fn crash(&mut self, node: NodeId) {
        let is_written = self.rng.chance(0.5);
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.crash(is_written);
        }
        self.each_check(|check, world| check.crashed(node, world));
    }

    /// It is started again with the same configuration.
    pub fn restart(&mut self, node: NodeId) {
        let (now, seed) = (self.now, self.rng.next_u64());
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.start(now, seed);
        }
    }

    /// A store that hung works again.
    pub fn wake_store(&mut self, node: NodeId) {
        self.start_batch(node.0);
    }

    /// Lets time pass.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.heap.peek().is_some_and(|Reverse(next)| next.at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Lets time pass until something is so, at most for `time`; whether it is so.
    pub fn run_until(&mut self, time: Duration, is_so: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + time;
        loop {
            if is_so(self) {
                return true;
            }
            if self.heap.peek().is_none_or(|Reverse(next)| next.at > end) {
                self.now = end;
                return false;
            }
            self.step();
        }
    }

    /// Lets time pass until nothing is to come any more, and has every checker look at what is left.
    pub fn finish(mut self) {
        self.settle();
        self.each_check(|check, world| check.at_end(world));
        self.is_finished = true;
    }

    /// Lets time pass until nothing is to come any more.
    pub fn settle(&mut self) {
        while !self.heap.is_empty() {
            self.step();
        }
    }

    fn schedule(&mut self, at: Instant, what: What) {
        self.sequence += 1;
        self.heap.push(Reverse(Scheduled { at, sequence: self.sequence, what }));
    }

    fn step(&mut self) {
        let Some(Reverse(next)) = self.heap.pop() else { return };
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "the world does not come to rest");
        self.now = self.now.max(next.at);
        match next.what {
            What::Deliver { from, to, bytes } => self.deliver(from, to, &bytes),
            What::Wake(actor) => self.wake(actor, next.at),
            What::Undeliverable { to, bytes } => {
                let Some(Actor::Shard(node, _)) = self.addresses.get(&to).copied() else { return };
                let Some(host) = self.nodes.get(node) else { return };
                let (shard, boot) = (host.shard_of(&bytes), host.boot);
                self.command(node, shard, boot, &Command::Undeliverable { message: bytes });
            }
            What::Commit { node, boot } => self.commit(node, boot),
            What::Resolved { node, shard, boot, ticket, host, port } => {
                let name = String::from_utf8_lossy(&host).into_owned();
                let mut addresses = self.dns.get(&name).cloned().unwrap_or_default();
                if let Some(port) = port {
                    addresses.iter_mut().for_each(|address| address.set_port(port));
                }
                let command = Command::Resolved { ticket, addresses: addresses.into() };
                self.command(node, shard, boot, &command);
            }
        }
    }

    fn command(&mut self, node: usize, shard: usize, boot: u64, command: &Command) {
        let now = self.now;
        let Some(host) = self.nodes.get_mut(node).filter(|host| host.boot == boot) else { return };
        let Some(machine) = host.shards.get_mut(shard) else { return };
        let mut out = Outbox::new();
        machine.handle_command(now, command, &mut out);
        self.end_turn(Actor::Shard(node, shard), &out);
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let actor = self.addresses.get(&to).copied();
        let is_up = match actor {
            Some(Actor::Phone(_)) => true,
            Some(Actor::Shard(node, _)) => self.nodes.get(node).is_some_and(NodeHost::is_up),
            None => self.strangers.contains_key(&to),
        };
        if !is_up {
            if self.icmp {
                let at = self.now + self.network.between(to, from).delay;
                self.schedule(at, What::Undeliverable { to: from, bytes: bytes.into() });
            }
            return;
        }
        self.look(from, to, bytes, true);
        let hop = Hop::udp(ListenerId(0), from);
        let (now, mut out) = (self.now, Outbox::new());
        match actor {
            Some(Actor::Phone(number)) => {
                if let Some(phone) = self.phones.get_mut(number) {
                    phone.ua.handle_input(now, hop, bytes, &mut out);
                    self.end_turn(Actor::Phone(number), &out);
                }
            }
            Some(Actor::Shard(number, _)) => {
                let Some(host) = self.nodes.get_mut(number) else { return };
                let shard = host.shard_of(bytes);
                let Some(machine) = host.shards.get_mut(shard) else { return };
                machine.handle_input(now, hop, bytes, &mut out);
                self.end_turn(Actor::Shard(number, shard), &out);
                self.each_check(|check, _| check.turn(from, bytes, &out));
            }
            None => {
                if let Some(received) = self.strangers.get_mut(&to) {
                    received.push(bytes.to_vec());
                }
            }
        }
    }

    fn wake(&mut self, actor: Actor, at: Instant) {
        let (now, mut out) = (self.now, Outbox::new());
        match actor {
            Actor::Phone(number) => {
                let Some(phone) = self.phones.get_mut(number).filter(|phone| phone.wake == Some(at)) else {
                    return;
                };
                phone.wake = None;
                phone.ua.handle_timeout(now, &mut out);
            }
            Actor::Shard(number, shard) => {
                let Some(host) = self.nodes.get_mut(number) else { return };
                let Some(wake) = host.wakes.get_mut(shard).filter(|wake| **wake == Some(at)) else { return };
                *wake = None;
                let Some(machine) = host.shards.get_mut(shard) else { return };
                machine.handle_timeout(now, &mut out);
            }
        }
        self.end_turn(actor, &out);
    }

    /// What a machine asked, said and waits for.
    fn end_turn(&mut self, actor: Actor, out: &Outbox) {
        let (from, wake) = match actor {
            Actor::Phone(number) => {
                let now = self.now;
                let Some(phone) = self.phones.get_mut(number) else { return };
                while let Some(event) = phone.ua.poll_event() {
                    phone.log.push((now, event));
                }
                (phone.address, earlier(&mut phone.wake, phone.ua.poll_timeout(), now))
            }
            Actor::Shard(number, shard) => {
                self.take_events(number, shard);
                let now = self.now;
                let Some(host) = self.nodes.get_mut(number) else { return };
                let (Some(machine), Some(wake)) = (host.shards.get(shard), host.wakes.get_mut(shard)) else {
                    return;
                };
                (host.address, earlier(wake, machine.poll_timeout(), now))
            }
        };
        if let Some(at) = wake {
            self.schedule(at, What::Wake(actor));
        }
        for (hop, bytes) in out.iter() {
            self.transmit(from, hop.peer, bytes);
        }
    }

    fn take_events(&mut self, number: usize, shard: usize) {
        let mut has_asked = false;
        loop {
            let Some(host) = self.nodes.get_mut(number) else { return };
            let Some(event) = host.shards.get_mut(shard).and_then(Node::poll_event) else { break };
            match event {
                NodeEvent::Persist { ticket, aor } => {
                    host.store.ask((shard, ticket, aor));
                    has_asked = true;
                }
                NodeEvent::Resolve { ticket, host: name, port, .. } => {
                    let (at, boot) = (self.now + self.dns_delay, host.boot);
                    self.schedule(at, What::Resolved { node: number, shard, boot, ticket, host: name, port });
                }
            }
        }
        if has_asked {
            self.start_batch(number);
        }
    }

    fn start_batch(&mut self, number: usize) {
        let Some(host) = self.nodes.get_mut(number) else { return };
        if host.store.start() {
            let (at, boot) = (self.now + host.store.delay, host.boot);
            self.schedule(at, What::Commit { node: number, boot });
        }
    }

    fn commit(&mut self, number: usize, boot: u64) {
        let Some(host) = self.nodes.get_mut(number).filter(|host| host.boot == boot && host.is_up()) else {
            return;
        };
        let locations = std::sync::Arc::clone(&host.shared);
        let (written, ok) = host.store.commit(&locations.locations);
        for shard in 0..host.shards.len() {
            let tickets: Vec<u64> =
                written.iter().filter(|(of, ..)| *of == shard).map(|(_, ticket, _)| *ticket).collect();
            if !tickets.is_empty() {
                self.command(number, shard, boot, &Command::Persisted { tickets: tickets.into(), ok });
            }
        }
        self.start_batch(number);
    }

    fn transmit(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.look(from, to, bytes, false);
        let arrivals = self.network.fate(from, to, &mut self.rng);
        let at = self.now;
        let key = HashKey::from_bytes([1; 16]);
        self.digest = key.hash64(&[&self.digest.to_le_bytes(), &at.as_nanos().to_le_bytes(), bytes]);
        if self.captured.len() < CAPTURED_MAX {
            self.captured.push(Captured { at, from, to, is_lost: arrivals.is_empty(), bytes: bytes.into() });
        }
        for delay in arrivals {
            let mut bytes: Box<[u8]> = bytes.into();
            self.network.flip(from, to, &mut bytes, &mut self.rng);
            self.schedule(at + delay, What::Deliver { from, to, bytes });
        }
    }

    /// Shows a datagram to the checkers.
    fn look(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8], is_delivered: bool) {
        if self.checks.is_empty() {
            return;
        }
        let role = |address: SocketAddr| match self.addresses.get(&address) {
            Some(Actor::Shard(..)) => Role::Node,
            Some(Actor::Phone(_)) => Role::Phone,
            None => Role::Stranger,
        };
        let (from_role, to_role, at) = (role(from), role(to), self.now);
        let mut index = Index::new();
        let Ok(message) = Message::parse(bytes, &mut index, &Limits::default()) else { return };
        if message.defect().is_some() {
            return;
        }
        let wire = Wire { at, from, to, from_role, to_role, message: &message };
        if is_delivered {
            self.each_check(|check, _| check.delivered(&wire));
        } else {
            self.each_check(|check, _| check.sent(&wire));
        }
    }

    fn each_check(&mut self, mut look: impl FnMut(&mut dyn Check, &Self) -> Result<(), String>) {
        let mut checks = core::mem::take(&mut self.checks);
        for check in &mut checks {
            if let Err(problem) = look(check.as_mut(), self) {
                panic!("{}: {problem} (seed {}, step {})", check.name(), self.seed, self.steps);
            }
        }
        self.checks = checks;
    }

    fn write_capture(&self) -> std::io::Result<PathBuf> {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
            PathBuf::from,
        );
        let directory = target.join("sim");
        fs::create_dir_all(&directory)?;
        let scenario = thread::current().name().unwrap_or("scenario").replace("::", "-");
        let path = directory.join(format!("{scenario}-{}.pcap", self.seed));
        fs::write(&path, capture(self.captured.iter()))?;
        Ok(path)
    }
}

impl Drop for World {
    /// A scenario that fails leaves a capture and says how to repeat it.
    fn drop(&mut self) {
        if !thread::panicking() || self.is_finished {
            return;
        }
        eprintln!("seed {} failed at step {}, {:?}", self.seed, self.steps, self.now);
        eprintln!("once more: TANDEM_SEED={} cargo test -p tandem-sim", self.seed);
        match self.write_capture() {
            Ok(path) => eprintln!("capture: {}", path.display()),
            Err(error) => eprintln!("no capture: {error}"),
        }
        for phone in &self.phones {
            eprintln!("{}", phone.name);
            for (at, event) in &phone.log {
                let text = format!("{event:?}");
                eprintln!("  {at:?} {}", text.get(..text.len().min(110)).unwrap_or_default());
            }
        }
    }
}

/// When to wake a machine, if that is earlier than it will be woken anyway.
fn earlier(wake: &mut Option<Instant>, asked: Option<Instant>, now: Instant) -> Option<Instant> {
    let at = asked?.max(now);
    if wake.is_some_and(|wake| wake <= at) {
        return None;
    }
    *wake = Some(at);
    Some(at)
}

/// 10.0.0.x for nodes, 10.0.1.x for telephones, 10.0.2.x for strangers.
fn host_address(net: u8, number: usize) -> SocketAddr {
    let host = u8::try_from(number + 1).unwrap_or(u8::MAX);
    SocketAddr::from(([10, 0, net, host], 5060))
}
