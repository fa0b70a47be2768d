//! The health of a pool's destinations: OPTIONS probes, rise and fall.
//!
//! One shard runs it and writes what it finds on the [`Board`]. It decides when a probe is due and what the answers
//! mean; the caller sends the probe ([`write_probe`](crate::write_probe)) and reports the answer. A probe without an
//! answer ends by itself before the next is due.
//!
//! Each destination has its own moment within the interval, drawn from this instance's key, so that neither the
//! probes of one node nor those of many nodes come in bursts. Failures of real traffic are [`Pool::report`]'s.
//! A destination that probes have nothing to say of (no interval) is up until real traffic says otherwise.
//!
//! [`Pool::report`]: crate::Pool::report

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tandem_base::{HashKey, Instant, TimerId, Wheel};
use tandem_sip::Hop;

use crate::board::{Admin, Health, Reason};
use crate::{Board, DestinationId, PoolSettings, Slot};

/// A probe to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Whom.
    pub slot: Slot,
    /// Where.
    pub hop: Hop,
    /// Which one: an answer to an earlier one comes too late.
    pub number: u32,
}

/// What became of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeOutcome {
    /// A final response, with its Retry-After if it had one.
    Answered(u16, Option<Duration>),
    /// ICMP or a refused connection.
    Unreachable,
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The next probe.
    Due(Slot),
    /// No answer came.
    TimedOut(Slot),
}

/// What is known of one destination.
#[derive(Debug, Default)]
struct Subject {
    id: Option<DestinationId>,
    /// Answers in a row.
    good: u32,
    /// Failures in a row.
    bad: u32,
    number: u32,
    pending: Option<TimerId>,
    due: Option<TimerId>,
}

/// See the module.
pub struct Watch {
    settings: Arc<PoolSettings>,
    board: Arc<Board>,
    key: HashKey,
    wheel: Wheel<Timer>,
    subjects: Vec<Subject>,
    probes: VecDeque<Probe>,
}

impl Watch {
    /// Begins to watch. `key` is this instance's own, another on every node.
    #[must_use]
    pub fn new(now: Instant, settings: Arc<PoolSettings>, board: Arc<Board>, key: HashKey) -> Self {
        let mut watch =
            Self { settings, board, key, wheel: Wheel::new(), subjects: Vec::new(), probes: VecDeque::new() };
        watch.schedule_all(now);
        watch
    }

    /// Takes over the next generation. Destinations that stay keep what is known of them.
    pub fn reconfigure(&mut self, now: Instant, settings: Arc<PoolSettings>) {
        self.settings = settings;
        self.schedule_all(now);
    }

