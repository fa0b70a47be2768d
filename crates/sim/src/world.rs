//! The world: hosts, the heap of what is to come, and the loop that makes it happen.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | the heap and the clock |
//! | `build.rs` | who is in it |
//! | `act.rs` | what a scenario does |
//! | `view.rs` | what it looks at |
//! | `turn.rs` | one machine's turn |
//! | `failure.rs` | what a failed one leaves behind |

mod act;
mod build;
mod failure;
mod turn;
mod view;

use core::cmp::Reverse;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BinaryHeap};

use tandem_base::{Instant, Rng};
use tandem_node::Command;
use tandem_sip::{Index, Limits, Message};

use crate::Network;
use crate::check::{self, Check, Role, Wire};
use crate::host::{NodeHost, Phone};
use crate::pcap::Captured;

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
}
