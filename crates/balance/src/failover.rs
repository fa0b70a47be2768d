//! The first request of a call may still go to another destination: while it has no final answer and nothing rings,
//! a copy of it is kept.
//!
//! It goes on when its destination answers with a code that means the server and not the callee, says nothing at all,
//! or is not there (ICMP); never on 486 or 603, never once it rings, and not beyond the retry budget of its pool. The
//! failed answer is acknowledged by us, since the caller never sees it; what a destination says after it was left is
//! absorbed, but for a 2xx, which always goes to the caller.

use tandem_base::{Instant, Key, Pool, TimerId, Wheel};
use tandem_sip::{HeaderName, Hop, Index, Message, Method, Outbox, write_number};

use crate::calls::Place;
use crate::forward::{Forward, write_request, write_uri_at};
use crate::token::{Direction, End, Token};
use crate::{Balancer, Choice, Outcome, Slot};

/// A first request that may still go elsewhere.
pub(crate) struct Copy {
    pub(crate) call: Key,
    pub(crate) cseq: u32,
    pub(crate) method: Method,
    hop: Hop,
    bytes: Box<[u8]>,
    /// Where it was sent to, the latest last.
    pub(crate) tried: smallvec::SmallVec<[Slot; 4]>,
    timer: Option<TimerId>,
    /// A destination was left without its final answer, and may still speak.
    left_silent: bool,
    /// It goes nowhere else: it rings, or has its final answer.
    is_settled: bool,
}

/// The copies of one shard.
pub(crate) struct Copies {
    all: Pool<Copy>,
    timers: Wheel<Key>,
}

