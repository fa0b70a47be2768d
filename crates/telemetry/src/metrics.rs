//! The cells that are counted in, and the registry that knows their names.

use crate::exposition::Exposition;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number that only grows.
///
/// One thread writes a cell, any may read it: so adding is a load, an add and a store, not a locked instruction. Two
/// writers of one cell would lose counts; each takes a cell of its own from the [`Registry`], which sums them.
#[derive(Default, Debug)]
#[repr(align(64))] // A line of its own: a neighbour written by another core would slow both.
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; wraps at 2^64.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the sum that was counted elsewhere, for cells that follow a machine's own counter.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The sum so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that goes up and down, never below zero: entries of a table, bytes in use. One writer, as for [`Counter`].
#[derive(Default, Debug)]
#[repr(align(64))]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value last set.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How long things took, counted in buckets. One writer, as for [`Counter`].
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [Duration],
    buckets: Box<[AtomicU64]>,
    sum_nanos: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [Duration]) -> Self {
        debug_assert!(bounds.is_sorted(), "bucket bounds go up");
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum_nanos: AtomicU64::new(0) }
    }

    /// Counts one `value` in the bucket of the least bound that is not below it.
    #[inline]
    pub fn observe(&self, value: Duration) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(cell) = self.buckets.get(bucket) {
            cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
        }
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.store(self.sum_nanos.load(Relaxed).wrapping_add(nanos), Relaxed);
    }
}

/// One cell with its name, waiting to be read.
#[derive(Debug)]
enum Cell {
    Counter(Arc<Counter>),
    Gauge(Arc<Gauge>),
    Histogram(Arc<Histogram>),
}

