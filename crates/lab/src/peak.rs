//! Peak throughput: the highest rate at which 99.99 % of all requests succeed (A10).

use tandem_balance::Mistake;

use crate::figures::Figures;
use crate::model::Run;
use crate::world::simulate;

/// The part of all requests that must succeed.
pub const SUCCESS: f64 = 0.9999;

/// One rate that was tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Calls a second.
    pub rate: f64,
    /// What was found; cut short where too many had failed.
    pub figures: Figures,
}

impl Trial {
    /// Whether enough succeeded.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.figures.success() >= SUCCESS
    }
}

/// A search's result.
#[derive(Clone, Debug)]
pub struct Peak {
    /// The highest good rate found, in calls a second; 0 if there was none.
    pub rate: f64,
    /// All rates tried, rising.
    pub trials: Vec<Trial>,
}

/// Finds the peak by halving, to within `tolerance` of the servers' capacity.
///
/// # Errors
///
/// [`Mistake`] of an experiment.
pub fn find(run: &Run, tolerance: f64) -> Result<Peak, Mistake> {
    let (mut good, mut bad) = (0.0, 1.02);
    let mut part: f64 = 0.85;
    let mut trials = Vec::new();
    loop {
        let mut run = run.clone();
        run.profile.rate = part * run.capacity();
        let requests = run.profile.rate * run.profile.judged.as_secs_f64() * 2.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
        let most = (requests * (1.0 - SUCCESS)).ceil() as u64;
        run.failures_max = Some(most);
        let trial = Trial { rate: run.profile.rate, figures: simulate(&run)? };
        if trial.is_good() {
            good = part;
        } else {
            bad = part;
        }
        trials.push(trial);
        if bad - good <= tolerance {
            break;
        }
        part = f64::midpoint(good, bad);
    }
    trials.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    Ok(Peak { rate: good * run.capacity(), trials })
}
