//! Random quantities of a load: inter-arrival times, hold times, choices. All from one seed.

use core::time::Duration;

use tandem_base::Rng;

/// A seeded source of the distributions that a load needs.
#[derive(Debug)]
pub(crate) struct Dice(Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::from_seed(seed))
    }

    /// A number in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.f64()
    }

    /// A number in `0..bound`; zero if the bound is zero.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let wide = (self.0.next_u64() >> 32) * u64::from(bound);
        u32::try_from(wide >> 32).unwrap_or_default()
    }

    /// Exponential with the given mean: the gaps of a Poisson process.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        self.0.exp(mean)
    }

    /// Normal, by Box and Muller.
    pub(crate) fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        mean + deviation * radius * (core::f64::consts::TAU * self.unit()).cos()
    }
}

/// Seconds as a duration; what is negative or not finite is zero.
pub(crate) fn secs(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
