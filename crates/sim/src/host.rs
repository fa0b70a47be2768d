//! The hosts of a world: nodes with their shards and store, and telephones.

use core::net::SocketAddr;
use std::sync::Arc;

use tandem_auth::{Challenger, ChallengerConfig, Ha1, NonceCounts, Users};
use tandem_base::{HashKey, Instant};
use tandem_node::{Config, Node, Shared};
use tandem_registrar::Locations;
use tandem_sip::{Index, Limits, Message};
use tandem_ua::{Event, Ua};

use crate::Store;

/// One node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(pub(crate) usize);

/// One telephone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PhoneId(pub(crate) usize);

/// The bound on addresses-of-record of a simulated node.
const AORS_MAX: usize = 10_000;
/// The wall clock at the virtual clock's zero: 2025-01-01.
const UNIX_MS_AT_ZERO: u64 = 1_735_689_600_000;

/// A node, dead or alive.
pub(crate) struct NodeHost {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) config: Arc<Config>,
    pub(crate) challenger: ChallengerConfig,
    /// The cluster's secret.
    key: HashKey,
    pub(crate) shared: Arc<Shared>,
    /// Empty while the node is down.
    pub(crate) shards: Vec<Node>,
    shard_count: usize,
    pub(crate) users: Vec<(String, Ha1)>,
    pub(crate) store: Store,
    /// How often it was started: what was under way for an earlier run means nothing.
    pub(crate) boot: u64,
    pub(crate) wakes: Vec<Option<Instant>>,
}

impl NodeHost {
    pub(crate) fn new(
        name: &str,
        address: SocketAddr,
        config: Config,
        shard_count: usize,
        key: HashKey,
    ) -> Self {
        let challenger = ChallengerConfig { unix_ms_at_zero: UNIX_MS_AT_ZERO, ..ChallengerConfig::default() };
        Self {
            name: name.to_owned(),
            address,
            config: Arc::new(config),
            shared: Arc::new(empty_shared(&key, &challenger, Instant::ZERO)),
            challenger,
            key,
            shards: Vec::new(),
            shard_count,
            users: Vec::new(),
            store: Store::default(),
            boot: 0,
            wakes: Vec::new(),
        }
    }

    pub(crate) const fn is_up(&self) -> bool {
        !self.shards.is_empty()
    }

    /// Starts the process: the store is loaded, everything else is new.
    pub(crate) fn start(&mut self, now: Instant, seed: u64) {
        self.boot += 1;
        self.shared = Arc::new(empty_shared(&self.key, &self.challenger, now));
        self.store.load(&self.shared.locations);
        for (aor, ha1) in &self.users {
            self.shared.users.insert(aor.as_bytes(), *ha1);
        }
        self.shards = (0..self.shard_count as u64)
            .map(|shard| {
                let seed = seed.wrapping_add(shard.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                Node::new(Arc::clone(&self.config), Arc::clone(&self.shared), &self.key, seed)
            })
            .collect();
        self.wakes = vec![None; self.shard_count];
    }

    /// Ends it between two instructions.
    pub(crate) fn crash(&mut self, is_written: bool) {
        self.store.crash(&self.shared.locations, is_written);
        self.shards.clear();
        self.wakes.clear();
    }

    /// The shard that owns a datagram: by its Call-ID, as the kernel steers it.
    pub(crate) fn shard_of(&self, bytes: &[u8]) -> usize {
        if self.shards.len() < 2 {
            return 0;
        }
        let mut index = Index::new();
        let Ok(message) = Message::parse(bytes, &mut index, &Limits::default()) else { return 0 };
        let hash = self.key.hash64(&[message.call_id()]);
        usize::try_from(hash % self.shards.len() as u64).unwrap_or(0)
    }
}

fn empty_shared(key: &HashKey, challenger: &ChallengerConfig, now: Instant) -> Shared {
    let challenger = Challenger::new(key, challenger.clone());
    let nonce_counts = NonceCounts::new(key, 1024, challenger.unix_ms(now));
    Shared {
        locations: Arc::new(Locations::new(*key, AORS_MAX)),
        users: Users::new(key, 64),
        challenger,
        nonce_counts,
    }
}

/// A telephone and what happened at it.
pub(crate) struct Phone {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) ua: Ua,
    pub(crate) log: Vec<(Instant, Event)>,
    pub(crate) wake: Option<Instant>,
}