    /// When to call [`Watch::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Makes probes due and ends those that went unanswered.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.wheel.pop_due(now) {
            match timer {
                Timer::Due(slot) => self.probe(now, slot),
                Timer::TimedOut(slot) => {
                    if let Some(subject) = self.subjects.get_mut(slot.index()) {
                        subject.pending = None;
                    }
                    self.failed(now, slot, Reason::ProbesTimedOut);
                }
            }
        }
    }

    /// The next probe to send. At most one a destination waits here.
    pub fn poll_probe(&mut self) -> Option<Probe> {
        self.probes.pop_front()
    }

    /// What became of probe `number` of a destination. Too late, twice or unknown: nothing happens.
    ///
    /// Any final answer below 500 shows a server at work, also a 404 or 405 to OPTIONS; 5xx and 6xx count as
    /// failures. A 503 holds new calls off at once, for its Retry-After, for one probe may well be shed by a server
    /// that is merely busy.
    pub fn handle_outcome(&mut self, now: Instant, slot: Slot, number: u32, outcome: ProbeOutcome) {
        let Some(subject) = self.subjects.get_mut(slot.index()) else { return };
        if subject.number != number {
            return;
        }
        let Some(pending) = subject.pending.take() else { return };
        self.wheel.cancel(pending);
        match outcome {
            ProbeOutcome::Answered(status, _) if status < 500 => self.answered(now, slot),
            ProbeOutcome::Answered(503, retry_after) => {
                if let Some(asked) = retry_after {
                    let hold = asked.min(self.settings.health().hold_max);
                    self.board.hold(slot, now + hold, Reason::Unavailable, now);
                }
                self.failed(now, slot, Reason::ProbesRefused);
            }
            ProbeOutcome::Answered(..) => self.failed(now, slot, Reason::ProbesRefused),
            ProbeOutcome::Unreachable => self.failed(now, slot, Reason::Unreachable),
        }
    }

    fn probe(&mut self, now: Instant, slot: Slot) {
        let Some(interval) = self.interval() else { return };
        let Some(hop) = self.settings.destination(slot).map(|destination| destination.hop) else { return };
        let timeout = self.timeout(interval);
        let Some(subject) = self.subjects.get_mut(slot.index()) else { return };
        // From when it was due, not from now: the moments stay apart.
        subject.due = Some(self.wheel.schedule(now + interval, Timer::Due(slot)));
        let wanted = !self.settings.is_leaving(slot) && self.board.standing(slot).admin != Admin::Disabled;
        if !wanted || subject.pending.is_some() {
            return;
        }
        subject.number = subject.number.wrapping_add(1);
        subject.pending = Some(self.wheel.schedule(now + timeout, Timer::TimedOut(slot)));
        self.probes.push_back(Probe { slot, hop, number: subject.number });
    }

    fn answered(&mut self, now: Instant, slot: Slot) {
        let rise = self.settings.health().rise.max(1);
        let Some(subject) = self.subjects.get_mut(slot.index()) else { return };
        subject.bad = 0;
        let health = self.board.standing(slot).health;
        // Real traffic may have brought it down since the last probe; answers before that don't count.
        subject.good = if health == Health::Down { 1 } else { subject.good.saturating_add(1) };
        match health {
            Health::Up => {}
            Health::Down | Health::Probing if subject.good >= rise => {
                self.board.set_health(slot, Health::Up, Reason::ProbesAnswered, now);
            }
            Health::Down => self.board.set_health(slot, Health::Probing, Reason::ProbeAnswered, now),
            Health::Probing => {}
        }
    }

    fn failed(&mut self, now: Instant, slot: Slot, reason: Reason) {
        let fall = self.settings.health().fall.max(1);
        let Some(subject) = self.subjects.get_mut(slot.index()) else { return };
        subject.good = 0;
        subject.bad = subject.bad.saturating_add(1);
        match self.board.standing(slot).health {
            Health::Up if subject.bad >= fall => self.board.set_health(slot, Health::Down, reason, now),
            // It has to begin again: one answer between failures makes no server.
            Health::Probing => self.board.set_health(slot, Health::Down, reason, now),
            Health::Up | Health::Down => {}
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.settings.health().interval.map(|interval| interval.max(Duration::from_millis(10)))
    }

    /// Always below the interval, so that no two probes of a destination are under way.
    fn timeout(&self, interval: Duration) -> Duration {
        self.settings.health().timeout.clamp(Duration::from_millis(5), interval - interval / 10)
    }

    fn schedule_all(&mut self, now: Instant) {
        self.subjects.resize_with(self.settings.slots().max(self.subjects.len()), Subject::default);
        let interval = self.interval();
        for (index, subject) in self.subjects.iter_mut().enumerate() {
            let slot = crate::destination::slot(index);
            let destination = self.settings.destination(slot);
            let id = destination.map(|destination| destination.id.clone());
            if id != subject.id {
                for timer in [subject.pending.take(), subject.due.take()].into_iter().flatten() {
                    self.wheel.cancel(timer);
                }
                // The number goes on, so that no old answer is taken for a new one's.
                *subject = Subject { id, number: subject.number, ..Subject::default() };
            }
            let Some(destination) = destination else { continue };
            let Some(interval) = interval else {
                // Nobody would ever find it well again; real traffic may find it ill.
                self.board.set_health(slot, Health::Up, Reason::Operator, now);
                continue;
            };
            if subject.due.is_some_and(|due| self.wheel.is_scheduled(due)) {
                continue;
            }
            let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
            let phase = self.key.hash64(&[destination.id.as_str().as_bytes()]) % nanos.max(1);
            let at = now + Duration::from_nanos(phase);
            subject.due = Some(self.wheel.schedule(at, Timer::Due(slot)));
        }
    }
}

#[cfg(test)]
mod tests;
