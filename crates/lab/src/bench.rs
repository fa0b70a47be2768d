//! What experiments share: how long they run, with which model, on how many threads.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;

use tandem_balance::{Mistake, PolicySettings};

use crate::model::{Callees, Controls, Hold, Model, Profile, Run, Server};

/// How much time a run gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// Short holds, short runs, fewer points: minutes in all.
    Quick,
    /// The papers' holds; ramp 20 s, warm-up 100 s, 60 s judged.
    #[default]
    Full,
    /// A15 as it stands: a call a second and server more each second, 10 min warm-up, 3 min judged.
    Paper,
}

/// The bench at which experiments are done.
pub struct Bench<'a> {
    /// All that is drawn follows from it.
    pub seed: u64,
    /// How long runs last.
    pub scale: Scale,
    /// The model of servers.
    pub model: Model,
    /// Threads.
    pub jobs: usize,
    /// Told one line per run.
    pub progress: &'a (dyn Fn(&str) + Sync),
}

impl Bench<'_> {
    /// Whether there is time for little.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        self.scale == Scale::Quick
    }

    /// The papers' hold times; a sixth of them if there is time for little.
    #[must_use]
    pub fn hold(&self) -> Hold {
        match self.scale {
            Scale::Quick => Hold { mean: Hold::PAPER.mean / 6, deviation: Hold::PAPER.deviation / 6 },
            Scale::Full | Scale::Paper => Hold::PAPER,
        }
    }

    /// A load whose warm-up is long enough for these holds.
    #[must_use]
    pub fn profile(&self, rate: f64, hold: Hold) -> Profile {
        let secs = Duration::from_secs;
        let (ramp, warm_up, judged) = match self.scale {
            Scale::Quick => (secs(4), hold.mostly_over().saturating_sub(secs(4)).max(secs(6)), secs(40)),
            Scale::Full => (secs(20), hold.mostly_over().saturating_sub(secs(20)).max(secs(10)), secs(60)),
            Scale::Paper => (secs(300), secs(600), secs(180)),
        };
        Profile { rate, ramp, warm_up, judged, hold, singles: 0.0, callees: Callees::Service }
    }

    /// A run of `nodes` equal servers behind one balancer with this policy.
    #[must_use]
    pub fn run(&self, nodes: usize, policy: &str, profile: Profile) -> Run {
        Run {
            seed: self.seed,
            model: self.model,
            servers: vec![Server::default(); nodes],
            policy: PolicySettings::new(policy),
            balancers: 1,
            profile,
            controls: Controls::default(),
            failures_max: None,
        }
    }

    /// How near a peak is found, as a part of capacity.
    #[must_use]
    pub fn tolerance(&self) -> f64 {
        if self.is_quick() { 0.04 } else { 0.02 }
    }

    /// Says what was found, on its way.
    pub fn say(&self, text: &str) {
        (self.progress)(text);
    }

    /// Does `work` for every item, on several threads; results in the order of the items.
    ///
    /// # Errors
    ///
    /// The first [`Mistake`] of any.
    pub fn each<I: Sync, R: Send>(
        &self,
        items: &[I],
        work: impl Fn(&I) -> Result<R, Mistake> + Sync,
    ) -> Result<Vec<R>, Mistake> {
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, Result<R, Mistake>)>> = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, items.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(item) = items.get(number) else { return };
                        let result = work(item);
                        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, result));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, result)| result).collect()
    }
}
