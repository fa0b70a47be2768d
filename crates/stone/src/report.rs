//! What a run found, in figures.

mod csv;
mod folder;
mod html;
mod merge;
mod table;

pub use csv::{csv, rates_csv};
pub use folder::write_folder;
pub use html::html;
pub use merge::merge_reports;

use core::time::Duration;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::follow::Progress;
use crate::tally::{CalleeCounts, CallerCounts, Kinds, Summary};
use crate::target::Span;
use crate::times::Times;

/// One second of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// Seconds since the load began.
    pub second: u64,
    /// Attempts begun in it.
    pub started: u64,
    /// Attempts that ended well in it.
    pub succeeded: u64,
    /// Attempts that ended badly in it.
    pub failed: u64,
    /// Attempts in progress at its end.
    pub open: u64,
    /// Median of the first request's latency, in microseconds.
    pub p50_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    /// CPU time of the generator, in shares of one core.
    pub cpu: f64,
}

impl Point {
    pub(crate) fn of(progress: &Progress) -> Self {
        let Progress { second, happened, open, cpu } = progress;
        Self {
            second: *second,
            started: happened.started,
            succeeded: happened.succeeded,
            failed: happened.failed,
            open: *open,
            p50_us: happened.setup.at_us(0.5),
            p99_us: happened.setup.at_us(0.99),
            cpu: *cpu,
        }
    }
}

/// A run's result. The field names are those of its JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Tool and version.
    pub tool: String,
    /// Workloads and weights.
    pub workload: String,
    /// Where the load went.
    pub targets: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// Threads of the generator.
    pub threads: u64,
    /// Offered attempts a second (after the ramp).
    pub rate: f64,
    /// Attempts a second that succeeded, over the judged part.
    pub success_rate: f64,
    /// Share of the judged attempts that succeeded, 0 to 1.
    pub success: f64,
    /// Successful attempts an hour: busy-hour call attempts at this load.
    pub bhca: f64,
    /// Length of the judged part.
    pub seconds: f64,
    /// From first intended start to last.
    pub on_seconds: f64,
    /// From start to end, registration and draining included.
    pub took_seconds: f64,
    /// How long the users' registration took.
    pub registration_seconds: f64,
    /// Users that could not be registered.
    pub setup_failed: u64,
    /// Attempts still open when patience ended.
    pub unfinished: u64,
    /// Why the run is void; empty if it stands.
    pub void: Vec<String>,
    /// Datagrams lost in the generator's receive queues.
    pub receive_drops: u64,
    /// Datagrams the generator could not send.
    pub send_drops: u64,
    /// CPU time of the generator's threads while the load was on.
    pub generator_cpu_seconds: f64,
    /// That of the busiest thread, as a share of one core.
    pub generator_cpu_share: f64,
    /// CPU time of the generator per attempt begun, both ends, in microseconds.
    pub generator_us_per_attempt: f64,
    /// CPU time of the whole process from start to end.
    pub process_cpu_seconds: f64,
    /// CPU time of the watched processes over the judged part.
    pub server_cpu_seconds: f64,
    /// The same as a share of one core.
    pub server_cpu_share: f64,
    /// The same per judged attempt, in microseconds.
    pub server_us_per_attempt: f64,
    /// What the target told of itself over the judged part: `decision` and `forward` of a balancer.
    pub target_spans: BTreeMap<String, Span>,
    /// INVITE to 200, from the intended start.
    pub setup: Summary,
    /// INVITE to the first answer above 100.
    pub ringing: Summary,
    /// BYE to 200.
    pub bye: Summary,
    /// Single transactions, by workload.
    pub single: BTreeMap<String, Summary>,
    /// How late the generator was.
    pub lateness: Summary,
    /// All that the calling end counted.
    pub counts: CallerCounts,
    /// Its judged attempts.
    pub judged: CallerCounts,
    /// All that the answering end counted.
    pub callee: CalleeCounts,
    /// Unexpected messages by kind.
    pub unexpected: Kinds,
    /// The run second by second.
    pub series: Vec<Point>,
    /// Distribution of the first request's latency: quantile, microseconds.
    pub curve: Vec<(f64, f64)>,
    /// The latencies whole.
    #[serde(skip)]
    pub times: Times,
}

impl Report {
    /// Whether the run says something about the target.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.void.is_empty()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
    pub(crate) fn derive(&mut self, times: &Times) {
        let judged = &self.judged;
        self.success =
            if judged.intended == 0 { 0.0 } else { judged.succeeded as f64 / judged.intended as f64 };
        self.success_rate = if self.seconds > 0.0 { judged.succeeded as f64 / self.seconds } else { 0.0 };
        self.bhca = self.success_rate * 3600.0;
        if self.counts.started > 0 {
            self.generator_us_per_attempt = self.generator_cpu_seconds * 1e6 / self.counts.started as f64;
        }
        self.setup = times.setup.summary();
        self.ringing = times.ringing.summary();
        self.bye = times.bye.summary();
        self.lateness = times.lateness.summary();
        self.single = times
            .single
            .iter()
            .map(|(workload, latency)| (workload.name().to_owned(), latency.summary()))
            .collect();
        self.curve = match times.single.values().next() {
            Some(latency) if times.setup.count() == 0 => latency.curve(),
            Some(_) | None => times.setup.curve(),
        };
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
    pub(crate) fn watch(&mut self, used: Duration, over: Duration) {
        self.server_cpu_seconds = used.as_secs_f64();
        if !over.is_zero() {
            self.server_cpu_share = used.as_secs_f64() / over.as_secs_f64();
        }
        if self.judged.started > 0 {
            self.server_us_per_attempt = used.as_secs_f64() * 1e6 / self.judged.started as f64;
        }
    }

    /// The latency of the first request: of calls, or else of the first single workload.
    #[must_use]
    pub fn first(&self) -> Summary {
        if self.setup.count > 0 {
            self.setup
        } else {
            self.single.values().next().copied().unwrap_or_default()
        }
    }

    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}
