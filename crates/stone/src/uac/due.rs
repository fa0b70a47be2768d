//! Deadlines of attempts: repetitions (RFC 3261 §17.1.1.2, §17.1.2.2), the end of hold times, the success limit.

use tandem_base::Instant;
use tandem_sip::{Hop, Outbox};

use super::Uac;
use super::attempt::{Failure, State, step};
use crate::load::Retransmit;
use crate::timers::Delay;
use crate::token::Token;

impl Uac {
    pub(super) fn due(&mut self, now: Instant, token: Token, step: u8, out: &mut Outbox) {
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
            (step::CANCEL_AT | step::CANCEL, State::Proceeding) => self.cancel(now, token, out),
            (step::HOLD, State::Holding) => self.hang_up(now, now, token, out),
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
}
