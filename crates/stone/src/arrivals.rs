//! When calls start: an open loop that never waits for answers.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use tandem_base::Instant;

use crate::dice::{Dice, secs};

/// How arrivals are spaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Independent arrivals: exponential gaps, as in SIPstone.
    #[default]
    Poisson,
    /// Equal gaps, as SIPp does.
    Uniform,
}

/// Offered load over time: a rate that grows linearly from `from` to `to` and then stays.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ramp {
    /// Starts a second at time zero.
    pub from: f64,
    /// Starts a second at the end of the ramp.
    pub to: f64,
    /// How long the ramp lasts, in seconds; 0 starts at `to`.
    pub over: f64,
}

impl Ramp {
    /// A constant rate.
    #[must_use]
    pub const fn flat(rate: f64) -> Self {
        Self { from: rate, to: rate, over: 0.0 }
    }

    /// The rate at `t` seconds.
    #[must_use]
    pub fn rate(&self, t: f64) -> f64 {
        if t >= self.over || self.over <= 0.0 {
            self.to
        } else {
            self.from + (self.to - self.from) * t / self.over
        }
    }

    /// The time at which the expected number of arrivals since zero reaches `count`.
    ///
    /// The integral of the rate inverted: unit-rate arrivals mapped through it are arrivals at this rate, so that one
    /// seed gives the same process at any rate.
    fn time_of(&self, count: f64) -> f64 {
        let slope = if self.over > 0.0 { (self.to - self.from) / self.over } else { 0.0 };
        let at_top = (self.from + self.to) / 2.0 * self.over.max(0.0);
        if count >= at_top {
            return self.over.max(0.0) + (count - at_top) / self.to;
        }
        if slope.abs() < 1e-12 {
            return count / self.from;
        }
        ((self.from * self.from + 2.0 * slope * count).sqrt() - self.from) / slope
    }
}

/// The intended start times of a load, one after the other.
#[derive(Debug)]
pub(crate) struct Arrivals {
    ramp: Ramp,
    spacing: Spacing,
    origin: Instant,
    length: Duration,
    /// Attempts due within so long a time start together, at its end; and where the first such time ends.
    grain: Duration,
    phase: Duration,
    /// Expected arrivals up to the next one.
    count: f64,
    next: Option<Instant>,
}

impl Arrivals {
    pub(crate) fn new(
        ramp: Ramp,
        spacing: Spacing,
        origin: Instant,
        length: Duration,
        dice: &mut Dice,
    ) -> Self {
        let (grain, phase) = (Duration::ZERO, Duration::ZERO);
        let mut arrivals =
            Self { ramp, spacing, origin, length, grain, phase, count: 0.0, next: Some(origin) };
        arrivals.advance(dice);
        arrivals
    }

    /// Rounds start times up to grains. Where a grain begins is random, so that the grains of several generators that
    /// begin together do not coincide.
    pub(crate) fn with_grain(mut self, grain: Duration, dice: &mut Dice) -> Self {
        (self.grain, self.phase) = (grain, grain.mul_f64(dice.unit()));
        self.next = self.next.map(|next| self.origin + self.rounded(next - self.origin));
        self
    }

    fn rounded(&self, offset: Duration) -> Duration {
        if self.grain.is_zero() {
            return offset;
        }
        let nanos = (offset + self.phase).as_nanos().next_multiple_of(self.grain.as_nanos());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).saturating_sub(self.phase)
    }

    /// The intended time of the next start; `None` when the load is over.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Moves on to the one after.
    pub(crate) fn advance(&mut self, dice: &mut Dice) {
        self.count += match self.spacing {
            Spacing::Poisson => dice.exponential(1.0),
            Spacing::Uniform => 1.0,
        };
        let offset = self.ramp.time_of(self.count);
        let within = offset.is_finite() && offset < self.length.as_secs_f64();
        self.next = within.then(|| self.origin + self.rounded(secs(offset)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(ramp: Ramp, spacing: Spacing, seed: u64, seconds: u64) -> Vec<u64> {
        let mut dice = Dice::new(seed);
        let length = Duration::from_secs(seconds);
        let mut arrivals = Arrivals::new(ramp, spacing, Instant::ZERO, length, &mut dice);
        let mut times = Vec::new();
        while let Some(at) = arrivals.next() {
            times.push(at.as_nanos());
            arrivals.advance(&mut dice);
        }
        times
    }

    /// 1,000 a second for 20 s: 20,000 expected, standard deviation 141; five of them are 707.
    #[test]
    fn poisson_arrivals_have_the_rate_and_the_scatter_of_their_name_and_repeat_by_seed() {
        let times = count(Ramp::flat(1000.0), Spacing::Poisson, 7, 20);
        assert!(times.len().abs_diff(20_000) < 707, "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "an exponential's deviation is its mean");
        assert_eq!(times, count(Ramp::flat(1000.0), Spacing::Poisson, 7, 20));
        assert_ne!(times, count(Ramp::flat(1000.0), Spacing::Poisson, 8, 20));
    }

    /// 20,000 a second in grains of 200 µs: four at a time, and each at most a grain after its own time.
    #[test]
    fn a_grain_gathers_starts_and_delays_none_by_more_than_itself() {
        let grain = Duration::from_micros(200);
        let exact = count(Ramp::flat(20_000.0), Spacing::Poisson, 7, 1);
        let mut dice = Dice::new(7);
        let length = Duration::from_secs(1);
        let mut arrivals =
            Arrivals::new(Ramp::flat(20_000.0), Spacing::Poisson, Instant::ZERO, length, &mut dice);
        arrivals = arrivals.with_grain(grain, &mut Dice::new(1));
        let mut places = std::collections::BTreeSet::new();
        for exact in &exact {
            let at = arrivals.next().unwrap().as_nanos();
            assert!(at >= *exact && at - exact <= 200_000, "{exact} became {at}");
            places.insert(at);
            arrivals.advance(&mut dice);
        }
        assert_eq!(arrivals.next(), None);
        assert!((4_900..=5_001).contains(&places.len()), "{}", places.len());
        let first = *places.first().unwrap() % 200_000;
        assert!(places.iter().all(|at| at % 200_000 == first) && first > 0);
    }

    /// From 0 to 100 a second over 10 s is 500 arrivals, then 100 a second for 10 s: 1,000.
    #[test]
    fn a_ramp_grows_linearly_and_then_stays() {
        let times = count(Ramp { from: 0.0, to: 100.0, over: 10.0 }, Spacing::Uniform, 0, 20);
        let by = |second: u64| times.iter().filter(|&&t| t <= second * 1_000_000_000).count();
        assert!(by(5).abs_diff(125) <= 1 && by(10).abs_diff(500) <= 1 && times.len().abs_diff(1500) <= 1);
    }
}
