//! The end of an attempt: what it is counted as.

use tandem_base::Instant;

use super::attempt::{Attempt, Failure};
use super::{Phase, Uac};
use crate::tally::CallerCounts;
use crate::token::Token;

impl Uac {
    pub(super) fn ended(&mut self, now: Instant, token: Token) {
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

    pub(super) fn cancelled(&mut self, token: Token) {
        let Some(mut attempt) = self.attempts.remove(token) else { return };
        self.counts.cancelled += 1;
        self.judge(&attempt, if attempt.stained { Some(Failure::Late) } else { None });
        self.give_back(core::mem::take(&mut attempt.bye));
    }

    pub(super) fn succeed_single(&mut self, now: Instant, token: Token) {
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

    pub(super) fn fail(&mut self, token: Token, failure: Failure, kind: &str, sample: &[u8]) {
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

    pub(super) fn setup_over(&mut self, ok: bool) {
        self.setup_failed += u32::from(!ok);
        if let Phase::Registering { done, .. } = &mut self.phase {
            *done += 1;
        }
    }

    pub(super) fn judge(&mut self, attempt: &Attempt, failure: Option<Failure>) {
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

    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.spare.len() < 4096 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
