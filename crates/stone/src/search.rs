//! Finds what a target carries: by steps until it breaks (Singh), or the highest rate at a given success.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::process::Command;

use crate::arrivals::Ramp;
use crate::drive::Control;
use crate::error::StoneError;
use crate::follow::Progress;
use crate::report::Report;
use crate::run::Run;

/// How the rate is varied.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Method {
    /// From the run's rate up by `step` until the share of failures reaches `fail`: the whole curve.
    Steps {
        /// Attempts a second added each time.
        step: f64,
        /// Share of failures that ends it, 0 to 1.
        fail: f64,
    },
    /// The highest rate with a success of at least `success`, to within `within` of it: doubling, then halving the gap.
    Highest {
        /// Share that must succeed, 0 to 1.
        success: f64,
        /// Relative width at which the search ends.
        within: f64,
    },
}

/// A search.
#[derive(Clone, PartialEq, Debug)]
pub struct Search {
    /// How the rate is varied.
    pub method: Method,
    /// Runs at each rate; success and latencies are their mean.
    pub runs: u32,
    /// A shell command run before each rate, such as one that restarts the server. Its failure ends the search.
    pub before: Option<String>,
    /// Rest between runs.
    pub pause: Duration,
    /// No rate above this is tried.
    pub rate_max: f64,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// One report a rate, by rising rate; of several runs the one with the median success, with the mean success.
    pub reports: Vec<Report>,
    /// The highest rate tried at which the goal was met; `None` if it never was.
    pub rate: Option<f64>,
    /// The generator, not the target, ended the search.
    pub generator_limited: bool,
}

/// Runs the load at one rate after the other.
///
/// # Errors
///
/// Those of a run; [`StoneError::Target`] if the command before a rate fails.
pub fn search(
    run: &Run,
    search: &Search,
    control: &Control,
    progress: &mut dyn FnMut(&Progress),
    rate_done: &mut dyn FnMut(&Report),
) -> Result<Found, StoneError> {
    let mut found = Found { reports: Vec::new(), rate: None, generator_limited: false };
    let mut rate = run.load.ramp.to;
    let (mut good, mut bad) = (None::<f64>, None::<f64>);
    while rate <= search.rate_max && !control.stop.load(Ordering::Relaxed) {
        let report = at_rate(run, search, rate, control, progress)?;
        rate_done(&report);
        let (success, stands) = (report.success, report.stands());
        found.reports.push(report);
        if !stands {
            found.generator_limited = true;
        }
        match search.method {
            Method::Steps { step, fail } => {
                if success > 1.0 - fail && stands {
                    good = Some(rate);
                } else {
                    break;
                }
                rate += step;
            }
            Method::Highest { success: wanted, within } => {
                if success >= wanted && stands {
                    good = Some(rate);
                    rate = bad.map_or(rate * 2.0, |bad| f64::midpoint(rate, bad));
                } else {
                    bad = Some(rate);
                    rate = good.map_or(rate / 2.0, |good| f64::midpoint(good, rate));
                }
                let narrow = good.zip(bad).is_some_and(|(good, bad)| (bad - good) / bad <= within);
                if narrow || rate < 1.0 {
                    break;
                }
            }
        }
    }
    found.rate = good;
    found.reports.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    Ok(found)
}

fn at_rate(
    run: &Run,
    search: &Search,
    rate: f64,
    control: &Control,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, StoneError> {
    let mut reports = Vec::new();
    for turn in 0..search.runs.max(1) {
        if let Some(command) = &search.before {
            restart(command)?;
        }
        let mut run = run.clone();
        let ramp = run.load.ramp;
        run.load.ramp = if ramp.over > 0.0 {
            Ramp { from: ramp.from.min(rate), to: rate, ..ramp }
        } else {
            Ramp::flat(rate)
        };
        run.load.seed = run.load.seed.wrapping_add(u64::from(turn));
        control.reset();
        reports.push(run.prepare()?.run(control, progress)?);
        std::thread::sleep(search.pause);
        if control.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of runs")]
    let mean =
        |value: fn(&Report) -> f64| reports.iter().map(value).sum::<f64>() / reports.len().max(1) as f64;
    let (success, success_rate, server) =
        (mean(|r| r.success), mean(|r| r.success_rate), mean(|r| r.server_us_per_attempt));
    reports.sort_by(|a, b| a.success.total_cmp(&b.success));
    let mut report = reports.swap_remove(reports.len() / 2);
    report.success = success;
    report.success_rate = success_rate;
    report.bhca = success_rate * 3600.0;
    report.server_us_per_attempt = server;
    Ok(report)
}

fn restart(command: &str) -> Result<(), StoneError> {
    let failed = |why: String| StoneError::Target(format!("--before `{command}` {why}"));
    let status =
        Command::new("sh").args(["-c", command]).status().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(format!("ended with {status}"))) }
}
