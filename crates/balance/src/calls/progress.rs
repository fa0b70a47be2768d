//! How an entry goes from state to state: figure 4 of Jiang et al., and the endings that it leaves out.

use core::time::Duration;

use tandem_base::{Instant, Key};
use tandem_sip::Method;

use super::book::{Ledger, Weight};
use super::call::{Call, Cause, Ending, Open, Place, State};
use super::{Answered, Asked, Calls, First};

/// Entries looked at in one turn for the calls of a destination that was removed or went down.
const SEEN_PER_TURN: u32 = 4_096;

impl Calls {
    /// Changes an entry, and keeps count of what its state and weight were before and are now.
    fn change<T>(&mut self, key: Key, change: impl FnOnce(&mut Call) -> T) -> Option<T> {
        let call = self.entries.get_mut(key)?;
        let (state, place, before) = (call.state, call.place, Weight::of(call));
        let changed = change(call);
        let after = Weight::of(call);
        self.calls = self.calls + usize::from(call.state.is_call()) - usize::from(state.is_call());
        self.expired = self.expired + usize::from(call.state.is_expired()) - usize::from(state.is_expired());
        self.audit.changed(key, (place, before), (call.place, after));
        Some(changed)
    }

    /// Changes an entry's state and its deadline.
    fn enter(&mut self, now: Instant, key: Key, state: State, lasts: Duration, ledger: &mut impl Ledger) {
        self.change(key, |call| call.enter(state, ledger));
        self.set_deadline(key, now + lasts);
    }

    fn end(&mut self, now: Instant, key: Key, state: State, ending: Ending, ledger: &mut impl Ledger) {
        let was_call = self.get(key).is_some_and(|call| call.state.is_call());
        // Where a copy is kept, it may still ring at a destination that it left.
        let may_ring = self.get(key).is_some_and(|call| call.copy.is_some());
        let lasts = if may_ring { self.times.ringing } else { self.times.expired };
        self.enter(now, key, state, lasts, ledger);
        if was_call && let Some(count) = self.endings.get_mut(ending as usize) {
            *count += 1;
        }
    }

    /// A nearer deadline moves the timer; a later one waits until the timer comes by.
    fn set_deadline(&mut self, key: Key, deadline: Instant) {
        let Some(call) = self.entries.get_mut(key) else { return };
        let is_nearer = deadline < call.deadline;
        call.deadline = deadline;
        if let Some(timer) = call.timer {
            if !is_nearer {
                return;
            }
            self.timers.cancel(timer);
        }
        call.timer = Some(self.timers.schedule(deadline, key));
    }

    /// A first request for a new entry, or another one for an expired entry.
    pub fn restart(&mut self, now: Instant, key: Key, first: &First, ledger: &mut impl Ledger) {
        let trying = self.times.trying;
        self.let_copy_go(key);
        self.change(key, |call| {
            call.enter(State::Away, ledger);
            if call.place != first.place {
                call.place = first.place;
                call.cause = first.cause;
            }
            (call.challenged, call.cancelled, call.caller) = (false, false, first.caller);
            let state = match first.stays {
                false => State::Away,
                true if first.method == Method::Invite => State::Inv,
                true => State::Request,
            };
            call.enter(state, ledger);
            if first.stays {
                call.open(first.method, first.cseq, now, ledger);
            } else {
                let open = if first.method == Method::Invite { &mut call.invite } else { &mut call.other };
                *open = Open { was_any: true, cseq: first.cseq, ..Open::none(first.method) };
            }
        });
        self.set_deadline(key, now + trying);
    }

    /// Whether a request is free to go anywhere although its Call-ID is known: a new one outside calls, after the
    /// last was answered with anything but a challenge.
    #[must_use]
    pub fn is_free(&self, key: Key, asked: &Asked) -> bool {
        self.get(key).is_some_and(|call| {
            call.state == State::Answered
                && !call.challenged
                && !asked.in_dialog
                && asked.method != Method::Invite
                && asked.cseq > call.other.cseq
        })
    }

