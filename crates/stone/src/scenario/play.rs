//! Plays a scenario: many calls, each at its own step.
//!
//! Left out of what SIPp does on an unexpected message: it sends BYE or CANCEL by itself; here the call just fails.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;
use tandem_base::{HashKey, Instant, Map, Rng, map};
use tandem_sip::{Hop, ListenerId, Outbox};

use super::call::{Call, Setting};
use super::model::{Does, Expects, Length, Scenario};
use crate::arrivals::Arrivals;
use crate::calls::Table;
use crate::dice::{Dice, secs};
use crate::lines::{Lines, Name, Start, split};
use crate::tally::{Kinds, Latency};
use crate::timers::Timers;
use crate::token::Token;

/// Most messages of a call that are remembered to know a retransmission.
const SEEN_MAX: usize = 16;
/// Most calls remembered after their end.
const OVER_MAX: usize = 10_000;
/// Timer steps: one for repetition, others by the call's turn.
const REPEAT: u8 = 0;
/// RFC 3261 §17.1.1.1.
const T2: Duration = Duration::from_secs(4);
/// Repetitions before a call is given up, as SIPp's `-max_retrans`.
const REPEATS_MAX: u8 = 7;

/// What one step has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StepCounts {
    /// Messages sent or received, pauses and others passed.
    pub messages: u64,
    /// Messages sent or received again.
    pub retransmissions: u64,
    /// Timeouts, or checks that failed.
    pub failures: u64,
    /// Unexpected messages while waiting here.
    pub unexpected: u64,
}

/// All calls of a scenario.
#[derive(Debug)]
pub struct Player {
    scenario: Arc<Scenario>,
    setting: Setting,
    listener: ListenerId,
    calls: Table<Call>,
    by_id: Map<Vec<u8>, Token>,
    /// Of calls that are over, by Call-ID: the message sent last and the hashes of those received; and their order.
    over: Map<Vec<u8>, (Vec<u8>, Vec<u64>)>,
    over_order: VecDeque<Vec<u8>>,
    hash: HashKey,
    timers: Timers,
    dice: Dice,
    arrivals: Option<Arrivals>,
    pause: Duration,
    patience: Duration,
    number: u32,
    /// By step.
    pub steps: Vec<StepCounts>,
    /// Calls begun.
    pub started: u64,
    /// Calls that reached the end.
    pub succeeded: u64,
    /// Calls that did not.
    pub failed: u64,
    /// Calls that could not begin because too many were open.
    pub shed: u64,
    /// Messages of calls that were over.
    pub late: u64,
    /// Whole length of the successful calls.
    pub length: Latency,
    /// Unexpected messages.
    pub unexpected: Kinds,
}

/// What limits a player.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlayLimits {
    /// Most calls at once.
    pub calls_max: usize,
    /// Length of `<pause/>` without its own.
    pub pause: Duration,
    /// How long a `<recv>` without its own timeout waits.
    pub patience: Duration,
    /// The seed of all that is random.
    pub seed: u64,
}

impl Player {
    /// A player on one listener. A calling scenario begins calls as `arrivals` says.
    #[must_use]
    pub(crate) fn new(
        scenario: Arc<Scenario>,
        setting: Setting,
        listener: ListenerId,
        limits: PlayLimits,
    ) -> Self {
        let hash = HashKey::from_rng(&mut Rng::from_seed(limits.seed));
        Self {
            steps: vec![StepCounts::default(); scenario.steps.len()],
            scenario,
            setting,
            listener,
            calls: Table::new(limits.calls_max),
            by_id: map(hash),
            over: map(hash),
            over_order: VecDeque::new(),
            hash,
            timers: Timers::new(Duration::from_secs(2)),
            dice: Dice::new(limits.seed),
            arrivals: None,
            pause: limits.pause,
            patience: limits.patience,
            number: 0,
            started: 0,
            succeeded: 0,
            failed: 0,
            shed: 0,
            late: 0,
            length: Latency::default(),
            unexpected: Kinds::default(),
        }
    }

