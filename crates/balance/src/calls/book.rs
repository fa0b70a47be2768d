//! The one place where load changes: what an entry weighs is booked here when it changes, and nowhere else.

use core::time::Duration;

use tandem_base::Instant;
use tandem_sip::Method;

use super::call::{Call, Open, Place, State, micros};
use crate::Work;

/// Who keeps the figures that the policies read.
pub trait Ledger {
    /// A call is on a destination.
    fn call_began(&mut self, place: Place);
    /// It is no more.
    fn call_ended(&mut self, place: Place);
    /// A destination works on a request; what that weighs comes back.
    fn request_began(&mut self, place: Place, method: Method) -> Work;
    /// It does no more; `took` is the time to the first response, where the request was answered.
    fn request_ended(&mut self, place: Place, method: Method, work: Work, took: Option<Duration>);
    /// A destination said nothing at all to a request until its deadline.
    fn unanswered(&mut self, place: Place);
}

/// What an entry weighs on its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weight {
    /// Calls: 0 or 1 of one entry.
    pub calls: u64,
    /// Requests in progress.
    pub requests: u64,
    /// What they weigh together.
    pub work: u64,
}

impl Weight {
    /// What an entry weighs.
    pub(crate) fn of(call: &Call) -> Self {
        let mut weight = Self { calls: u64::from(call.state.is_call()), ..Self::default() };
        for open in [&call.invite, &call.other].into_iter().filter(|open| open.is_open) {
            weight.requests += 1;
            weight.work += u64::from(open.work.0);
        }
        weight
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            requests: self.requests + other.requests,
            work: self.work + other.work,
        }
    }

    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            calls: self.calls.wrapping_sub(other.calls),
            requests: self.requests.wrapping_sub(other.requests),
            work: self.work.wrapping_sub(other.work),
        }
    }
}

impl Call {
    /// Enters a state; what is over weighs nothing.
    pub(crate) fn enter(&mut self, state: State, ledger: &mut impl Ledger) {
        match (self.state.is_call(), state.is_call()) {
            (false, true) => ledger.call_began(self.place),
            (true, false) => ledger.call_ended(self.place),
            (true, true) | (false, false) => {}
        }
        self.state = state;
        if state.is_expired() {
            close(&mut self.invite, self.place, None, ledger);
            close(&mut self.other, self.place, None, ledger);
        }
    }

    /// Opens a request, unless it is a repetition or an old one.
    pub(crate) fn open(&mut self, method: Method, cseq: u32, now: Instant, ledger: &mut impl Ledger) {
        let open = if method == Method::Invite { &mut self.invite } else { &mut self.other };
        if open.was_any && cseq <= open.cseq {
            return;
        }
        close(open, self.place, None, ledger);
        let work = ledger.request_began(self.place, method);
        *open = Open { is_open: true, was_any: true, method, cseq, began: micros(now), took: 0, work };
    }

    /// Closes the request that was answered, if it is the one in progress.
    pub(crate) fn answered(&mut self, method: Method, cseq: u32, now: Instant, ledger: &mut impl Ledger) {
        let open = if method == Method::Invite { &mut self.invite } else { &mut self.other };
        if open.cseq == cseq && open.method == method {
            close(open, self.place, Some(now), ledger);
        }
    }

    /// Its INVITE rings where nobody may be any more: it weighs nothing until it is answered.
    pub(crate) fn unburden(&mut self, ledger: &mut impl Ledger) {
        if self.invite.took != 0 {
            close(&mut self.invite, self.place, None, ledger);
        }
    }

    /// Moves all it weighs to another place.
    pub(crate) fn move_to(&mut self, place: Place, now: Instant, ledger: &mut impl Ledger) {
        if self.state.is_call() {
            ledger.call_ended(self.place);
            ledger.call_began(place);
        }
        let old = core::mem::replace(&mut self.place, place);
        for open in [&mut self.invite, &mut self.other] {
            if open.is_open {
                close(open, old, None, ledger);
                open.work = ledger.request_began(place, open.method);
                (open.began, open.took) = (micros(now), 0);
                open.is_open = true;
            }
        }
    }
}

fn close(open: &mut Open, place: Place, answered: Option<Instant>, ledger: &mut impl Ledger) {
    if open.is_open {
        let took = answered.map(|now| {
            open.heard(now);
            Duration::from_micros(u64::from(open.took))
        });
        open.is_open = false;
        ledger.request_ended(place, open.method, open.work, took);
    }
}
