//! The latencies of a load, and what happened in the current second.

use std::collections::BTreeMap;

use crate::load::Workload;
use crate::tally::Latency;

/// Latencies from the intended start of each request.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// INVITE to its 200.
    pub setup: Latency,
    /// INVITE to its first answer above 100.
    pub ringing: Latency,
    /// BYE to its 200.
    pub bye: Latency,
    /// Single transactions, by workload.
    pub single: BTreeMap<Workload, Latency>,
    /// How late first requests were sent: the generator's own fault.
    pub lateness: Latency,
    /// The current second; the runner takes it away once a second.
    pub second: Second,
}

impl Times {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.setup.merge(&other.setup);
        self.ringing.merge(&other.ringing);
        self.bye.merge(&other.bye);
        self.lateness.merge(&other.lateness);
        for (&workload, latency) in &other.single {
            self.single.entry(workload).or_default().merge(latency);
        }
    }
}

/// One second of a load.
#[derive(Clone, Debug)]
pub struct Second {
    /// Attempts begun.
    pub started: u64,
    /// Attempts that ended well.
    pub succeeded: u64,
    /// Attempts that did not.
    pub failed: u64,
    /// First request to wanted final answer.
    pub setup: Latency,
}

impl Default for Second {
    fn default() -> Self {
        Self { started: 0, succeeded: 0, failed: 0, setup: Latency::new(2) }
    }
}

impl Second {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.setup.merge(&other.setup);
    }
}