    /// Whether a request begins anew what an expired entry was: a second INVITE after a challenge, mostly.
    #[must_use]
    pub fn is_another_try(&self, key: Key, asked: &Asked) -> bool {
        let Some(call) = self.get(key) else { return false };
        let is_newer = |open: &Open| !open.was_any || asked.cseq > open.cseq;
        let begins =
            !asked.in_dialog && asked.inward && (call.state.is_expired() || call.state == State::Request);
        if asked.method == Method::Invite {
            return begins && is_newer(&call.invite);
        }
        let may_begin = !matches!(asked.method, Method::Ack | Method::Cancel | Method::Bye | Method::Prack);
        begins && may_begin && call.state == State::Answered && is_newer(&call.other)
    }

    /// A request of a known call passes.
    pub fn request(&mut self, now: Instant, key: Key, asked: &Asked, ledger: &mut impl Ledger) {
        let Some(call) = self.get(key) else { return };
        let (state, times) = (call.state, self.times);
        match (asked.method, state) {
            (Method::Ack, State::Inv200) => self.enter(now, key, State::Ack, times.call_max, ledger),
            (Method::Bye, State::Inv | State::Inv200 | State::Ack) => {
                self.enter(now, key, State::Bye, times.trying, ledger);
                self.open(now, key, asked, ledger);
            }
            (Method::Bye, State::Bye) => self.open(now, key, asked, ledger),
            (Method::Cancel, State::Inv) => {
                if self.change(key, |call| !core::mem::replace(&mut call.cancelled, true)) == Some(true) {
                    self.set_deadline(key, now + times.trying);
                }
            }
            (Method::Ack | Method::Cancel, _) => {}
            (_, State::Bye200 | State::Failed | State::Answered | State::Away) => {}
            (_, State::Ack) => {
                self.open(now, key, asked, ledger);
                self.set_deadline(key, now + times.call_max);
            }
            (_, State::Inv | State::Inv200 | State::Bye | State::Request) => {
                self.open(now, key, asked, ledger)
            }
        }
    }

    fn open(&mut self, now: Instant, key: Key, asked: &Asked, ledger: &mut impl Ledger) {
        if asked.inward {
            self.change(key, |call| call.open(asked.method, asked.cseq, now, ledger));
        }
    }

    /// A response within a known call passes, from the place where the call is (or to it).
    pub fn response(&mut self, now: Instant, key: Key, answered: &Answered, ledger: &mut impl Ledger) {
        let Some(call) = self.get(key) else { return };
        let (state, times) = (call.state, self.times);
        let is_first = answered.inward && call.invite.was_any && call.invite.cseq == answered.cseq;
        let was_cancelled = call.cancelled;
        if answered.inward && answered.method == Method::Invite && is_first {
            self.change(key, |call| call.invite.heard(now));
        }
        if answered.status < 200 {
            if answered.method == Method::Invite && state == State::Inv && is_first && !was_cancelled {
                self.set_deadline(key, now + times.ringing);
            }
            return;
        }
        let is_challenge = matches!(answered.status, 401 | 407);
        if answered.inward {
            let Answered { method, cseq, .. } = *answered;
            self.change(key, |call| call.answered(method, cseq, now, ledger));
        }
        match (answered.method, state) {
            (Method::Invite, State::Inv | State::Failed) if is_first && answered.status < 300 => {
                self.enter(now, key, State::Inv200, times.trying, ledger);
            }
            (Method::Invite, State::Inv) if is_first => {
                let ending = if answered.status == 487 { Ending::Cancelled } else { Ending::Refused };
                self.end(now, key, State::Failed, ending, ledger);
                self.change(key, |call| call.challenged = is_challenge);
            }
            (Method::Invite, State::Ack) if answered.status == 481 => {
                self.end(now, key, State::Bye200, Ending::Unknown, ledger);
            }
            // A challenged BYE comes again with credentials; after any other answer nobody talks (RFC 3261 §15.1.1).
            (Method::Bye, State::Inv | State::Inv200 | State::Ack | State::Bye) if !is_challenge => {
                self.end(now, key, State::Bye200, Ending::Bye, ledger);
            }
            (_, State::Request) if answered.inward => {
                let Some(call) = self.get(key) else { return };
                if call.other.cseq == answered.cseq && call.other.method == answered.method {
                    self.enter(now, key, State::Answered, times.expired, ledger);
                    self.change(key, |call| call.challenged = is_challenge);
                }
            }
            _ => {}
        }
    }

