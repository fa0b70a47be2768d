//! The calling end: begins attempts when they are due, whatever became of the earlier ones, and judges each.
//!
//! An attempt succeeds as SIPstone says: the wanted final answer to each of its requests within the limit (2 s) and
//! nothing unexpected. Time counts from the *intended* start, so that a late generator shows in the latencies instead
//! of hiding in them. RFC 3261 §17.1 for repetitions, §13.2.2.4 and §17.1.1.3 for ACK, §22.2 for credentials.
//! Left out: CANCEL of what took too long; in SIPstone the attempt is just over.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use tandem_base::Instant;
use tandem_sip::{Hop, ListenerId, Outbox};

use crate::arrivals::Arrivals;
use crate::calls::Table;
use crate::dialog::{Dialog, Hops, Ours, Within};
use crate::dice::{Dice, secs};
use crate::digest::{Challenged, credentials};
use crate::lines::{Lines, Name, Start, param, split};
use crate::load::{Hold, InDialog, Load, Retransmit, Workload};
use crate::messages::{clearing, request};
use crate::reply::{Reply, Source};
use crate::tally::{CallerCounts, Kinds};
use crate::template::{Filling, Template};
use crate::timers::{Delay, Timers};
use crate::times::Times;
use crate::token::{MARK, Token};
use crate::users::Picker;

/// Most attempts begun in one turn, so that answers are read in between.
const BEGIN_MAX: usize = 32;
/// Registrations in flight while users are registered.
const SETUP_WINDOW: usize = 32;

/// The last byte of a branch: which request of an attempt it belongs to.
mod step {
    /// The first request, and the first with credentials.
    pub(super) const FIRST: u8 = b'i';
    pub(super) const AGAIN: u8 = b'j';
    pub(super) const ACK: u8 = b'a';
    pub(super) const BYE: u8 = b'b';
    /// Not branches but deadlines: end of the hold time, limit of the first request and of the BYE.
    pub(super) const HOLD: u8 = b'h';
    pub(super) const LIMIT: u8 = b'L';
    pub(super) const BYE_LIMIT: u8 = b'M';
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The first request is out, nothing came.
    Calling,
    /// A provisional answer came.
    Proceeding,
    /// The call is up.
    Holding,
    /// The BYE is out.
    Ending,
}

/// One attempt in progress.
#[derive(Debug)]
struct Attempt {
    workload: Workload,
    state: State,
    /// Belongs to the preparation, not to the load.
    setup: bool,
    /// Part of that: it removes what earlier runs left.
    clearing: bool,
    /// Begun after the warm-up.
    judged: bool,
    /// Something unexpected or late came; it cannot succeed any more.
    stained: bool,
    rang: bool,
    repeats: u8,
    step: u8,
    sequence: u32,
    caller: u32,
    callee: u32,
    target: SocketAddr,
    /// Intended start of the request in progress.
    intended: Instant,
    credentials: Box<[u8]>,
    /// The BYE, from the answer until it is answered itself.
    bye: Vec<u8>,
    bye_peer: SocketAddr,
}

