//! What a run found.

use core::time::Duration;

use serde::Serialize;

/// Requests of one kind that began while they were judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Judged {
    /// Begun.
    pub asked: u64,
    /// Answered by a 200 in time.
    pub answered: u64,
    /// Refused, or not answered in time.
    pub failed: u64,
}

/// Response times of requests of one kind.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Times {
    micros: Vec<u32>,
}

impl Times {
    pub(crate) fn add(&mut self, took: Duration) {
        self.micros.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn sort(&mut self) {
        self.micros.sort_unstable();
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.micros.len()
    }

    /// All added up, in milliseconds.
    #[must_use]
    pub fn sum_ms(&self) -> f64 {
        self.micros.iter().map(|&micros| f64::from(micros)).sum::<f64>() / 1e3
    }

    /// The mean in milliseconds; 0 of none.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        if self.micros.is_empty() { 0.0 } else { self.sum_ms() / self.micros.len() as f64 }
    }

    /// The quantile in milliseconds: 0.99 is what 99 % stay below. Of sorted times.
    #[must_use]
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        let last = self.micros.len().saturating_sub(1) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index below the length"
        )]
        let at = (last * quantile.clamp(0.0, 1.0)).round() as usize;
        self.micros.get(at).map_or(0.0, |&micros| f64::from(micros) / 1e3)
    }
}

/// One answered INVITE: what it found ahead of it at its server, and how long it took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// Requests ahead of it.
    pub ahead: u32,
    /// Microseconds to the 200.
    pub micros: u32,
}

/// What a server did while requests were judged.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct ServerFigures {
    /// Requests it was sent, repeated ones too.
    pub requests: u64,
    /// INVITEs that were new.
    pub calls: u64,
    /// Messages that found no room.
    pub dropped: u64,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// INVITEs.
    pub invites: Judged,
    /// BYEs.
    pub byes: Judged,
    /// Requests outside calls.
    pub singles: Judged,
    /// INVITE to 200.
    pub invite_times: Times,
    /// BYE to 200.
    pub bye_times: Times,
    /// Requests outside calls.
    pub single_times: Times,
    /// Every answered INVITE with the occupancy it found.
    pub answers: Vec<Answer>,
    /// Server by server.
    pub servers: Vec<ServerFigures>,
    /// Requests sent again by their callers.
    pub repeated: u64,
    /// Requests within a call that reached a server that does not have the call.
    pub strayed: u64,
    /// By how much the balancers' audits found their loads wrong.
    pub wrong: u64,
    /// What the first balancer weighs an INVITE at in the end, a BYE being 1.
    pub invite_to_bye: f64,
    /// The run was ended early: too many had failed.
    pub is_cut_short: bool,
}

impl Figures {
    /// Requests judged, and those of them that failed.
    #[must_use]
    pub fn requests(&self) -> (u64, u64) {
        let of = |value: fn(&Judged) -> u64| [self.invites, self.byes, self.singles].iter().map(value).sum();
        (of(|judged| judged.asked), of(|judged| judged.failed))
    }

    /// The part of all judged requests that succeeded; 0 of a run that was cut short.
    #[must_use]
    pub fn success(&self) -> f64 {
        let (asked, failed) = self.requests();
        if self.is_cut_short || asked == 0 { 0.0 } else { 1.0 - failed as f64 / asked as f64 }
    }

    /// The part of answered INVITEs that found fewer than `count` requests ahead of them.
    #[must_use]
    pub fn share_below(&self, count: u32) -> f64 {
        let below = self.answers.iter().filter(|answer| answer.ahead < count).count();
        if self.answers.is_empty() { 0.0 } else { below as f64 / self.answers.len() as f64 }
    }

    /// The most that an answered INVITE found ahead of it.
    #[must_use]
    pub fn ahead_max(&self) -> u32 {
        self.answers.iter().map(|answer| answer.ahead).max().unwrap_or(0)
    }
}
