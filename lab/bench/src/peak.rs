//! The highest rate at which 99.99 % of the attempts succeed.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::driver::{Driver, Load};
use crate::kinds::Subject;
use crate::server::{Place, Server};

/// Share of attempts that must succeed.
pub(crate) const SUCCESS: f64 = 0.9999;
/// Where a search without any knowledge begins, and where every search ends.
const FIRST: f64 = 10_000.0;
const HIGHEST: f64 = 500_000.0;
const LOWEST: f64 = 100.0;

/// What a rate came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Carried,
    Failed,
    /// The driver was the bottleneck.
    Void,
}

/// The end of a search.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Peak {
    /// Attempts a second.
    pub(crate) rate: f64,
    /// True if the driver, not the server, was what ended the search: the server's own peak is higher.
    pub(crate) at_least: bool,
}

impl Peak {
    pub(crate) fn remark(self) -> &'static str {
        if self.at_least { " or more: the driver could no more" } else { "" }
    }
}

/// One rate for `length`, on a server of its own. A failure is tried twice more: on a shared machine a hiccup of some
/// milliseconds is not the server's.
pub(crate) fn step(
    place: &Place,
    driver: &Driver,
    subject: Subject,
    length: Duration,
    rate: f64,
) -> Result<Step> {
    let mut outcome = Step::Failed;
    for _ in 0..3 {
        let server = Server::start(place, subject)?;
        let warm_up = subject.job().warm_up();
        let sample = driver.run(&server, &Load { job: subject.job(), rate, warm_up, window: length })?;
        outcome = if !sample.void.is_empty() {
            Step::Void
        } else if sample.success >= SUCCESS {
            Step::Carried
        } else {
            Step::Failed
        };
        if outcome == Step::Carried {
            break;
        }
    }
    Ok(outcome)
}

/// Searches for the peak: outwards from what is known until it lies between two rates, then by halving, until they
/// are within `precision` of each other.
pub(crate) fn search(
    known: Option<f64>,
    precision: f64,
    mut step: impl FnMut(f64) -> Result<Step>,
) -> Result<Peak> {
    let (mut carried, mut failed, mut at_least) = (0.0_f64, f64::INFINITY, false);
    let mut stride = if known.is_some() { 1.0 + 2.0 * precision } else { 1.6 };
    let mut rate = known.unwrap_or(FIRST);
    loop {
        match step(rate)? {
            Step::Carried => carried = carried.max(rate),
            ended @ (Step::Failed | Step::Void) => {
                failed = failed.min(rate);
                at_least = ended == Step::Void;
            }
        }
        if carried > 0.0 && (failed <= carried * (1.0 + precision) || carried >= HIGHEST) {
            return Ok(Peak { rate: carried, at_least });
        }
        if failed < LOWEST {
            return Ok(Peak { rate: 0.0, at_least });
        }
        rate = if failed.is_infinite() {
            carried * stride
        } else if carried == 0.0 {
            failed / stride
        } else {
            (carried * failed).sqrt()
        };
        stride *= 1.1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(peak: f64, known: Option<f64>, beyond: Step) -> Peak {
        search(known, 0.03, |rate| Ok(if rate <= peak { Step::Carried } else { beyond })).unwrap()
    }

    #[test]
    fn a_search_ends_within_its_precision_below_the_peak() {
        for (peak, known) in [(25_000.0, None), (900.0, None), (116_000.0, None), (25_000.0, Some(26_000.0))]
        {
            let at = found(peak, known, Step::Failed).rate;
            assert!(at <= peak && at * 1.03 >= peak * 0.999, "{at} for {peak}");
        }
    }

    #[test]
    fn a_search_that_the_driver_ends_says_so() {
        assert!(found(25_000.0, None, Step::Void).at_least);
        assert!(!found(25_000.0, None, Step::Failed).at_least);
    }

    #[test]
    fn a_server_that_carries_nothing_has_no_peak() {
        assert!(found(0.0, None, Step::Failed).rate.abs() < f64::EPSILON);
    }
}
