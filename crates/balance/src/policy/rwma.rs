//! RWMA: response-time weighted moving average (Jiang et al. 2009, §III).
//!
//! The last n = 20 response times of each destination are averaged with weights n for the newest down to 1; the
//! least average wins. A destination that hasn't answered yet averages 0 and so is tried first. What it compares is
//! old news: the paper and our own laboratory find it the worst, and it is here to be compared with.

use core::time::Duration;

use tandem_sip::Method;

use super::least::Least;
use super::{Pick, Policy};
use crate::members::Members;
use crate::{Load, PoolSettings, Slot};

/// A destination's last times in µs, the newest first.
#[derive(Clone, Debug, Default)]
struct Times(Vec<u32>);

impl Times {
    fn push(&mut self, micros: u32, samples: usize) {
        self.0.truncate(samples.saturating_sub(1));
        self.0.insert(0, micros);
    }

    /// The weighted average in µs.
    fn average(&self, samples: usize) -> u64 {
        let (mut sum, mut weights) = (0u64, 0u64);
        for (&micros, weight) in self.0.iter().zip((1..=samples as u64).rev()) {
            sum += u64::from(micros) * weight;
            weights += weight;
        }
        u64::checked_div(sum, weights).unwrap_or(0)
    }
}

struct Rwma {
    least: Least,
    times: Vec<Times>,
    samples: usize,
}

pub(super) fn make(settings: &PoolSettings) -> Box<dyn Policy> {
    let samples = usize::from(settings.policy().samples.max(1));
    Box::new(Rwma { least: Least::new(), times: Vec::new(), samples })
}

impl Policy for Rwma {
    fn reshape(&mut self, members: &Members, _: &[Load]) {
        self.times.resize(members.slots(), Times::default());
        for (index, times) in self.times.iter_mut().enumerate() {
            if members.get(crate::destination::slot(index)).is_none() {
                times.0.clear();
            }
        }
        let average =
            |slot: Slot| self.times.get(slot.index()).map_or(0, |times| times.average(self.samples));
        self.least.reshape_undivided(members, average);
    }

    fn answered(&mut self, slot: Slot, _: Method, took: Duration) {
        if let Some(times) = self.times.get_mut(slot.index()) {
            times.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX), self.samples);
            self.least.update(slot, times.average(self.samples));
        }
    }

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        self.least.pick(pick)
    }

    /// In milliseconds.
    fn figure(&self, slot: Slot) -> Option<f64> {
        self.least.figure(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// n = 3, times 10, 20, 30, 40: the first is forgotten, (40·3 + 30·2 + 20·1) / 6 = 33.3.
    #[test]
    fn the_newest_of_n_times_weighs_most_and_the_oldest_is_forgotten() {
        let mut times = Times::default();
        assert_eq!(times.average(3), 0);
        for micros in [10, 20, 30, 40] {
            times.push(micros, 3);
        }
        assert_eq!(times.average(3), 33);
        let mut one = Times::default();
        one.push(7, 3);
        assert_eq!(one.average(3), 7);
    }
}
