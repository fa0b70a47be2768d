//! A pool under test, and the ways to ask it.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helper fails as a test does")]

use core::time::Duration;
use std::sync::Arc;

use tandem_balance::{Board, Choice, Destination, HealthSettings, PolicySettings, Pool, PoolSettings, Slot};
use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{Hop, ListenerId, Method};

/// A destination with a weight.
pub(crate) fn weighted(id: &str, weight: u16) -> Destination {
    let hop = Hop::udp(ListenerId(0), "192.0.2.1:5060".parse().unwrap());
    Destination { weight, ..Destination::new(id, hop) }
}

/// Destinations `d0`, `d1` ... of equal weight.
pub(crate) fn equal(n: usize) -> Vec<Destination> {
    (0..n).map(|index| weighted(&format!("d{index}"), 1)).collect()
}

/// No probes, no slow start.
pub(crate) fn quiet() -> HealthSettings {
    HealthSettings { interval: None, slow_start: Duration::ZERO, ..HealthSettings::default() }
}

/// A pool of one shard.
pub(crate) struct Bench {
    pub(crate) now: Instant,
    pub(crate) pool: Pool,
    pub(crate) board: Arc<Board>,
}

impl Bench {
    pub(crate) fn new(policy: &str, destinations: Vec<Destination>) -> Self {
        Self::with(PolicySettings::new(policy), destinations)
    }

    pub(crate) fn with(policy: PolicySettings, destinations: Vec<Destination>) -> Self {
        let settings = Arc::new(PoolSettings::new("test", policy, quiet(), destinations).unwrap());
        let board = Arc::new(Board::new(1024, 1));
        let key = HashKey::from_bytes([3; 16]);
        let pool = Pool::new(settings, board.clone(), 0, key, Rng::from_seed(7));
        Self { now: Instant::from_secs(1), pool, board }
    }

    pub(crate) fn pick(&mut self, call_id: &str) -> Slot {
        self.ask(call_id, None, &[]).unwrap()
    }

    pub(crate) fn pick_user(&mut self, user: &str) -> Slot {
        self.ask("c", Some(user), &[]).unwrap()
    }

    pub(crate) fn ask_one(&mut self, call_id: &str, user: &str) -> Slot {
        self.ask(call_id, Some(user), &[]).unwrap()
    }

    pub(crate) fn ask(&mut self, call_id: &str, user: Option<&str>, tried: &[Slot]) -> Option<Slot> {
        let user = user.map(str::as_bytes);
        let choice = Choice { call_id: call_id.as_bytes(), user, method: Method::Invite, tried };
        self.pool.pick(self.now, &choice).ok()
    }

    /// The next generation, with these destinations; slots that were vacated come back.
    pub(crate) fn reconfigure(&mut self, destinations: Vec<Destination>) -> Vec<Slot> {
        let settings = self.pool.settings();
        let next = settings.next(settings.policy().clone(), quiet(), destinations, &self.board, self.now);
        self.pool.reconfigure(self.now, Arc::new(next.unwrap()))
    }
}

/// How often each slot comes up.
pub(crate) fn count(slots: impl IntoIterator<Item = Slot>, n: usize) -> Vec<u64> {
    let mut counts = vec![0; n];
    for slot in slots {
        counts[slot.index()] += 1;
    }
    counts
}

/// Pearson's χ² of counts against weights.
pub(crate) fn chi_square(counts: &[u64], weights: &[u16]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    let all: f64 = weights.iter().copied().map(f64::from).sum();
    counts
        .iter()
        .zip(weights)
        .map(|(&count, &weight)| {
            let expected = total * f64::from(weight) / all;
            (count as f64 - expected).powi(2) / expected
        })
        .sum()
}
