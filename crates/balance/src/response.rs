//! A response on its way back: by its Via, to where its request came from (RFC 3261 §16.7, §16.11), and what it tells of
//! its call and of its destination.

use tandem_base::{Instant, Key};
use tandem_sip::{HeaderName, Hop, Message, Method, Outbox, Via};

use crate::calls::{Answered, Cause, First, Place, State};
use crate::config::Path;
use crate::forward::write_via_returned;
use crate::token::{Direction, RETURN_PARAMETER, Signer, WayBack, end_hash};
use crate::{Balancer, Outcome, read_retry_after};

impl Balancer {
    /// Takes a response. `false`: its branch is none of ours, and it is somebody else's.
    pub fn handle_response(&mut self, now: Instant, response: &Message<'_>, out: &mut Outbox) -> bool {
        if !response.via().branch.is_some_and(Signer::is_branch) {
            return self.take_probe_answer(now, response) || self.return_past_us(response, out);
        }
        self.lines.now = now;
        if response.values(HeaderName::Via).nth(1).is_none() {
            // To a CANCEL or a BYE of our own.
            if response.method() == Method::Bye && response.status() >= 200 {
                self.byes.answered(response);
            }
            return true;
        }
        let Some(way_back) = self.way_back(response).filter(|_| response.defect().is_none()) else {
            self.counters.responses_stray += 1;
            return true;
        };
        let passes = match (way_back.direction, self.tags.get(&way_back.destination).copied()) {
            (Direction::In, Some(place)) => self.answered_by(now, response, place, out),
            (Direction::Back, place) => {
                self.tell_call(now, response, place, false);
                true
            }
            (Direction::In, None) | (Direction::Out, _) => true,
        };
        if passes {
            self.send_upstream(response, &way_back, out);
        }
        self.let_copies_go();
        true
    }

    /// A response to a request that went without a Via of ours, from a destination that answers to where it came from.
    fn return_past_us(&mut self, response: &Message<'_>, out: &mut Outbox) -> bool {
        let via = response.via();
        let Some(param) = via.params().find(|param| param.name.eq_ignore_ascii_case(RETURN_PARAMETER)) else {
            return false;
        };
        let back = param.value.and_then(|text| self.signer.read_return(text, response));
        let value = response.values(HeaderName::Via).next();
        let (Some((listener, peer)), Some(value), None) = (back, value, response.defect()) else {
            self.counters.responses_stray += 1;
            return true;
        };
        let Some(transport) = self.listeners.get(listener).map(|listener| listener.transport) else {
            self.counters.responses_stray += 1;
            return true;
        };
        self.counters.responses += 1;
        self.edits.clear();
        self.edits.replace(value.span, |out| write_via_returned(value.bytes, via, peer, out));
        self.edits.regularise(response);
        let edits = &mut self.edits;
        out.write(Hop { transport, listener, peer, connection: None }, |out| edits.write(response, out));
        true
    }

    /// What our branch says, if it is ours and the Via below is the one that we signed.
    pub(crate) fn way_back(&self, message: &Message<'_>) -> Option<WayBack> {
        let below = message.values(HeaderName::Via).nth(1).and_then(|value| Via::parse(value.bytes))?;
        self.signer.read_branch(message.via().branch?, message, &below)
    }

    fn send_upstream(&mut self, response: &Message<'_>, way_back: &WayBack, out: &mut Outbox) {
        let transport = self.listeners.get(way_back.listener).map(|listener| listener.transport);
        let Some(transport) = transport else {
            self.counters.responses_stray += 1;
            return;
        };
        let hop = Hop { transport, listener: way_back.listener, peer: way_back.upstream, connection: None };
        self.counters.responses += 1;
        self.edits.clear();
        self.edits.pop_values(response, HeaderName::Via, 1);
        self.edits.regularise(response);
        let edits = &mut self.edits;
        out.write(hop, |out| edits.write(response, out));
    }

