//! Whether the node lives and whether it should get traffic, each with its reasons.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The conditions of health, each set by the part that knows.
///
/// *Ready* is about traffic: a node that loads its bindings or drains lives but is not ready. *Alive* is about the
/// process: a shard that stopped turning is cured by a restart only.
#[derive(Default, Debug)]
pub struct Health {
    ready: Mutex<BTreeMap<&'static str, Option<String>>>,
    alive: Mutex<BTreeMap<&'static str, Option<String>>>,
}

impl Health {
    /// Ready and alive until a condition says otherwise.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the condition `part` of readiness: sound, or the reason why traffic should stay away.
    pub fn set_ready(&self, part: &'static str, condition: Result<(), String>) {
        lock(&self.ready).insert(part, condition.err());
    }

    /// Sets the condition `part` of liveness: sound, or the reason why a restart is needed.
    pub fn set_alive(&self, part: &'static str, condition: Result<(), String>) {
        lock(&self.alive).insert(part, condition.err());
    }

    /// The reasons why the node is not ready, as `part: reason`; empty when it is. What does not live is not ready.
    #[must_use]
    pub fn unready(&self) -> Vec<String> {
        let mut reasons = self.dead();
        reasons.extend(told(&self.ready));
        reasons
    }

    /// The reasons why the node does not live, as `part: reason`; empty when it does.
    #[must_use]
    pub fn dead(&self) -> Vec<String> {
        told(&self.alive)
    }
}

fn told(conditions: &Mutex<BTreeMap<&'static str, Option<String>>>) -> Vec<String> {
    lock(conditions)
        .iter()
        .filter_map(|(part, reason)| reason.as_ref().map(|reason| format!("{part}: {reason}")))
        .collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