impl Copies {
    pub(crate) fn new(max: u32) -> Self {
        Self { all: Pool::new(max), timers: Wheel::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Copy> {
        self.all.get(key)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Key> {
        let key = self.timers.pop_due(now)?;
        if let Some(copy) = self.all.get_mut(key) {
            copy.timer = None;
        }
        Some(key)
    }

    fn remove(&mut self, key: Key) {
        if let Some(timer) = self.all.remove(key).and_then(|copy| copy.timer) {
            self.timers.cancel(timer);
        }
    }

    /// Its destination said something: it is there.
    pub(crate) fn stop_timer(&mut self, key: Key) {
        if let Some(timer) = self.all.get_mut(key).and_then(|copy| copy.timer.take()) {
            self.timers.cancel(timer);
        }
    }

    /// Has the request go nowhere else; `false` where nobody who was left may still speak, so that its
    /// copy is not needed any more.
    pub(crate) fn settle(&mut self, key: Key) -> bool {
        self.all.get_mut(key).is_some_and(|copy| {
            copy.is_settled = true;
            copy.left_silent
        })
    }

    fn start_timer(&mut self, key: Key, at: Instant) {
        self.stop_timer(key);
        let timer = self.timers.schedule(at, key);
        if let Some(copy) = self.all.get_mut(key) {
            copy.timer = Some(timer);
        }
    }
}

impl Balancer {
    pub(crate) fn keep_copy(
        &mut self,
        now: Instant,
        call: Key,
        hop: Hop,
        request: &Message<'_>,
        place: Place,
    ) {
        let Some(line) = self.lines.get(place.pool) else { return };
        let timeout = line.config.failover.timeout;
        if line.pool.settings().slots() < 2 {
            return;
        }
        let (cseq, method) = (request.cseq().number, request.method());
        let bytes = request.bytes().into();
        let tried = smallvec::smallvec![place.slot];
        let copy = Copy {
            call,
            cseq,
            method,
            hop,
            bytes,
            tried,
            timer: None,
            left_silent: false,
            is_settled: false,
        };
        // Without room it goes without: the caller repeats it or tries again.
        let Ok(key) = self.copies.all.insert(copy) else { return };
        self.calls.set_copy(call, Some(key));
        if !timeout.is_zero() {
            self.copies.start_timer(key, now + timeout);
        }
    }

    /// Lets the copy of a call go.
    pub(crate) fn drop_copy(&mut self, call: Key, copy: Key) {
        self.calls.set_copy(call, None);
        self.copies.remove(copy);
    }

    /// Lets those copies go whose calls ended.
    pub(crate) fn let_copies_go(&mut self) {
        while let Some(copy) = self.calls.pop_loose() {
            self.copies.remove(copy);
        }
    }

    /// A destination said nothing in time.
    pub(crate) fn first_request_timed_out(&mut self, now: Instant, copy: Key, out: &mut Outbox) {
        self.first_request_failed(now, copy, Outcome::TimedOut, out);
    }

    fn first_request_failed(&mut self, now: Instant, copy: Key, outcome: Outcome, out: &mut Outbox) {
        let Some(call) = self.copies.get(copy).map(|copy| copy.call) else { return };
        let Some(place) = self.calls.get(call).map(|call| call.place()) else { return };
        self.lines.report(place, outcome);
        if !self.try_next(now, copy, None, out) && !self.copies.settle(copy) {
            self.drop_copy(call, copy);
        }
    }

    /// The network refused a message of ours (ICMP, no route): these are its octets. Whether they were the balancer's.
    pub fn handle_undeliverable(&mut self, now: Instant, octets: &[u8], out: &mut Outbox) -> bool {
        self.lines.now = now;
        let mut index = Index::new();
        let Ok(message) = Message::parse(octets, &mut index, &self.config.limits) else { return false };
        let Some(way_back) = self.way_back(&message) else {
            return self.take_undelivered_probe(now, &message);
        };
        if way_back.direction != Direction::In || !message.is_request() {
            return true;
        }
        let Some(&place) = self.tags.get(&way_back.destination) else { return true };
        let call = self.calls.find(self.calls.hash(message.call_id()));
        let call = call.filter(|&call| self.calls.get(call).is_some_and(|call| call.place() == place));
        let copy = call.and_then(|call| self.calls.get(call)?.copy);
        match copy {
            Some(copy) => self.first_request_failed(now, copy, Outcome::Unreachable, out),
            None => self.lines.report(place, Outcome::Unreachable),
        }
        true
    }

    /// Sends a first request to the next destination; `false` if there is none, or none may be tried.
    ///
    /// `failed` is the final response that the last one gave.
    pub(crate) fn try_next(
        &mut self,
        now: Instant,
        key: Key,
        failed: Option<&Message<'_>>,
        out: &mut Outbox,
    ) -> bool {
        let Some(copy) = self.copies.get(key).filter(|copy| !copy.is_settled) else { return false };
        let (call, hop) = (copy.call, copy.hop);
        let tried = copy.tried.clone();
        let Some((place, caller, cancelled)) =
            self.calls.get(call).map(|call| (call.place(), call.caller, call.cancelled))
        else {
            return false;
        };
        let Some(line) = self.lines.get_mut(place.pool) else { return false };
        if cancelled || tried.len() >= usize::from(line.config.failover.tries_max) {
            return false;
        }
        let timeout = line.config.failover.timeout;
        let bytes = match self.copies.all.get_mut(key) {
            Some(copy) => core::mem::take(&mut copy.bytes),
            None => return false,
        };
        let mut index = Index::new();
        let next = Message::parse(&bytes, &mut index, &self.config.limits).ok().and_then(|request| {
            let user = crate::user_of(&request);
            let choice = Choice { call_id: request.call_id(), user, method: request.method(), tried: &tried };
            let slot = line.pool.pick(now, &choice).ok()?;
            if !line.spend() {
                self.counters.failovers_refused += 1;
                return None;
            }
            Some((request, Place { slot, ..place }))
        });
        if let Some((request, next)) = &next {
            self.counters.failovers += 1;
            if let Some(failed) = failed {
                self.acknowledge(request, hop, place, failed, out);
            }
            self.calls.move_to(now, call, *next, &mut self.lines);
            let token = Token { destination: self.lines.tag(*next), first: End::Outside, hash: caller };
            self.send_copy(request, hop, *next, &token, out);
        }
        let is_sent = next.is_some();
        let slot = next.map(|(_, next)| next.slot);
        if let Some(copy) = self.copies.all.get_mut(key) {
            copy.bytes = bytes;
            copy.tried.extend(slot);
            copy.left_silent |= is_sent && failed.is_none();
        }
        if is_sent && !timeout.is_zero() {
            self.copies.start_timer(key, now + timeout);
        }
        is_sent
    }

    fn send_copy(&mut self, request: &Message<'_>, hop: Hop, place: Place, token: &Token, out: &mut Outbox) {
        let (Some(routed), Some(to)) =
            (self.route(hop, request, false), self.lines.destination(place).map(|to| to.hop))
        else {
            return;
        };
        let path = self.lines.get(place.pool).map(|line| line.config.path);
        let forward = Forward {
            request,
            routed: &routed,
            from: hop,
            to,
            direction: Direction::In,
            tag: self.lines.tag(place),
            token: (path == Some(crate::Path::Via)).then_some(token),
            has_via: true,
            disguised: false,
        };
        let (listeners, signer, edits) = (&self.listeners, &self.signer, &mut self.edits);
        out.write(to, |out| write_request(listeners, signer, edits, &forward, out));
    }

    /// The ACK to a failure that the caller never sees (RFC 3261 §17.1.1.3).
    pub(crate) fn acknowledge(
        &self,
        request: &Message<'_>,
        hop: Hop,
        place: Place,
        failed: &Message<'_>,
        out: &mut Outbox,
    ) {
        if request.method() == Method::Invite {
            let to = failed.header(HeaderName::To).unwrap_or_default();
            self.write_own(request, hop, place, "ACK", to, out);
        }
    }

    /// The CANCEL of a destination that was left and says only now that it works on the call (RFC 3261 §9.1).
    pub(crate) fn cancel_left(&self, copy: Key, place: Place, out: &mut Outbox) {
        let Some(copy) = self.copies.get(copy) else { return };
        let mut index = Index::new();
        if let Ok(request) = Message::parse(&copy.bytes, &mut index, &self.config.limits)
            && request.method() == Method::Invite
        {
            let to = request.header(HeaderName::To).unwrap_or_default();
            self.write_own(&request, copy.hop, place, "CANCEL", to, out);
        }
    }

    /// Acknowledges with what the copy still says.
    pub(crate) fn acknowledge_left(&self, copy: Key, place: Place, failed: &Message<'_>, out: &mut Outbox) {
        let Some(copy) = self.copies.get(copy) else { return };
        let mut index = Index::new();
        if let Ok(request) = Message::parse(&copy.bytes, &mut index, &self.config.limits) {
            self.acknowledge(&request, copy.hop, place, failed, out);
        }
    }

    /// Ends a call that was answered where it was left, after the caller was told that it failed (RFC 3261 §13.2.2.4,
    /// §15.1.1): nobody else would.
    pub(crate) fn end_left(
        &mut self,
        now: Instant,
        copy: Key,
        place: Place,
        accepted: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Some(to_hop) = self.lines.destination(place).map(|to| to.hop) else { return };
        let Some(copy) = self.copies.get(copy) else { return };
        let mut index = Index::new();
        if let Ok(request) = Message::parse(&copy.bytes, &mut index, &self.config.limits) {
            let to = accepted.header(HeaderName::To).unwrap_or_default();
            self.write_own(&request, copy.hop, place, "ACK", to, out);
            self.write_own(&request, copy.hop, place, "BYE", to, out);
            self.byes.sent(now, to_hop, out.last());
        }
    }

    fn write_own(
        &self,
        request: &Message<'_>,
        hop: Hop,
        place: Place,
        method: &str,
        to: &[u8],
        out: &mut Outbox,
    ) {
        let (Some(routed), Some(destination)) =
            (self.route(hop, request, false), self.lines.destination(place))
        else {
            return;
        };
        let peer = destination.hop;
        let Some(listener) = self.listeners.get(peer.listener) else { return };
        out.write(peer, |out| {
            out.extend_from_slice(method.as_bytes());
            out.push(b' ');
            match routed.uri.filter(|_| routed.is_ours) {
                Some(uri) => write_uri_at(&uri, peer, out),
                None => out.extend_from_slice(request.request_uri()),
            }
            out.extend_from_slice(b" SIP/2.0\r\n");
            out.extend_from_slice(listener.via());
            self.signer.write_branch(Direction::In, self.lines.tag(place), request, hop, out);
            out.extend_from_slice(b"\r\nMax-Forwards: 70\r\n");
            for route in request.values(HeaderName::Route).skip(routed.own_routes) {
                write_line(b"Route: ", route.bytes, out);
            }
            write_line(b"From: ", request.header(HeaderName::From).unwrap_or_default(), out);
            write_line(b"To: ", to, out);
            write_line(b"Call-ID: ", request.call_id(), out);
            out.extend_from_slice(b"CSeq: ");
            let next = u32::from(method == "BYE");
            write_number(out, u64::from(request.cseq().number.saturating_add(next)));
            out.push(b' ');
            out.extend_from_slice(method.as_bytes());
            out.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
        });
    }
}

/// Writes a header field line on one line, whatever folds its value had.
fn write_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend(value.iter().map(|&b| if matches!(b, b'\r' | b'\n' | b'\t') { b' ' } else { b }));
    out.extend_from_slice(b"\r\n");
}