    /// Another destination gets the first request.
    pub(crate) fn move_to(&mut self, now: Instant, key: Key, place: Place, ledger: &mut impl Ledger) {
        let trying = self.times.trying;
        self.change(key, |call| {
            call.move_to(place, now, ledger);
            call.cause = Cause::Failover;
        });
        self.set_deadline(key, now + trying);
    }

    /// The accepted call goes on past us: its destination's own Record-Route keeps us out.
    pub(crate) fn let_go(&mut self, now: Instant, key: Key, ledger: &mut impl Ledger) {
        self.end(now, key, State::Away, Ending::Away, ledger);
    }

    /// Ends and forgets the calls of a destination that is no more; a few thousand entries a turn.
    pub fn remove_place(&mut self, place: Place) {
        self.removing.push((place, 0));
    }

    /// Whether the table is still gone through for destinations that were removed or went down.
    #[must_use]
    pub fn is_removing(&self) -> bool {
        !self.removing.is_empty() || !self.fallen.is_empty()
    }

    fn remove_some(&mut self, now: Instant, ledger: &mut impl Ledger) {
        let Some((place, from)) = self.removing.pop() else { return };
        let to = from.saturating_add(SEEN_PER_TURN).min(self.slots);
        for slot in from..to {
            let Some(key) = self.entries.key_at(slot) else { continue };
            if self.get(key).is_some_and(|call| call.place == place) {
                self.end(now, key, State::Failed, Ending::Removed, ledger);
                self.forget(key, ledger);
            }
        }
        if to < self.slots {
            self.removing.push((place, to));
        }
    }

    /// A destination went down. What rings there weighs nothing any more: if it died, nobody will answer, and for
    /// minutes after its return it would seem to be busy. What it has not answered at all is left to failover and to
    /// its deadline. A few thousand entries a turn.
    pub fn place_fell(&mut self, place: Place) {
        self.fallen.push((place, 0));
    }

    fn unburden_some(&mut self, ledger: &mut impl Ledger) {
        let Some((place, from)) = self.fallen.pop() else { return };
        let to = from.saturating_add(SEEN_PER_TURN).min(self.slots);
        for slot in from..to {
            let Some(key) = self.entries.key_at(slot) else { continue };
            if self.get(key).is_some_and(|call| call.place == place) {
                self.change(key, |call| call.unburden(ledger));
            }
        }
        if to < self.slots {
            self.fallen.push((place, to));
        }
    }

    /// Ends what its deadline has come for, and forgets what was over.
    pub fn handle_timeout(&mut self, now: Instant, ledger: &mut impl Ledger) {
        if !self.removing.is_empty() {
            self.remove_some(now, ledger);
        }
        if !self.fallen.is_empty() {
            self.unburden_some(ledger);
        }
        while let Some(key) = self.timers.pop_due(now) {
            let Some(call) = self.entries.get_mut(key) else { continue };
            call.timer = None;
            if call.deadline > now {
                call.timer = Some(self.timers.schedule(call.deadline, key));
                continue;
            }
            let is_unheard = |open: &Open| open.is_open && open.took == 0;
            if is_unheard(&call.invite) || is_unheard(&call.other) {
                ledger.unanswered(call.place);
            }
            match call.state {
                State::Inv if call.cancelled => self.end(now, key, State::Failed, Ending::Cancelled, ledger),
                State::Inv => self.end(now, key, State::Failed, Ending::NoAnswer, ledger),
                State::Inv200 => self.end(now, key, State::Bye200, Ending::NoAck, ledger),
                State::Ack => self.end(now, key, State::Bye200, Ending::TooLong, ledger),
                State::Bye => self.end(now, key, State::Bye200, Ending::LostBye, ledger),
                State::Request => self.end(now, key, State::Answered, Ending::NoAnswer, ledger),
                State::Bye200 | State::Failed | State::Answered | State::Away => self.forget(key, ledger),
            }
        }
    }

    fn forget(&mut self, key: Key, ledger: &mut impl Ledger) {
        self.let_copy_go(key);
        self.change(key, |call| call.enter(State::Away, ledger));
        if let Some(call) = self.entries.remove(key) {
            call.timer.map(|timer| self.timers.cancel(timer));
            self.index.remove_exact(call.hash(), key);
            self.expired -= 1;
        }
    }

    fn let_copy_go(&mut self, key: Key) {
        if let Some(copy) = self.entries.get_mut(key).and_then(|call| call.copy.take()) {
            self.loose.push(copy);
        }
    }
}