#[derive(Debug)]
struct Series {
    name: &'static str,
    help: &'static str,
    labels: Vec<(&'static str, String)>,
    cell: Cell,
}

type Collector = Box<dyn Fn(&mut Exposition) + Send + Sync>;

/// Every metric of the process.
///
/// Names are `tandem_<part>_<what>_<unit>`, with `_total` behind a counter and seconds as the unit of time; the caller
/// keeps to it. Cells of the same name and labels are summed when they are read.
pub struct Registry {
    /// Labels of every series: `node`, `role`.
    fixed: Vec<(&'static str, String)>,
    series: Mutex<Vec<Series>>,
    collectors: Mutex<Vec<Collector>>,
}

impl Registry {
    /// An empty registry whose series all carry `fixed` labels.
    #[must_use]
    pub fn new(fixed: &[(&'static str, &str)]) -> Self {
        Self { fixed: owned(fixed), series: Mutex::new(Vec::new()), collectors: Mutex::new(Vec::new()) }
    }

    /// A new cell of the counter `name`.
    #[must_use]
    pub fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
    ) -> Arc<Counter> {
        debug_assert!(name.ends_with("_total"), "{name} is a counter without _total");
        let cell = Arc::new(Counter::default());
        self.add(name, help, labels, Cell::Counter(Arc::clone(&cell)));
        cell
    }

    /// A new cell of the gauge `name`.
    #[must_use]
    pub fn gauge(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
    ) -> Arc<Gauge> {
        let cell = Arc::new(Gauge::default());
        self.add(name, help, labels, Cell::Gauge(Arc::clone(&cell)));
        cell
    }

    /// A new cell of the histogram `name`, whose buckets end at `bounds`; all cells of a name share their bounds.
    #[must_use]
    pub fn histogram(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        bounds: &'static [Duration],
    ) -> Arc<Histogram> {
        debug_assert!(name.ends_with("_seconds"), "{name} is a histogram of time without _seconds");
        let cell = Arc::new(Histogram::new(bounds));
        self.add(name, help, labels, Cell::Histogram(Arc::clone(&cell)));
        cell
    }

    /// Asks `collect` at every scrape, for numbers that are kept elsewhere: the size of a table, the age of a file.
    pub fn collect(&self, collect: impl Fn(&mut Exposition) + Send + Sync + 'static) {
        lock(&self.collectors).push(Box::new(collect));
    }

    /// Every metric in Prometheus' text format, version 0.0.4.
    #[must_use]
    pub fn expose(&self) -> String {
        let mut exposition = Exposition::new(&self.fixed);
        for Series { name, help, labels, cell } in lock(&self.series).iter() {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            match cell {
                Cell::Counter(cell) => exposition.counter(name, help, &labels, cell.get()),
                Cell::Gauge(cell) => exposition.gauge(name, help, &labels, cell.get()),
                Cell::Histogram(cell) => {
                    let counts: Vec<u64> = cell.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
                    let sum = Duration::from_nanos(cell.sum_nanos.load(Relaxed));
                    exposition.histogram(name, help, &labels, cell.bounds, &counts, sum);
                }
            }
        }
        for collect in lock(&self.collectors).iter() {
            collect(&mut exposition);
        }
        exposition.finish()
    }

    fn add(&self, name: &'static str, help: &'static str, labels: &[(&'static str, &str)], cell: Cell) {
        lock(&self.series).push(Series { name, help, labels: owned(labels), cell });
    }
}

impl core::fmt::Debug for Registry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Registry")
            .field("fixed", &self.fixed)
            .field("series", &lock(&self.series).len())
            .finish()
    }
}

fn owned(labels: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// A panic elsewhere must not take the metrics with it; they are whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_two_shards_are_summed_and_labels_keep_series_apart() {
        let registry = Registry::new(&[("node", "p1")]);
        let shard0 = registry.counter("tandem_sip_requests_total", "Requests.", &[("method", "INVITE")]);
        let shard1 = registry.counter("tandem_sip_requests_total", "Requests.", &[("method", "INVITE")]);
        let other = registry.counter("tandem_sip_requests_total", "Requests.", &[("method", "BYE")]);
        let table = registry.gauge("tandem_transactions", "Transactions in progress.", &[]);
        shard0.add(2);
        shard1.add(40);
        other.add(7);
        table.set(5);
        table.set(3);
        let expected = "\
# HELP tandem_sip_requests_total Requests.
# TYPE tandem_sip_requests_total counter
tandem_sip_requests_total{node=\"p1\",method=\"BYE\"} 7
tandem_sip_requests_total{node=\"p1\",method=\"INVITE\"} 42
# HELP tandem_transactions Transactions in progress.
# TYPE tandem_transactions gauge
tandem_transactions{node=\"p1\"} 3
";
        assert_eq!(registry.expose(), expected);
    }

    /// Buckets are cumulative and a value on a bound belongs to it; the sum is in seconds: 0.001 + 0.002 + 3 = 3.003.
    #[test]
    fn a_histogram_is_told_in_cumulative_buckets_of_seconds() {
        const BOUNDS: &[Duration] = &[Duration::from_millis(1), Duration::from_millis(500)];
        let registry = Registry::new(&[]);
        let setup = registry.histogram("tandem_setup_seconds", "Set-up.", &[], BOUNDS);
        for millis in [1, 2, 3_000] {
            setup.observe(Duration::from_millis(millis));
        }
        let expected = "\
# HELP tandem_setup_seconds Set-up.
# TYPE tandem_setup_seconds histogram
tandem_setup_seconds_bucket{le=\"0.001\"} 1
tandem_setup_seconds_bucket{le=\"0.5\"} 2
tandem_setup_seconds_bucket{le=\"+Inf\"} 3
tandem_setup_seconds_sum 3.003
tandem_setup_seconds_count 3
";
        assert_eq!(registry.expose(), expected);
    }

    #[test]
    fn a_label_value_from_the_network_cannot_forge_a_line() {
        let registry = Registry::new(&[]);
        registry.collect(|out| {
            out.counter("tandem_drops_total", "Drops.\nby\\reason", &[("reason", "a\"b\\c\nd 1")], 1)
        });
        let expected = "\
# HELP tandem_drops_total Drops.\\nby\\\\reason
# TYPE tandem_drops_total counter
tandem_drops_total{reason=\"a\\\"b\\\\c\\nd 1\"} 1
";
        assert_eq!(registry.expose(), expected);
    }
}