    pub(crate) fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    pub(crate) fn begin(&mut self, arrivals: Arrivals) {
        self.arrivals = Some(arrivals);
    }

    /// Whether no call is open and none will begin.
    pub(crate) fn is_done(&self) -> bool {
        self.calls.len() == 0 && self.arrivals.as_ref().is_none_or(|arrivals| arrivals.next().is_none())
    }

    pub(crate) fn stop(&mut self) {
        self.arrivals = None;
    }

    pub(crate) fn open(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        let arrival = self.arrivals.as_ref().and_then(Arrivals::next);
        [arrival, self.timers.next()].into_iter().flatten().min()
    }

    pub(crate) fn tick(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(due) = self.timers.pop(now) {
            self.due(now, due.token, due.step, out);
        }
        for _ in 0..32 {
            let at = self.arrivals.as_ref().and_then(Arrivals::next).filter(|at| *at <= now);
            let (Some(_), Some(arrivals)) = (at, &mut self.arrivals) else { break };
            arrivals.advance(&mut self.dice);
            self.number += 1;
            let id =
                format!("{}-{}@{}", self.number, std::process::id(), self.setting.local.ip()).into_bytes();
            match self.insert(now, id, self.setting.remote) {
                Some(token) => self.advance(now, token, out),
                None => self.shed += 1,
            }
        }
    }

    fn insert(&mut self, now: Instant, id: Vec<u8>, peer: SocketAddr) -> Option<Token> {
        let call = Call::new(id.clone(), self.number, peer, self.scenario.variables.len(), now);
        let token = self.calls.insert(call)?;
        self.by_id.insert(id, token);
        self.started += 1;
        Some(token)
    }

    fn due(&mut self, now: Instant, token: Token, turn: u8, out: &mut Outbox) {
        let scenario = Arc::clone(&self.scenario);
        let Some(call) = self.calls.get_mut(token) else { return };
        if turn == REPEAT {
            if call.awaits_answer {
                self.repeat(now, token, out);
            }
            return;
        }
        if turn != call.turn {
            return;
        }
        let place = call.step;
        match scenario.steps.get(place).map(|step| &step.does) {
            Some(Does::Pause(_)) => {
                self.pass(place);
                self.go_on(token, place);
                self.advance(now, token, out);
            }
            Some(Does::Receive { on_timeout, .. }) => {
                if let Some(to) = *on_timeout {
                    call.step = to;
                    self.count(place, |counts| counts.failures += 1);
                    self.advance(now, token, out);
                } else {
                    self.count(place, |counts| counts.failures += 1);
                    self.finish(now, token, Some("timeout in a recv"), b"");
                }
            }
            Some(Does::Send { .. } | Does::Nothing) | None => {}
        }
    }

    fn repeat(&mut self, now: Instant, token: Token, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(token) else { return };
        if call.repeats >= REPEATS_MAX {
            self.finish(now, token, Some("no answer to a repeated message"), b"");
            return;
        }
        call.repeats += 1;
        let delay = (Duration::from_millis(500) * 2_u32.pow(u32::from(call.repeats))).min(T2);
        out.send(Hop::udp(self.listener, call.peer), &call.sent);
        let place = call.step.saturating_sub(1);
        self.timers.at(now + delay, token, REPEAT);
        self.count(place, |counts| counts.retransmissions += 1);
    }

    fn count(&mut self, place: usize, how: impl FnOnce(&mut StepCounts)) {
        if let Some(counts) = self.steps.get_mut(place) {
            how(counts);
        }
    }

    fn pass(&mut self, place: usize) {
        self.count(place, |counts| counts.messages += 1);
    }

    /// Moves a call past the step at `place`.
    fn go_on(&mut self, token: Token, place: usize) {
        let scenario = Arc::clone(&self.scenario);
        let Some(call) = self.calls.get_mut(token) else { return };
        let Some(step) = scenario.steps.get(place) else { return };
        let tested = step.test.is_none_or(|variable| !call.variable(variable).is_empty());
        call.step = step.next.filter(|_| tested).unwrap_or(place + 1);
    }

