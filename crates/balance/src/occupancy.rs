//! What a new request finds ahead of it, and how long we take: histograms with fixed bounds.
//!
//! Occupancy is Jiang et al.'s figure 9: how many unanswered requests the chosen destination has at the moment of the
//! choice. A policy is as good as this curve.

use core::time::Duration;

use tandem_base::Instant;

/// Upper bounds of the occupancy buckets; the last bucket has none.
pub const OCCUPANCY_BOUNDS: [u32; 20] =
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128];

/// How often a new request found so many others ahead of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// Requests by bucket of [`OCCUPANCY_BOUNDS`]; the last is for more.
    pub buckets: [u64; OCCUPANCY_BOUNDS.len() + 1],
    /// All they found, added up.
    pub sum: u64,
}

impl Occupancy {
    pub(crate) fn add(&mut self, ahead: u32) {
        let at = OCCUPANCY_BOUNDS.partition_point(|&bound| bound < ahead);
        if let Some(count) = self.buckets.get_mut(at) {
            *count += 1;
        }
        self.sum += u64::from(ahead);
    }

    /// Requests in all buckets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Upper bounds of the time buckets, in nanoseconds; the last bucket has none.
pub const TIME_BOUNDS_NS: [u64; 14] = [
    500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_024_000, 4_096_000,
    16_384_000,
];

/// How long something took, over a sample of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timing {
    /// Samples by bucket of [`TIME_BOUNDS_NS`]; the last is for more.
    pub buckets: [u64; TIME_BOUNDS_NS.len() + 1],
    /// All samples added up.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
}

impl Timing {
    fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let at = TIME_BOUNDS_NS.partition_point(|&bound| bound < nanos);
        if let Some(count) = self.buckets.get_mut(at) {
            *count += 1;
        }
        self.sum += took;
        self.max = self.max.max(took);
    }
}

/// A clock that the shell lends: the core has none. The simulator lends none, and nothing is measured.
pub type Clock = Box<dyn FnMut() -> Instant + Send>;

/// One request of this many is timed: two readings of the clock cost as much as a hash.
const SAMPLED: u32 = 64;

/// The time to choose a destination, and the time until the request is written (Kamb tables 3 and 4).
#[derive(Default)]
pub(crate) struct Stopwatch {
    clock: Option<Clock>,
    count: u32,
    began: Option<Instant>,
    pub(crate) decision: Timing,
    pub(crate) forward: Timing,
}

impl Stopwatch {
    pub(crate) fn lend(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    /// A first request is about to be looked at.
    pub(crate) fn start(&mut self) {
        self.began = None;
        let Some(clock) = &mut self.clock else { return };
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(SAMPLED) {
            self.began = Some(clock());
        }
    }

    /// Its destination is chosen.
    pub(crate) fn decided(&mut self) {
        if let (Some(began), Some(clock)) = (self.began, &mut self.clock) {
            self.decision.add(clock() - began);
        }
    }

    /// It is written.
    pub(crate) fn forwarded(&mut self) {
        if let (Some(began), Some(clock)) = (self.began.take(), &mut self.clock) {
            self.forward.add(clock() - began);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_in_the_bucket_whose_bound_it_does_not_pass() {
        let mut occupancy = Occupancy::default();
        for ahead in [0, 0, 1, 7, 8, 129, 4_000] {
            occupancy.add(ahead);
        }
        assert_eq!((occupancy.buckets[0], occupancy.buckets[1], occupancy.buckets[7]), (2, 1, 2));
        assert_eq!((occupancy.buckets[20], occupancy.count(), occupancy.sum), (2, 7, 4_145));
    }

    #[test]
    fn one_request_of_sixty_four_is_timed_and_none_without_a_clock() {
        let mut watch = Stopwatch::default();
        let mut time = 0;
        let run = |watch: &mut Stopwatch| {
            for _ in 0..640 {
                watch.start();
                watch.decided();
                watch.forwarded();
            }
        };
        run(&mut watch);
        assert_eq!(watch.decision, Timing::default());
        watch.lend(Box::new(move || {
            time += 1_500;
            Instant::from_nanos(time)
        }));
        run(&mut watch);
        // Each reading is 1.5 µs after the one before: 10 samples in the buckets up to 2 µs and up to 4 µs.
        assert_eq!((watch.decision.buckets[2], watch.forward.buckets[3]), (10, 10));
        assert_eq!(
            (watch.forward.sum, watch.forward.max),
            (Duration::from_micros(30), Duration::from_micros(3))
        );
    }
}
