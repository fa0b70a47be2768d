//! The calls that are cancelled before their answer (RFC 3261 §9.1): a CANCEL after the first provisional answer, again
//! until it is answered; then 487, or the 200 that was faster.

use core::time::Duration;
use std::sync::Arc;

use tandem_base::Instant;
use tandem_sip::{Hop, Outbox};

use super::attempt::{Cancel, State, step};
use super::call::first_uri;
use super::{Uac, name};
use crate::dialog::Within;
use crate::lines::{Lines, Name};
use crate::timers::Delay;
use crate::token::Token;

/// A CANCEL leaves so long after the first provisional answer at the latest: some cross the 200.
const CANCEL_WITHIN_MS: u32 = 250;

impl Uac {
    /// The first provisional answer came: from now on a CANCEL is allowed.
    pub(super) fn may_cancel(&mut self, now: Instant, token: Token) {
        let wait = Duration::from_millis(u64::from(self.dice.below(CANCEL_WITHIN_MS)));
        self.timers.at(now + wait, token, step::CANCEL_AT);
    }

    /// Sends the CANCEL, for the first time or again.
    pub(super) fn cancel(&mut self, now: Instant, token: Token, out: &mut Outbox) {
        let load = Arc::clone(&self.load);
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        let repeats = match attempt.cancel {
            Cancel::Wanted => 0,
            Cancel::Sent(repeats) => repeats.saturating_add(1),
            Cancel::No | Cancel::Heard => return,
        };
        attempt.cancel = Cancel::Sent(repeats);
        let callee = String::from_utf8_lossy(name(&load, attempt.callee));
        let to = format!("To: <sip:{callee}@{}>\r\n", load.domain);
        let within = Within {
            method: b"CANCEL",
            token,
            step: attempt.step,
            sequence: attempt.sequence,
            caller: name(&load, attempt.caller),
        };
        let (workload, target) = (attempt.workload, attempt.target);
        let uri = first_uri(&load, workload, callee.as_bytes());
        self.counts.sent += 1;
        if repeats == 0 {
            self.counts.cancels += 1;
        } else {
            self.counts.retransmissions += 1;
        }
        let hop = Hop::udp(self.listener, target);
        out.write(hop, |bytes| self.ours.put_beside(bytes, &uri, to.as_bytes(), &within));
        self.timers.after(now, Delay::Repeat(repeats.min(3)), token, step::CANCEL);
    }

    /// Whether an answer is one to our CANCEL, which has the INVITE's branch.
    pub(super) fn answers_cancel(&mut self, token: Token, lines: Lines<'_>) -> bool {
        let Some(attempt) = self.attempts.get_mut(token) else { return false };
        if !matches!(attempt.cancel, Cancel::Sent(_) | Cancel::Heard) {
            return false;
        }
        let is_cancel =
            |line: crate::lines::Line<'_>| line.name == Name::CSeq && line.value.ends_with(b"CANCEL");
        let is_ours = lines.into_iter().any(is_cancel);
        if is_ours {
            attempt.cancel = Cancel::Heard;
        }
        is_ours
    }

    /// The 487 that we asked for: the call ended as it should.
    pub(super) fn is_cancelled(&mut self, token: Token, status: u16) -> bool {
        let asked = self.attempts.get_mut(token).is_some_and(|attempt| {
            matches!(attempt.cancel, Cancel::Sent(_) | Cancel::Heard)
                && matches!(attempt.state, State::Calling | State::Proceeding)
        });
        asked && status == 487
    }
}