    /// Does steps until the call waits or ends.
    fn advance(&mut self, now: Instant, token: Token, out: &mut Outbox) {
        let scenario = Arc::clone(&self.scenario);
        // A loop of labels without a wait in it must not hold up everything else.
        for _ in 0..1000 {
            let Some(call) = self.calls.get_mut(token) else { return };
            let place = call.step;
            let Some(step) = scenario.steps.get(place) else {
                self.finish(now, token, None, b"");
                return;
            };
            call.turn = call.turn.wrapping_add(1).max(1);
            let turn = call.turn;
            match &step.does {
                Does::Send { text, retrans } => {
                    let message = call.render(text, &self.setting, place);
                    let invites = message.starts_with(b"INVITE");
                    if !message.starts_with(b"ACK")
                        && !message.starts_with(b"SIP/2.0")
                        && !call.sent.is_empty()
                    {
                        call.cseq += u32::from(!invites);
                    }
                    out.send(Hop::udp(self.listener, call.peer), &message);
                    call.sent = message;
                    call.repeats = 0;
                    call.awaits_answer = retrans.is_some();
                    if let Some(retrans) = retrans {
                        self.timers.at(now + *retrans, token, REPEAT);
                    }
                    self.pass(place);
                }
                Does::Receive { timeout, .. } => {
                    self.timers.at(now + timeout.unwrap_or(self.patience), token, turn);
                    return;
                }
                Does::Pause(length) => {
                    let length = self.length_of(*length);
                    self.timers.at(now + length, token, turn);
                    return;
                }
                Does::Nothing => self.pass(place),
            }
            if !self.act(now, token, place) {
                return;
            }
            self.go_on(token, place);
        }
        self.finish(now, token, Some("a loop without a wait"), b"");
    }

    fn length_of(&mut self, length: Length) -> Duration {
        match length {
            Length::Default => self.pause,
            Length::Fixed(fixed) => fixed,
            Length::Uniform(min, max) => secs((min + (max - min) * self.dice.unit()) / 1e3),
            Length::Normal(mean, deviation) => secs(self.dice.normal(mean, deviation).max(0.0) / 1e3),
            Length::Exponential(mean) => secs(self.dice.exponential(mean) / 1e3),
        }
    }

    fn act(&mut self, now: Instant, token: Token, place: usize) -> bool {
        let scenario = Arc::clone(&self.scenario);
        let actions = scenario.steps.get(place).map(|step| step.actions.as_slice()).unwrap_or_default();
        for action in actions {
            let Some(call) = self.calls.get_mut(token) else { return false };
            if !call.act(action, &self.setting, place) {
                let sample = call.received.clone();
                self.count(place, |counts| counts.failures += 1);
                self.finish(now, token, Some("a check of an action failed"), &sample);
                return false;
            }
        }
        true
    }

    fn finish(&mut self, now: Instant, token: Token, failure: Option<&str>, sample: &[u8]) {
        let Some(call) = self.calls.remove(token) else { return };
        self.by_id.remove(&call.id);
        if self.over.len() == OVER_MAX
            && let Some(oldest) = self.over_order.pop_front()
        {
            self.over.remove(&oldest);
        }
        self.over_order.push_back(call.id.clone());
        self.over.insert(call.id, (call.sent, call.seen));
        match failure {
            None => {
                self.succeeded += 1;
                self.length.record(now - call.began);
            }
            Some(kind) => {
                self.failed += 1;
                self.unexpected.count(kind, sample);
            }
        }
    }