/// What an attempt is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// It is part of the load.
    Load,
    /// It removes bindings that earlier runs left.
    Clear,
    /// It registers a user before the load.
    Register,
}

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
        let attempt = Attempt {
            workload,
            state: State::Calling,
            setup,
            clearing: purpose == Purpose::Clear,
            judged,
            stained: false,
            rang: false,
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

    fn due(&mut self, now: Instant, token: Token, step: u8, out: &mut Outbox) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        match (step, attempt.state) {
            (step::FIRST | step::AGAIN, State::Calling) if attempt.step == step => {
                let setup = attempt.setup;
                attempt.repeats += 1;
                let repeats = attempt.repeats;
                self.counts.retransmissions += 1;
                self.send_first(token, out);
                self.arm_repeat(now, token, setup, repeats, step);
            }
            // RFC 3261 §17.1.2.2: a request other than INVITE is repeated in Proceeding too, every T2.
            (step::FIRST | step::AGAIN, State::Proceeding)
                if attempt.step == step && attempt.workload.method() != "INVITE" =>
            {
                self.counts.retransmissions += 1;
                self.send_first(token, out);
                self.arm_repeat(now, token, false, 3, step);
            }
            (step::BYE, State::Ending) => {
                attempt.repeats += 1;
                let repeats = attempt.repeats.min(3);
                self.counts.retransmissions += 1;
                self.counts.sent += 1;
                out.send(Hop::udp(self.listener, attempt.bye_peer), &attempt.bye);
                self.arm_repeat(now, token, false, repeats, step::BYE);
            }
            (step::HOLD, State::Holding) => self.hang_up(now, due_time(now), token, out),
            (step::LIMIT, State::Calling | State::Proceeding) | (step::BYE_LIMIT, State::Ending) => {
                // A proxy that rings is not late yet: only the final answer is, and SIPstone does not wait for it.
                if self.load.retransmit == Retransmit::Rfc3261 && !attempt.stained && !attempt.setup {
                    attempt.stained = true;
                    self.timers.after(now, Delay::GiveUp, token, step);
                } else {
                    let late = if step == step::LIMIT { attempt.workload.method() } else { "BYE" };
                    let kind = format!("no final answer to {late} in time");
                    self.fail(token, Failure::TimedOut, &kind, b"");
                }
            }
            (_, State::Calling | State::Proceeding | State::Holding | State::Ending) => {}
        }
    }

    /// Takes one datagram.
    pub fn receive(&mut self, now: Instant, peer: SocketAddr, message: &[u8], out: &mut Outbox) {
        self.counts.received += 1;
        match split(message) {
            Some((Start::Response { status }, lines)) => self.response(now, status, lines, message, out),
            Some((Start::Request { method, .. }, lines)) => {
                if method != b"NOTIFY" {
                    let kind = format!(
                        "{} at the calling end",
                        String::from_utf8_lossy(method.get(..16).unwrap_or(method))
                    );
                    self.unexpected.count(&kind, message);
                }
                if method != b"ACK" {
                    let reply = Reply {
                        status_line: b"SIP/2.0 200 OK",
                        tag: b"stn-other",
                        routes: false,
                        contacts: false,
                        rest: b"Content-Length: 0\r\n\r\n",
                    };
                    self.counts.sent += 1;
                    out.write(Hop::udp(self.listener, peer), |bytes| {
                        self.source.put(bytes, lines, peer, &reply)
                    });
                }
            }
            None if message.trim_ascii().is_empty() => {} // a keep-alive (RFC 5626 §3.5.1)
            None => self.unexpected.count("malformed", message),
        }
    }

    fn response(&mut self, now: Instant, status: u16, lines: Lines<'_>, message: &[u8], out: &mut Outbox) {
        let branch =
            lines.into_iter().find(|line| line.name == Name::Via).and_then(|via| param(via.value, b"branch"));
        let Some(branch) = branch.and_then(|branch| branch.strip_prefix(b"z9hG4bK")) else {
            self.unexpected.count("answer without our Via", message);
            return;
        };
        let Some((token, &[step])) = Token::take(branch, self.load.run) else {
            let other_run = branch.starts_with(MARK);
            self.counts.stragglers += u64::from(other_run);
            if !other_run {
                self.unexpected.count("answer without our Via", message);
            }
            return;
        };
        let Some(attempt) = self.attempts.get_mut(token) else {
            self.straggler(status, token, step, lines, out);
            return;
        };
        let first = step == attempt.step;
        match (step, attempt.state, status) {
            (step::FIRST | step::AGAIN, State::Calling | State::Proceeding, 100..200) if first => {
                attempt.state = State::Proceeding;
                if status > 100 && !attempt.rang {
                    attempt.rang = true;
                    let intended = attempt.intended;
                    self.times.ringing.record(now - intended);
                }
            }
            (step::FIRST | step::AGAIN, State::Calling | State::Proceeding, 200..300) if first => {
                if attempt.workload.is_call() {
                    self.answered(now, token, lines, message, out);
                } else if attempt.workload == Workload::Redirect {
                    self.acknowledge(token, step, lines, message, out);
                    self.fail(
                        token,
                        Failure::Refused,
                        &format!("{status} to INVITE instead of 3xx"),
                        message,
                    );
                } else {
                    self.succeed_single(now, token);
                }
            }
            (step::FIRST, State::Calling | State::Proceeding, 401 | 407)
                if first && has_password(&self.load, attempt.caller) =>
            {
                self.authenticate(now, token, status, lines, message, out);
            }
            (step::FIRST | step::AGAIN, State::Calling | State::Proceeding, _) if first => {
                let (workload, method) = (attempt.workload, attempt.workload.method());
                if method == "INVITE" {
                    self.refuse_ack(token, step, lines, out);
                }
                if workload == Workload::Redirect && (300..400).contains(&status) {
                    self.succeed_single(now, token);
                } else {
                    self.fail(token, Failure::Refused, &format!("{status} to {method}"), message);
                }
            }
            (step::FIRST | step::AGAIN, State::Holding | State::Ending, 200..300) => {
                self.counts.repeated_answers += 1;
                self.acknowledge(token, step, lines, message, out);
            }
            (step::FIRST | step::AGAIN, _, _) => {
                self.counts.repeated_answers += 1; // the answer to the challenged request again, or a late provisional
                if status >= 300 && attempt.workload.method() == "INVITE" {
                    self.refuse_ack(token, step, lines, out);
                }
            }
            (step::BYE, State::Ending, 200..300) => self.ended(now, token),
            (step::BYE, State::Ending, 100..200) => {}
            (step::BYE, State::Ending, _) => {
                self.fail(token, Failure::Refused, &format!("{status} to BYE"), message)
            }
            (_, State::Calling | State::Proceeding | State::Holding | State::Ending, _) => {
                attempt.stained = true;
                self.unexpected.count(&format!("{status} to something not sent"), message);
            }
        }
    }

    /// An answer to an attempt that is over: a 2xx to INVITE still wants its ACK, so that the answering end rests.
    fn straggler(&mut self, status: u16, token: Token, step: u8, lines: Lines<'_>, out: &mut Outbox) {
        self.counts.stragglers += 1;
        let invite = lines.into_iter().any(|line| line.name == Name::CSeq && line.value.ends_with(b"INVITE"));
        if !invite || !matches!(step, step::FIRST | step::AGAIN) || !(200..300).contains(&status) {
            return;
        }
        let Some(dialog) = Dialog::of(lines) else { return };
        let sequence = if step == step::FIRST { 1 } else { 2 };
        let from = lines.into_iter().find(|line| line.name == Name::From);
        let caller = from.and_then(|from| crate::lines::uri_of(from.value)).map(user_of).unwrap_or_default();
        let hop = Hop::udp(self.listener, self.next_hop(&dialog, None));
        let within = Within { method: b"ACK", token, step: step::ACK, sequence, caller };
        self.counts.sent += 1;
        out.write(hop, |bytes| dialog.put(bytes, &self.ours, &within));
    }

    fn next_hop(&mut self, dialog: &Dialog<'_>, target: Option<SocketAddr>) -> SocketAddr {
        let target = target
            .or_else(|| self.load.targets.first().map(|target| target.addr))
            .unwrap_or(self.load.caller_addr);
        match self.load.in_dialog {
            InDialog::Target => target,
            InDialog::Route => self.hops.resolve(dialog.next_hop()).unwrap_or(target),
        }
    }

    /// The 200 to an INVITE: ACK, then BYE at once or after the hold time.
    fn answered(&mut self, now: Instant, token: Token, lines: Lines<'_>, message: &[u8], out: &mut Outbox) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        let Some(dialog) = Dialog::of(lines) else {
            self.fail(token, Failure::Refused, "200 to INVITE without To or Contact", message);
            return;
        };
        let (caller, target, sequence) = (attempt.caller, attempt.target, attempt.sequence);
        let setup_time = now - attempt.intended;
        attempt.state = State::Holding;
        attempt.stained |= setup_time > self.load.within;
        let judged = attempt.judged;
        self.counts.answered += 1;
        if judged {
            self.times.setup.record(setup_time);
        }
        self.times.second.setup.record(setup_time);
        let peer = self.next_hop(&dialog, Some(target));
        let hop = Hop::udp(self.listener, peer);
        let load = Arc::clone(&self.load);
        let caller = name(&load, caller);
        self.counts.sent += 1;
        let within = Within { method: b"ACK", token, step: step::ACK, sequence, caller };
        out.write(hop, |bytes| dialog.put(bytes, &self.ours, &within));
        let within = Within { method: b"BYE", step: step::BYE, sequence: sequence + 1, ..within };
        let mut bye = self.spare.pop().unwrap_or_default();
        dialog.put(&mut bye, &self.ours, &within);
        let hold = self.load.hold.draw(&mut self.dice);
        if let Some(attempt) = self.attempts.get_mut(token) {
            attempt.bye = bye;
            attempt.bye_peer = peer;
        }
        if hold.is_zero() {
            self.hang_up(now, now, token, out);
        } else {
            self.timers.at(now + hold, token, step::HOLD);
        }
    }

    fn hang_up(&mut self, now: Instant, intended: Instant, token: Token, out: &mut Outbox) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        attempt.state = State::Ending;
        attempt.intended = intended;
        attempt.repeats = 0;
        self.counts.byes += 1;
        self.counts.sent += 1;
        out.send(Hop::udp(self.listener, attempt.bye_peer), &attempt.bye);
        self.timers.after(now, Delay::Limit, token, step::BYE_LIMIT);
        self.arm_repeat(now, token, false, 0, step::BYE);
    }

    /// ACK again, for a 200 that came again.
    fn acknowledge(&mut self, token: Token, _step: u8, lines: Lines<'_>, message: &[u8], out: &mut Outbox) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        let (caller, target, sequence) = (attempt.caller, attempt.target, attempt.sequence);
        let Some(dialog) = Dialog::of(lines) else {
            self.unexpected.count("200 to INVITE without To or Contact", message);
            return;
        };
        let peer = self.next_hop(&dialog, Some(target));
        self.counts.sent += 1;
        let caller = name(&self.load, caller);
        let hop = Hop::udp(self.listener, peer);
        let within = Within { method: b"ACK", token, step: step::ACK, sequence, caller };
        out.write(hop, |bytes| dialog.put(bytes, &self.ours, &within));
    }

    /// ACK for an answer of 300 and above (RFC 3261 §17.1.1.3).
    fn refuse_ack(&mut self, token: Token, step: u8, lines: Lines<'_>, out: &mut Outbox) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        let Some(to) = lines.into_iter().find(|line| line.name == Name::To) else { return };
        let callee = name(&self.load, attempt.callee);
        let mut uri = b"sip:".to_vec();
        uri.extend_from_slice(callee);
        uri.push(b'@');
        match attempt.workload {
            Workload::Outbound => uri.extend_from_slice(self.load.callee_addr.to_string().as_bytes()),
            Workload::Proxy200
            | Workload::Redirect
            | Workload::Register
            | Workload::Options
            | Workload::Message
            | Workload::Subscribe
            | Workload::Publish => uri.extend_from_slice(self.load.domain.as_bytes()),
        }
        let sequence = if step == step::FIRST { 1 } else { 2 };
        let caller = name(&self.load, attempt.caller);
        self.counts.sent += 1;
        let hop = Hop::udp(self.listener, attempt.target);
        let within = Within { method: b"ACK", token, step, sequence, caller };
        out.write(hop, |bytes| self.ours.put_refusal_ack(bytes, &uri, to.whole, &within));
    }

    fn authenticate(
        &mut self,
        now: Instant,
        token: Token,
        status: u16,
        lines: Lines<'_>,
        message: &[u8],
        out: &mut Outbox,
    ) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        let method = attempt.workload.method();
        let wanted = if status == 401 { Name::WwwAuthenticate } else { Name::ProxyAuthenticate };
        let uri = match attempt.workload {
            Workload::Register | Workload::Options => format!("sip:{}", self.load.domain),
            Workload::Outbound => {
                format!("sip:{}@{}", utf8(name(&self.load, attempt.callee)), self.load.callee_addr)
            }
            Workload::Publish => {
                format!("sip:{}@{}", utf8(name(&self.load, attempt.caller)), self.load.domain)
            }
            Workload::Proxy200 | Workload::Redirect | Workload::Message | Workload::Subscribe => {
                format!("sip:{}@{}", utf8(name(&self.load, attempt.callee)), self.load.domain)
            }
        };
        let user = self.load.users.get(attempt.caller);
        let cnonce = self.dice.below(u32::MAX);
        let challenges = lines.into_iter().filter(|line| line.name == wanted).map(|line| line.value);
        let answer = user.and_then(|user| {
            credentials(challenges, &Challenged { proxy: status == 407, method, uri: &uri, user, cnonce })
        });
        if method == "INVITE" {
            self.refuse_ack(token, step::FIRST, lines, out);
        }
        let Some(answer) = answer else {
            self.fail(
                token,
                Failure::Refused,
                &format!("{status} to {method} with no challenge we can answer"),
                message,
            );
            return;
        };
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        attempt.credentials = answer;
        attempt.step = step::AGAIN;
        attempt.sequence = 2;
        attempt.state = State::Calling;
        attempt.repeats = 0;
        let setup = attempt.setup;
        self.counts.challenges += 1;
        self.send_first(token, out);
        self.arm_repeat(now, token, setup, 0, step::AGAIN);
    }

    fn ended(&mut self, now: Instant, token: Token) {
        let Some(mut attempt) = self.attempts.remove(token) else { return };
        let time = now - attempt.intended;
        self.counts.ended += 1;
        if attempt.judged {
            self.times.bye.record(time);
        }
        let late = attempt.stained || time > self.load.within;
        self.judge(&attempt, if late { Some(Failure::Late) } else { None });
        self.give_back(core::mem::take(&mut attempt.bye));
    }

    fn succeed_single(&mut self, now: Instant, token: Token) {
        let Some(attempt) = self.attempts.remove(token) else { return };
        if attempt.clearing {
            self.cleared.push(attempt.caller);
            return;
        }
        if attempt.setup {
            self.setup_over(true);
            return;
        }
        let time = now - attempt.intended;
        self.counts.single_answers += 1;
        if attempt.judged {
            self.times.single.entry(attempt.workload).or_default().record(time);
        }
        self.times.second.setup.record(time);
        let late = attempt.stained || time > self.load.within;
        self.judge(&attempt, if late { Some(Failure::Late) } else { None });
    }

    fn fail(&mut self, token: Token, failure: Failure, kind: &str, sample: &[u8]) {
        let Some(mut attempt) = self.attempts.remove(token) else { return };
        if attempt.clearing && failure == Failure::Refused {
            self.cleared.push(attempt.caller); // a registrar may refuse `*`; the binding itself is what counts
            return;
        }
        self.unexpected.count(kind, sample);
        if attempt.setup {
            self.setup_over(false);
            return;
        }
        self.judge(&attempt, Some(failure));
        self.give_back(core::mem::take(&mut attempt.bye));
    }

    fn setup_over(&mut self, ok: bool) {
        self.setup_failed += u32::from(!ok);
        if let Phase::Registering { done, .. } = &mut self.phase {
            *done += 1;
        }
    }

    fn judge(&mut self, attempt: &Attempt, failure: Option<Failure>) {
        let count = |counts: &mut CallerCounts| {
            counts.succeeded += u64::from(failure.is_none());
            counts.failed += u64::from(failure.is_some());
            counts.timed_out += u64::from(failure == Some(Failure::TimedOut));
            counts.refused += u64::from(failure == Some(Failure::Refused));
            counts.late += u64::from(failure == Some(Failure::Late));
        };
        count(&mut self.counts);
        if attempt.judged {
            count(&mut self.judged);
        }
        self.times.second.succeeded += u64::from(failure.is_none());
        self.times.second.failed += u64::from(failure.is_some());
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.spare.len() < 4096 {
            buffer.clear();
            self.spare.push(buffer);
        }
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    TimedOut,
    Refused,
    Late,
}

/// Hold times end when they end; the turn's `now` is at most one turn later.
const fn due_time(now: Instant) -> Instant {
    now
}

fn name(load: &Load, place: u32) -> &[u8] {
    load.users.get(place).map_or(&[], |user| user.name.as_bytes())
}

fn has_password(load: &Load, place: u32) -> bool {
    load.users.get(place).is_some_and(|user| !user.password.is_empty())
}

fn utf8(name: &[u8]) -> &str {
    core::str::from_utf8(name).unwrap_or_default()
}

/// The user part of a URI, or nothing.
fn user_of(uri: &[u8]) -> &[u8] {
    let rest = memchr::memchr(b':', uri).and_then(|colon| uri.get(colon + 1..)).unwrap_or_default();
    memchr::memchr(b'@', rest).and_then(|at| rest.get(..at)).unwrap_or_default()
}
