//! A call after its answer: ACK, hold time, BYE (RFC 3261 §13.2.2.4, §15.1.1, §17.1.1.3).

use core::net::SocketAddr;
use std::sync::Arc;

use tandem_base::Instant;
use tandem_sip::{Hop, Outbox};

use super::attempt::{Failure, State, step};
use super::{Uac, name};
use crate::dialog::{Dialog, Within};
use crate::lines::{Lines, Name};
use crate::load::{InDialog, Load, Workload};
use crate::timers::Delay;
use crate::token::Token;

impl Uac {
    /// An answer to an attempt that is over: a final answer to INVITE still wants its ACK, so that the answering end
    /// rests.
    pub(super) fn straggler(
        &mut self,
        status: u16,
        token: Token,
        step: u8,
        lines: Lines<'_>,
        out: &mut Outbox,
    ) {
        self.counts.stragglers += 1;
        let invite = lines.into_iter().any(|line| line.name == Name::CSeq && line.value.ends_with(b"INVITE"));
        if !invite || !matches!(step, step::FIRST | step::AGAIN) || status < 200 {
            return;
        }
        let sequence = if step == step::FIRST { 1 } else { 2 };
        let user = |name| {
            let found = lines.into_iter().find(|line| line.name == name);
            found.and_then(|line| crate::lines::uri_of(line.value)).map(user_of).unwrap_or_default()
        };
        let caller = user(Name::From);
        if status >= 300 {
            let Some(to) = lines.into_iter().find(|line| line.name == Name::To) else { return };
            let workload = self.load.mix.first().map_or(Workload::Proxy200, |&(workload, _)| workload);
            let uri = first_uri(&self.load, workload, user(Name::To));
            let target = self.load.targets.first().map_or(self.load.caller_addr, |target| target.addr);
            let within = Within { method: b"ACK", token, step, sequence, caller };
            self.counts.sent += 1;
            let hop = Hop::udp(self.listener, target);
            out.write(hop, |bytes| self.ours.put_beside(bytes, &uri, to.whole, &within));
            return;
        }
        let Some(dialog) = Dialog::of(lines) else { return };
        let hop = Hop::udp(self.listener, self.next_hop(&dialog, None));
        let within = Within { method: b"ACK", token, step: step::ACK, sequence, caller };
        self.counts.sent += 1;
        out.write(hop, |bytes| dialog.put(bytes, &self.ours, &within));
    }

    pub(super) fn next_hop(&mut self, dialog: &Dialog<'_>, target: Option<SocketAddr>) -> SocketAddr {
        let target = target
            .or_else(|| self.load.targets.first().map(|target| target.addr))
            .unwrap_or(self.load.caller_addr);
        match self.load.in_dialog {
            InDialog::Target => target,
            InDialog::Route => self.hops.resolve(dialog.next_hop()).unwrap_or(target),
        }
    }

    /// The 200 to an INVITE: ACK, then BYE at once or after the hold time.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        token: Token,
        lines: Lines<'_>,
        message: &[u8],
        out: &mut Outbox,
    ) {
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

    pub(super) fn hang_up(&mut self, now: Instant, intended: Instant, token: Token, out: &mut Outbox) {
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
    pub(super) fn acknowledge(
        &mut self,
        token: Token,
        _step: u8,
        lines: Lines<'_>,
        message: &[u8],
        out: &mut Outbox,
    ) {
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
    pub(super) fn refuse_ack(&mut self, token: Token, step: u8, lines: Lines<'_>, out: &mut Outbox) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        let Some(to) = lines.into_iter().find(|line| line.name == Name::To) else { return };
        let callee = name(&self.load, attempt.callee);
        let uri = first_uri(&self.load, attempt.workload, callee);
        let sequence = if step == step::FIRST { 1 } else { 2 };
        let caller = name(&self.load, attempt.caller);
        self.counts.sent += 1;
        let hop = Hop::udp(self.listener, attempt.target);
        let within = Within { method: b"ACK", token, step, sequence, caller };
        out.write(hop, |bytes| self.ours.put_beside(bytes, &uri, to.whole, &within));
    }
}

/// The Request-URI of the INVITE to a user.
pub(super) fn first_uri(load: &Load, workload: Workload, callee: &[u8]) -> Vec<u8> {
    let mut uri = b"sip:".to_vec();
    uri.extend_from_slice(callee);
    uri.push(b'@');
    match workload {
        Workload::Outbound => uri.extend_from_slice(load.callee_addr.to_string().as_bytes()),
        Workload::Proxy200
        | Workload::Redirect
        | Workload::Register
        | Workload::Options
        | Workload::Message
        | Workload::Subscribe
        | Workload::Publish => uri.extend_from_slice(load.domain.as_bytes()),
    }
    uri
}

/// The user part of a URI, or nothing.
fn user_of(uri: &[u8]) -> &[u8] {
    let rest = memchr::memchr(b':', uri).and_then(|colon| uri.get(colon + 1..)).unwrap_or_default();
    memchr::memchr(b'@', rest).and_then(|at| rest.get(..at)).unwrap_or_default()
}