    pub(crate) fn receive(&mut self, now: Instant, peer: SocketAddr, message: &[u8], out: &mut Outbox) {
        let Some((start, lines)) = split(message) else {
            if !message.trim_ascii().is_empty() {
                self.unexpected.count("malformed", message);
            }
            return;
        };
        let Some(id) = lines.into_iter().find(|line| line.name == Name::CallId).map(|line| line.value) else {
            self.unexpected.count("without Call-ID", message);
            return;
        };
        let known = self.by_id.get(id).copied();
        if known.is_none()
            && let Some((sent, seen)) = self.over.get(id)
            && seen.contains(&self.hash.hash64(&[message]))
        {
            // A repetition in a call that is over: our last message was lost.
            self.late += 1;
            let owed = match start {
                Start::Request { method, .. } => method != b"ACK" && sent.starts_with(b"SIP/2.0"),
                Start::Response { .. } => sent.starts_with(b"ACK"),
            };
            if owed {
                out.send(Hop::udp(self.listener, peer), sent);
            }
            return;
        }
        let fresh = known.is_none()
            && !self.scenario.calls()
            && matches!(start, Start::Request { method, .. } if method != b"ACK");
        let token = match known {
            Some(token) => token,
            None if fresh => {
                self.number += 1;
                let Some(token) = self.insert(now, id.to_vec(), peer) else {
                    self.shed += 1;
                    return;
                };
                token
            }
            None => {
                self.unexpected.count("outside any call", message);
                return;
            }
        };
        if fresh {
            self.advance(now, token, out);
        }
        self.in_call(now, token, peer, start, lines, message, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one received message")]
    fn in_call(
        &mut self,
        now: Instant,
        token: Token,
        peer: SocketAddr,
        start: Start<'_>,
        lines: Lines<'_>,
        message: &[u8],
        out: &mut Outbox,
    ) {
        let scenario = Arc::clone(&self.scenario);
        let hash = self.hash.hash64(&[message]);
        let Some(call) = self.calls.get_mut(token) else { return };
        if call.seen.contains(&hash) {
            let answered = !call.sent.is_empty() && !matches!(start, Start::Response { status: 100..200 });
            if answered {
                out.send(Hop::udp(self.listener, call.peer), &call.sent);
            }
            let place = call.step.saturating_sub(1);
            self.count(place, |counts| counts.retransmissions += 1);
            return;
        }
        let mut place = call.step;
        let found = loop {
            let Some(Does::Receive { expects, optional, routes, auth, .. }) =
                scenario.steps.get(place).map(|step| &step.does)
            else {
                break None;
            };
            if matches(expects, start, lines, call.sent_method()) {
                break Some((place, *routes, *auth, *optional));
            }
            if !optional {
                break None;
            }
            place += 1;
        };
        let Some((place, routes, auth, optional)) = found else {
            let at = call.step;
            let kind = match start {
                Start::Response { status } => format!("{status} not expected"),
                Start::Request { method, .. } => {
                    format!("{} not expected", String::from_utf8_lossy(method.get(..16).unwrap_or(method)))
                }
            };
            self.count(at, |counts| counts.unexpected += 1);
            self.finish(now, token, Some(&kind), message);
            return;
        };
        if call.seen.len() == SEEN_MAX {
            call.seen.remove(0);
        }
        call.seen.push(hash);
        if !self.scenario.calls() {
            call.peer = peer;
        }
        call.awaits_answer = false;
        call.learn(message, routes, auth);
        self.pass(place);
        if !self.act(now, token, place) {
            return;
        }
        // An optional message without a jump leaves the call where it waits: the next may be the one that is due.
        let jumps = scenario.steps.get(place).is_some_and(|step| step.next.is_some());
        if optional && !jumps {
            return;
        }
        self.go_on(token, place);
        self.advance(now, token, out);
    }
}

fn matches(expects: &Expects, start: Start<'_>, lines: Lines<'_>, sent_method: &[u8]) -> bool {
    match (expects, start) {
        (Expects::Request(wanted), Start::Request { method, .. }) => wanted.as_bytes() == method,
        (Expects::Response(wanted), Start::Response { status }) => {
            *wanted == status
                && lines.into_iter().any(|line| line.name == Name::CSeq && line.value.ends_with(sent_method))
        }
        (Expects::Request(_), Start::Response { .. }) | (Expects::Response(_), Start::Request { .. }) => {
            false
        }
    }
}