    /// A response of a destination; whether it goes on to the caller.
    fn answered_by(&mut self, now: Instant, response: &Message<'_>, place: Place, out: &mut Outbox) -> bool {
        let outcome = match response.status() {
            503 => Outcome::Unavailable(response.header(HeaderName::RetryAfter).and_then(read_retry_after)),
            _ => Outcome::Answered,
        };
        let Some(key) = self.calls.find(self.calls.hash(response.call_id())) else {
            self.lines.report(place, outcome);
            self.learn(now, response, place);
            return true;
        };
        let copy = self.calls.get(key).and_then(|call| call.copy);
        let is_here = self.calls.get(key).is_some_and(|call| call.place() == place);
        // The only requests for which it was not here are the first one of a call that went on elsewhere, and our own.
        let is_late = !is_here && self.calls.get(key).is_some_and(|call| call.cause == Cause::Failover);
        if is_late {
            return self.late_response(now, key, response, copy, place, out);
        }
        self.lines.report(place, outcome);
        if let Some(copy) = copy.filter(|_| is_here)
            && self.copies.get(copy).is_some_and(|copy| is_to(response, copy.method, copy.cseq))
        {
            self.copies.stop_timer(copy);
            let fails_over = response.status() >= 300 && self.is_failure(place, response.status());
            if fails_over && self.try_next(now, copy, Some(response), out) {
                return false;
            }
            // A destination that was left may still speak, and is told to stop by what the copy says.
            if response.status() > 100 && !self.copies.settle(copy) {
                self.drop_copy(key, copy);
            }
        }
        self.tell_call(now, response, Some(place), true);
        true
    }

    fn tell_call(&mut self, now: Instant, response: &Message<'_>, place: Option<Place>, inward: bool) {
        let Some(key) = self.calls.find(self.calls.hash(response.call_id())) else { return };
        if self.calls.get(key).map(|call| call.place()) != place {
            return;
        }
        let answered = Answered {
            method: response.cseq().method,
            cseq: response.cseq().number,
            status: response.status(),
            inward,
        };
        self.calls.response(now, key, &answered, &mut self.lines);
        let is_accepted = self.calls.get(key).is_some_and(|call| call.state() == State::Inv200);
        let path = place.and_then(|place| self.lines.get(place.pool)).map(|line| line.config.path);
        if is_accepted && path == Some(Path::RecordRoute) {
            self.calls.let_go(now, key, &mut self.lines);
        }
    }

    fn is_failure(&self, place: Place, status: u16) -> bool {
        self.lines.get(place.pool).is_some_and(|line| line.config.failover.codes.contains(&status))
    }

    /// Whether what a destination says after it was left goes on to the caller: a 2xx to an INVITE does.
    fn late_response(
        &mut self,
        now: Instant,
        key: Key,
        response: &Message<'_>,
        copy: Option<Key>,
        place: Place,
        out: &mut Outbox,
    ) -> bool {
        self.counters.responses_late += 1;
        if response.method() != Method::Invite {
            return false;
        }
        match (response.status(), copy) {
            (200..=299, copy) => return self.late_success(now, key, response, copy, place, out),
            (100..=199, Some(copy)) => self.cancel_left(copy, place, out),
            (_, Some(copy)) => self.acknowledge_left(copy, place, response, out),
            (_, None) => {}
        }
        false
    }

    /// Someone answered at a destination that was left: the call is there, and the one that has it now is told to stop.
    /// Where the caller has its answer already, this one is ended instead, as the caller would (RFC 3261 §13.2.2.4): it may
    /// not listen any more.
    fn late_success(
        &mut self,
        now: Instant,
        key: Key,
        response: &Message<'_>,
        copy: Option<Key>,
        place: Place,
        out: &mut Outbox,
    ) -> bool {
        let Some((state, there)) = self.calls.get(key).map(|call| (call.state(), call.place())) else {
            return true;
        };
        match (state, copy) {
            (State::Inv, _) => {
                if let Some(copy) = copy {
                    self.copies.stop_timer(copy);
                    self.copies.settle(copy);
                    self.cancel_left(copy, there, out);
                }
                self.calls.move_to(now, key, place, &mut self.lines);
                self.tell_call(now, response, Some(place), true);
                true
            }
            (_, Some(copy)) => {
                self.end_left(now, copy, place, response, out);
                false
            }
            (_, None) => true,
        }
    }

    /// The table is empty, the destination's answer tells where the call is: so that what the caller repeats, cancels
    /// or acknowledges without a token gets there too.
    fn learn(&mut self, now: Instant, response: &Message<'_>, place: Place) {
        let stays = self.lines.get(place.pool).is_some_and(|line| line.config.path == Path::Via);
        if response.method() != Method::Invite || !stays {
            return;
        }
        let from = response.from().and_then(|from| from.tag()).unwrap_or_default();
        let first = First {
            place,
            method: Method::Invite,
            cseq: response.cseq().number,
            caller: end_hash(from),
            ahead: 0,
            cause: Cause::Learned,
            stays: true,
        };
        let hash = self.calls.hash(response.call_id());
        if self.calls.begin(now, hash, &first, &mut self.lines).is_ok() {
            self.counters.learned += 1;
            self.tell_call(now, response, Some(place), true);
        }
    }
}

fn is_to(response: &Message<'_>, method: Method, cseq: u32) -> bool {
    response.method() == method && response.cseq().number == cseq
}
