//! A server: one CPU, first come first served, with stalls.

use std::collections::VecDeque;

use core::time::Duration;

use tandem_base::{Instant, Rng};
use tandem_sip::Method;

use crate::figures::ServerFigures;
use crate::model::{Costs, Stalls};

/// One message that waits or is worked on.
#[derive(Debug)]
pub(crate) struct Job {
    /// The balancer that sent it, which gets the answer.
    pub(crate) front: u16,
    pub(crate) call: u64,
    pub(crate) method: Method,
    pub(crate) bytes: Box<[u8]>,
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) figures: ServerFigures,
    speed: f64,
    queue: VecDeque<Job>,
    at_work: Option<Job>,
    stalled_until: Instant,
    /// How much later than planned what is worked on will be done, because of stalls in between.
    postponed: Duration,
    rng: Rng,
}

impl Machine {
    pub(crate) fn new(speed: f64, rng: Rng) -> Self {
        Self {
            figures: ServerFigures::default(),
            speed,
            queue: VecDeque::new(),
            at_work: None,
            stalled_until: Instant::ZERO,
            postponed: Duration::ZERO,
            rng,
        }
    }

    /// Requests that a new one has to wait for.
    pub(crate) fn ahead(&self) -> usize {
        self.queue.len() + usize::from(self.at_work.is_some())
    }

    /// Takes a message in; false if there is no room.
    pub(crate) fn put(&mut self, job: Job, queue_max: usize) -> bool {
        if self.queue.len() >= queue_max {
            self.figures.dropped += 1;
            return false;
        }
        self.queue.push_back(job);
        true
    }

    /// Whether nothing is worked on and something waits.
    pub(crate) fn may_begin(&self) -> Option<&Job> {
        if self.at_work.is_some() { None } else { self.queue.front() }
    }

    /// Begins with the first that waits; it is done at the time returned, unless a stall comes.
    pub(crate) fn begin(&mut self, now: Instant, costs: &Costs, is_repeated: bool) -> Option<Instant> {
        let job = self.queue.pop_front()?;
        let mean = if job.method == Method::Invite {
            costs.invite()
        } else if job.method == Method::Bye {
            costs.bye()
        } else {
            costs.bye() * costs.single_to_bye
        };
        let part = if is_repeated { costs.repeat } else { 1.0 };
        let shape = costs.shape.max(1);
        let mean = mean * part / self.speed / f64::from(shape);
        let took: f64 = (0..shape).map(|_| self.rng.exp(mean)).sum();
        self.at_work = Some(job);
        Some(now.max(self.stalled_until) + Duration::from_secs_f64(took))
    }

    /// What was worked on is done, or will be at the time returned because the server stood still.
    pub(crate) fn done(&mut self, now: Instant) -> Result<Option<Job>, Instant> {
        let postponed = core::mem::take(&mut self.postponed);
        if postponed.is_zero() { Ok(self.at_work.take()) } else { Err(now + postponed) }
    }

    /// Stands still from now on; returns when the next stall comes.
    pub(crate) fn stall(&mut self, now: Instant, stalls: &Stalls) -> Instant {
        let length = between(&mut self.rng, stalls.least, stalls.most);
        if self.at_work.is_some() {
            self.postponed += length;
        }
        self.stalled_until = now + length;
        self.stalled_until + self.gap(stalls)
    }

    /// Time to a stall.
    pub(crate) fn gap(&mut self, stalls: &Stalls) -> Duration {
        between(&mut self.rng, stalls.every / 2, stalls.every * 3 / 2)
    }
}

fn between(rng: &mut Rng, least: Duration, most: Duration) -> Duration {
    least + most.saturating_sub(least).mul_f64(rng.f64())
}
