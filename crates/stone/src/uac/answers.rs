//! What comes to the calling end, and what it means for the attempt it belongs to (RFC 3261 §17.1, §8.1.3.3).

use core::net::SocketAddr;

use tandem_base::Instant;
use tandem_sip::{Hop, Outbox};

use super::Uac;
use super::attempt::{Cancel, Failure, State, step};
use crate::lines::{Lines, Name, Start, param, split};
use crate::load::{Load, Workload};
use crate::reply::Reply;
use crate::token::{MARK, Token};

impl Uac {
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

    pub(super) fn response(
        &mut self,
        now: Instant,
        status: u16,
        lines: Lines<'_>,
        message: &[u8],
        out: &mut Outbox,
    ) {
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
        if self.answers_cancel(token, lines) {
            return;
        }
        let Some(attempt) = self.attempts.get_mut(token) else {
            self.straggler(status, token, step, lines, out);
            return;
        };
        let first = step == attempt.step;
        match (step, attempt.state, status) {
            (step::FIRST | step::AGAIN, State::Calling | State::Proceeding, 100..200) if first => {
                let may_cancel = attempt.state == State::Calling && attempt.cancel == Cancel::Wanted;
                attempt.state = State::Proceeding;
                if status > 100 && !attempt.rang {
                    attempt.rang = true;
                    let intended = attempt.intended;
                    self.times.ringing.record(now - intended);
                }
                if may_cancel {
                    self.may_cancel(now, token);
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
                if self.is_cancelled(token, status) {
                    self.cancelled(token);
                } else if workload == Workload::Redirect && (300..400).contains(&status) {
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
}

fn has_password(load: &Load, place: u32) -> bool {
    load.users.get(place).is_some_and(|user| !user.password.is_empty())
}
