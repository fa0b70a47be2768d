//! What happened: counts of both ends, unexpected messages by kind with one sample each, latencies.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Most kinds of unexpected message that are told apart; the rest are counted together.
const KINDS_MAX: usize = 64;
/// Most bytes of a sample that are kept.
const SAMPLE_MAX: usize = 2048;

/// One kind of unexpected message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Unexpected {
    /// How many came.
    pub count: u64,
    /// The first of them, as text; bytes that are not UTF-8 are replaced, and at most 2,048 bytes are kept.
    pub sample: String,
}

/// Unexpected messages by kind, such as `486 to INVITE` or `malformed`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Kinds(pub BTreeMap<String, Unexpected>);

impl Kinds {
    pub(crate) fn count(&mut self, kind: &str, sample: &[u8]) {
        if let Some(known) = self.0.get_mut(kind) {
            known.count += 1;
            return;
        }
        let kind = if self.0.len() < KINDS_MAX { kind } else { "other" };
        let entry = self.0.entry(kind.to_owned()).or_default();
        entry.count += 1;
        if entry.sample.is_empty() {
            let sample = sample.get(..SAMPLE_MAX).unwrap_or(sample);
            entry.sample = String::from_utf8_lossy(sample).into_owned();
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (kind, unexpected) in &other.0 {
            let entry = self.0.entry(kind.clone()).or_default();
            entry.count += unexpected.count;
            if entry.sample.is_empty() {
                entry.sample.clone_from(&unexpected.sample);
            }
        }
    }

    /// How many messages of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|unexpected| unexpected.count).sum()
    }
}

macro_rules! counts {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $($(#[$doc])* pub $field: u64,)* }

        impl $name {
            /// Adds another's counts.
            pub fn merge(&mut self, other: &Self) { $(self.$field += other.$field;)* }
            /// What was counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self { Self { $($field: self.$field - earlier.$field,)* } }
        }
    };
}

counts! {
    /// Counts of the calling end.
    CallerCounts {
        /// Attempts that the arrival process asked for.
        intended,
        /// Attempts that could not start because the table of calls was full.
        shed,
        /// Attempts begun: first requests sent.
        started,
        /// Attempts that ended as SIPstone demands.
        succeeded,
        /// Attempts that did not.
        failed,
        /// Of those: no final answer in time.
        timed_out,
        /// Of those: a final answer other than the one wanted.
        refused,
        /// Of those: the answer came, but later than allowed.
        late,
        /// INVITEs begun.
        invites,
        /// Calls answered with 2xx.
        answered,
        /// CANCELs begun.
        cancels,
        /// Calls that a CANCEL ended: 487.
        cancelled,
        /// BYEs begun.
        byes,
        /// BYEs answered with 2xx.
        ended,
        /// Single transactions begun (REGISTER, OPTIONS, MESSAGE, SUBSCRIBE, PUBLISH, redirected INVITE).
        singles,
        /// Those answered as wanted.
        single_answers,
        /// Requests repeated for want of an answer.
        retransmissions,
        /// Answers that were repeated to us.
        repeated_answers,
        /// Challenges answered with credentials.
        challenges,
        /// Answers to attempts already over.
        stragglers,
        /// Datagrams sent.
        sent,
        /// Datagrams received.
        received,
    }
}

counts! {
    /// Counts of the answering end.
    CalleeCounts {
        /// Different INVITEs received.
        invites,
        /// INVITEs received again.
        repeated_invites,
        /// Different ACKs for a 2xx received.
        acks,
        /// Different BYEs received.
        byes,
        /// Calls cancelled while they rang.
        cancelled,
        /// Other requests answered with 200.
        others,
        /// 200s to INVITE repeated for want of an ACK.
        retransmissions,
        /// Calls whose ACK never came.
        unacknowledged,
        /// Calls refused because the table was full.
        refused,
        /// Requests of a call that another handler had answered (session affinity broken).
        strayed,
        /// Datagrams sent.
        sent,
        /// Datagrams received.
        received,
    }
}

/// A latency distribution in nanoseconds: 1 µs to 2 minutes, three significant digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency(pub(crate) Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Self::new(3)
    }
}

impl Latency {
    /// `digits` from 1 to 3.
    pub(crate) fn new(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(1_000, 120_000_000_000, digits.clamp(1, 3));
        Self(
            histogram.unwrap_or_else(|_| {
                Histogram::new(3).unwrap_or_else(|_| unreachable!("3 digits are allowed"))
            }),
        )
    }

    #[inline]
    pub(crate) fn record(&mut self, latency: core::time::Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // Bounds are the same by construction, so that adding cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency below which `quantile` (0 to 1) of all lie, in microseconds; 0 if there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "two minutes in nanoseconds fit a double")]
    pub fn at_us(&self, quantile: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(quantile) as f64 / 1e3 }
    }

    /// What a report shows of it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "two minutes in nanoseconds fit a double")]
    pub fn summary(&self) -> Summary {
        if self.0.is_empty() {
            return Summary::default();
        }
        Summary {
            count: self.0.len(),
            min_us: self.0.min() as f64 / 1e3,
            mean_us: self.0.mean() / 1e3,
            sd_us: self.0.stdev() / 1e3,
            p50_us: self.at_us(0.5),
            p90_us: self.at_us(0.9),
            p99_us: self.at_us(0.99),
            p999_us: self.at_us(0.999),
            p9999_us: self.at_us(0.9999),
            max_us: self.0.max() as f64 / 1e3,
        }
    }

    /// Points of the distribution, as quantile and microseconds, for a plot.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let steps = [
            0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975,
            0.99,
        ];
        let tail = [0.995, 0.999, 0.9995, 0.9999, 1.0];
        steps.iter().chain(&tail).map(|&q| (q, self.at_us(q))).collect()
    }
}

/// A latency distribution in figures, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// How many were recorded.
    pub count: u64,
    /// The smallest.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// The standard deviation.
    pub sd_us: f64,
    /// Half lie below.
    pub p50_us: f64,
    /// 90 % lie below.
    pub p90_us: f64,
    /// 99 % lie below.
    pub p99_us: f64,
    /// 99.9 % lie below.
    pub p999_us: f64,
    /// 99.99 % lie below.
    pub p9999_us: f64,
    /// The largest.
    pub max_us: f64,
}
