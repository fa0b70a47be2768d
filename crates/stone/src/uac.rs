//! The calling end: begins attempts when they are due, whatever became of the earlier ones, and judges each.
//!
//! An attempt succeeds as SIPstone says: the wanted final answer to each of its requests within the limit (2 s) and
//! nothing unexpected. Time counts from the *intended* start, so that a late generator shows in the latencies instead
//! of hiding in them. RFC 3261 §17.1 for repetitions, §13.2.2.4 and §17.1.1.3 for ACK, §22.2 for credentials.
//! §9.1 for the share of calls that is cancelled. Left out: CANCEL of what took too long; in SIPstone the attempt is
//! just over.

mod answers;
mod attempt;
mod call;
mod cancel;
mod challenge;
mod due;
mod verdict;

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use tandem_base::Instant;
use tandem_sip::{Hop, ListenerId, Outbox};

use self::attempt::{Attempt, Cancel, Purpose, State, step};
use crate::arrivals::Arrivals;
use crate::calls::Table;
use crate::dialog::{Hops, Ours};
use crate::dice::{Dice, secs};
use crate::load::{Hold, Load, Retransmit, Workload};
use crate::messages::{clearing, request};
use crate::reply::Source;
use crate::tally::{CallerCounts, Kinds};
use crate::template::{Filling, Template};
use crate::timers::{Delay, Timers};
use crate::times::Times;
use crate::token::Token;
use crate::users::Picker;

/// Most attempts begun in one turn, so that answers are read in between.
const BEGIN_MAX: usize = 32;
/// Registrations in flight while users are registered.
const SETUP_WINDOW: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Registering { next: u32, done: u32 },
    Ready,
    Running,
}

/// The calling end.
#[derive(Debug)]
pub struct Uac {
    load: Arc<Load>,
    listener: ListenerId,
    dice: Dice,
    picker: Picker,
    phase: Phase,
    arrivals: Option<Arrivals>,
    judged_from: Instant,
    attempts: Table<Attempt>,
    timers: Timers,
    first: Vec<Template>,
    again: Vec<Template>,
    ours: Ours,
    hops: Hops,
    source: Source,
    spare: Vec<Vec<u8>>,
    mix_total: u32,
    target_total: u32,
    sequential: u32,
    /// Users whose old bindings are gone, and who are not registered yet.
    cleared: Vec<u32>,
    /// Registrations of the preparation that failed.
    pub setup_failed: u32,
    /// All that was counted.
    pub counts: CallerCounts,
    /// Of that, attempts whose intended start lies after the warm-up: intended to late only.
    pub judged: CallerCounts,
    /// Unexpected messages.
    pub unexpected: Kinds,
    /// Latencies.
    pub times: Times,
}

impl Uac {
    /// A calling end that sends from one listener; `part` makes its random numbers its own.
    #[must_use]
    pub fn new(load: Arc<Load>, listener: ListenerId, part: u64) -> Self {
        let templates = |step: u8| {
            let requests = Workload::ALL.iter().map(|&workload| request(&load, workload, char::from(step)));
            requests.chain([clearing(&load, char::from(step))]).collect()
        };
        let registers = load.register_first;
        Self {
            listener,
            dice: Dice::new(load.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part)),
            picker: Picker::new(load.choice, load.users.len()),
            phase: if registers { Phase::Registering { next: 0, done: 0 } } else { Phase::Ready },
            arrivals: None,
            judged_from: Instant::ZERO,
            attempts: Table::new(load.calls_max),
            timers: Timers::new(load.within),
            first: templates(step::FIRST),
            again: templates(step::AGAIN),
            ours: Ours::new(&load),
            hops: Hops::default(),
            source: Source::new(),
            spare: Vec::new(),
            mix_total: load.mix.iter().map(|&(_, weight)| weight).sum(),
            target_total: load.targets.iter().map(|target| target.weight).sum(),
            sequential: 0,
            cleared: Vec::new(),
            setup_failed: 0,
            counts: CallerCounts::default(),
            judged: CallerCounts::default(),
            unexpected: Kinds::default(),
            times: Times::default(),
            load,
        }
    }

    /// Whether users are still being registered.
    #[must_use]
    pub fn is_registering(&self) -> bool {
        matches!(self.phase, Phase::Registering { .. })
    }

    /// Whether the load can be started: users are registered, or need not be.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Starts the load.
    pub fn begin(&mut self, now: Instant) {
        let Load { ramp, spacing, grain, length, warm_up, .. } = *self.load;
        self.phase = Phase::Running;
        self.judged_from = now + warm_up;
        let arrivals = Arrivals::new(ramp, spacing, now, length, &mut self.dice);
        self.arrivals = Some(arrivals.with_grain(grain, &mut self.dice));
    }

    /// Whether the load is over and every attempt has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Running
            && self.arrivals.as_ref().is_none_or(|a| a.next().is_none())
            && self.attempts.len() == 0
    }

    /// Whether the last attempt has been begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.phase == Phase::Running && self.arrivals.as_ref().is_none_or(|a| a.next().is_none())
    }

    /// Attempts in progress.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.attempts.len()
    }

    /// When [`Uac::tick`] has something to do.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let arrival = self.arrivals.as_ref().and_then(Arrivals::next);
        [arrival, self.timers.next()].into_iter().flatten().min()
    }

    /// Begins what is due and gives up what took too long.
    pub fn tick(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(due) = self.timers.pop(now) {
            self.due(now, due.token, due.step, out);
        }
        match self.phase {
            Phase::Registering { .. } => self.register_more(now, out),
            Phase::Ready => {}
            Phase::Running => {
                for _ in 0..BEGIN_MAX {
                    let Some(at) = self.arrivals.as_ref().and_then(Arrivals::next).filter(|at| *at <= now)
                    else {
                        break;
                    };
                    if let Some(arrivals) = &mut self.arrivals {
                        arrivals.advance(&mut self.dice);
                    }
                    self.arrive(now, at, out);
                }
            }
        }
    }

    fn register_more(&mut self, now: Instant, out: &mut Outbox) {
        loop {
            let Phase::Registering { next, done } = self.phase else { return };
            let count = u32::try_from(self.load.users.len()).unwrap_or(u32::MAX);
            if done == count {
                self.phase = Phase::Ready;
                return;
            }
            if self.attempts.len() >= SETUP_WINDOW {
                return;
            }
            if let Some(user) = self.cleared.pop() {
                self.start(now, now, Workload::Register, (user, user), Purpose::Register, out);
                continue;
            }
            if next == count {
                return;
            }
            self.phase = Phase::Registering { next: next + 1, done };
            let purpose = if self.load.clear_first { Purpose::Clear } else { Purpose::Register };
            self.start(now, now, Workload::Register, (next, next), purpose, out);
        }
    }

    fn arrive(&mut self, now: Instant, at: Instant, out: &mut Outbox) {
        let judged = at >= self.judged_from;
        self.counts.intended += 1;
        self.judged.intended += u64::from(judged);
        self.times.lateness.record(now - at);
        let workload = self.pick_workload();
        let users = u32::try_from(self.load.users.len()).unwrap_or(u32::MAX);
        let (caller, callee) = if matches!(workload, Workload::Register | Workload::Publish) {
            let place = self.sequential;
            self.sequential = (place + 1) % users;
            (place, place)
        } else {
            (self.dice.below(users), self.picker.pick(&mut self.dice))
        };
        if !self.start(now, at, workload, (caller, callee), Purpose::Load, out) {
            self.counts.shed += 1;
            self.judged.shed += u64::from(judged);
        }
    }

    fn pick_workload(&mut self) -> Workload {
        let mut left = if self.load.mix.len() > 1 { self.dice.below(self.mix_total) } else { 0 };
        for &(workload, weight) in &self.load.mix {
            if left < weight {
                return workload;
            }
            left -= weight;
        }
        Workload::Options
    }

    fn pick_target(&mut self) -> SocketAddr {
        let mut left = if self.load.targets.len() > 1 { self.dice.below(self.target_total) } else { 0 };
        let mut last = self.load.caller_addr;
        for target in &self.load.targets {
            last = target.addr;
            if left < target.weight {
                break;
            }
            left -= target.weight;
        }
        last
    }

    fn start(
        &mut self,
        now: Instant,
        at: Instant,
        workload: Workload,
        (caller, callee): (u32, u32),
        purpose: Purpose,
        out: &mut Outbox,
    ) -> bool {
        let setup = purpose != Purpose::Load;
        let judged = !setup && at >= self.judged_from;
        let target = self.pick_target();
        let cancels = self.load.cancel > 0.0 && !setup && workload.is_call();
        let cancels = cancels && self.dice.unit() < self.load.cancel;
        let attempt = Attempt {
            workload,
            state: State::Calling,
            setup,
            clearing: purpose == Purpose::Clear,
            judged,
            stained: false,
            rang: false,
            cancel: if cancels { Cancel::Wanted } else { Cancel::No },
            repeats: 0,
            step: step::FIRST,
            sequence: 1,
            caller,
            callee,
            target,
            intended: at,
            credentials: Box::default(),
            bye: Vec::new(),
            bye_peer: target,
        };
        let Some(token) = self.attempts.insert(attempt) else { return false };
        if !setup {
            self.counts.started += 1;
            self.judged.started += u64::from(judged);
            self.times.second.started += 1;
            if workload.is_call() {
                self.counts.invites += 1;
            } else {
                self.counts.singles += 1;
            }
        }
        self.send_first(token, out);
        self.timers.after(now, Delay::Limit, token, step::LIMIT);
        self.arm_repeat(now, token, setup, 0, step::FIRST);
        true
    }

    fn arm_repeat(&mut self, now: Instant, token: Token, setup: bool, repeats: u8, step: u8) {
        if self.load.retransmit != Retransmit::None || setup {
            self.timers.after(now, Delay::Repeat(repeats), token, step);
        }
    }

    /// Sends the first request as it stands now: again, or with credentials.
    fn send_first(&mut self, token: Token, out: &mut Outbox) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        let templates = if attempt.step == step::FIRST { &self.first } else { &self.again };
        // The request that clears comes after those of the workloads.
        let place = if attempt.clearing { Workload::ALL.len() } else { attempt.workload as usize };
        let Some(template) = templates.get(place) else { return };
        let filling = Filling {
            run: self.load.run,
            token,
            caller: name(&self.load, attempt.caller),
            callee: name(&self.load, attempt.callee),
            sequence: attempt.sequence,
            credentials: &attempt.credentials,
        };
        self.counts.sent += 1;
        out.write(Hop::udp(self.listener, attempt.target), |bytes| template.put(bytes, &filling));
    }

    /// Ends every call that is held, whatever is left of its time; for a run that is interrupted.
    pub fn stop(&mut self) {
        self.arrivals = None;
    }

    /// The longest that attempts may take after the last was begun: hold times by their spread, and both limits.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let repeats = if self.load.retransmit == Retransmit::Rfc3261 {
            Duration::from_secs(32)
        } else {
            Duration::ZERO
        };
        let hold = match self.load.hold {
            Hold::None => 0.0,
            Hold::Constant(seconds) => seconds,
            Hold::Normal(mean, deviation) => mean + 6.0 * deviation,
            Hold::Exponential(mean) => 12.0 * mean,
        };
        (self.load.within + repeats) * 2 + secs(hold) + Duration::from_secs(1)
    }
}

fn name(load: &Load, place: u32) -> &[u8] {
    load.users.get(place).map_or(&[], |user| user.name.as_bytes())
}
