//! The answering end: rings and answers every call at once, or after a while, and counts what it sees.
//!
//! RFC 3261 §13.3.1, §15.1.2, and §13.3.1.4 for a 200 repeated until its ACK. Its own index stands in the To tag, so
//! that ACK and BYE find their call without a search; a retransmitted INVITE is found by its Call-ID. Answers go where
//! the request came from, whether or not Via asks for it (RFC 3581): through a bare forwarder there is no other way.
//! A call that rings is ended by CANCEL (§9.2) and its 487 repeated until the ACK. Left out: PRACK, session timers.

use core::net::SocketAddr;
use core::time::Duration;

use tandem_base::{HashKey, Instant, Map, Rng, map};
use tandem_sip::{Hop, ListenerId, Outbox};

use crate::calls::Table;
use crate::lines::{Lines, Name, Start, param, split};
use crate::load::Retransmit;
use crate::messages::answer_body;
use crate::reply::{Reply, Source};
use crate::tally::{CalleeCounts, Kinds};
use crate::timers::{Delay, Timers};
use crate::token::{Token, put_hex, take_hex};

/// How the answering end behaves.
#[derive(Clone, PartialEq, Debug)]
pub struct Answering {
    /// The address put into Contact.
    pub addr: SocketAddr,
    /// Which of the handlers of a load this one is; stands in its tags, so that strayed requests show.
    pub handler: u16,
    /// Whether it sends 180.
    pub ringing: bool,
    /// How long it rings.
    pub ring: Duration,
    /// Whether it repeats its 200 until the ACK comes.
    pub retransmit: Retransmit,
    /// Most calls at once.
    pub calls_max: usize,
    /// Secret of the table that is keyed by what callers send.
    pub seed: u64,
}

/// How long a finished call is remembered, so that a late retransmission is known as one.
const LINGER: Delay = Delay::Limit;
const LINGER_TIME: Duration = Duration::from_secs(4);

const STEP_ANSWER: u8 = b'q';
const STEP_REPEAT: u8 = b'p';
const STEP_FORGET: u8 = b'z';
const STEP_UNACKNOWLEDGED: u8 = b'u';

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ringing,
    /// The 487 is out.
    Cancelled,
    Answered,
    Confirmed,
    Over,
}

#[derive(Debug)]
struct Call {
    state: State,
    repeats: u8,
    key: u64,
    peer: SocketAddr,
    /// The final answer: kept while it rings and while it may have to be sent again.
    answer: Vec<u8>,
}

/// The answering end.
#[derive(Debug)]
pub struct Uas {
    answering: Answering,
    listener: ListenerId,
    calls: Table<Call>,
    by_call_id: Map<u64, Token>,
    hash: HashKey,
    timers: Timers,
    spare: Vec<Vec<u8>>,
    source: Source,
    answer_rest: Vec<u8>,
    ringing_rest: Vec<u8>,
    /// Answers to BYE and to INVITE that leave at the end of the turn, behind the 180s: messages of one kind in a row
    /// have one size, and so leave as a train.
    byes: Outbox,
    answers: Outbox,
    /// What was counted.
    pub counts: CalleeCounts,
    /// Unexpected messages.
    pub unexpected: Kinds,
}

impl Uas {
    /// An answering end on one listener.
    #[must_use]
    pub fn new(answering: Answering, listener: ListenerId) -> Self {
        let contact = format!("Contact: <sip:{}>\r\n", answering.addr);
        let answer_rest = format!("{contact}{}", answer_body(answering.addr.ip())).into_bytes();
        let ringing_rest = format!("{contact}Content-Length: 0\r\n\r\n").into_bytes();
        let hash = HashKey::from_rng(&mut Rng::from_seed(answering.seed));
        Self {
            calls: Table::new(answering.calls_max),
            by_call_id: map(hash),
            hash,
            timers: Timers::new(LINGER_TIME),
            spare: Vec::new(),
            source: Source::new(),
            answer_rest,
            ringing_rest,
            byes: Outbox::new(),
            answers: Outbox::new(),
            counts: CalleeCounts::default(),
            unexpected: Kinds::default(),
            answering,
            listener,
        }
    }

    /// Takes one datagram. Some answers wait for the next [`Uas::tick`], which ends the turn.
    pub fn receive(&mut self, now: Instant, peer: SocketAddr, message: &[u8], out: &mut Outbox) {
        self.counts.received += 1;
        match split(message) {
            Some((Start::Request { method, .. }, lines)) => match method {
                b"INVITE" => self.invite(now, peer, lines, message, out),
                b"ACK" => self.ack(now, lines, message),
                b"BYE" => self.bye(now, peer, lines, message),
                b"CANCEL" => self.cancel(now, peer, lines, out),
                _ => {
                    self.counts.others += 1;
                    self.answer(peer, lines, b"SIP/2.0 200 OK", b"", method == b"REGISTER", out);
                }
            },
            Some((Start::Response { status }, _)) => {
                self.unexpected.count(&format!("{status} at the answering end"), message)
            }
            None if message.trim_ascii().is_empty() => {} // a keep-alive (RFC 5626 §3.5.1)
            None => self.unexpected.count("malformed", message),
        }
    }

    fn answer(
        &mut self,
        peer: SocketAddr,
        lines: Lines<'_>,
        status_line: &[u8],
        tag: &[u8],
        contacts: bool,
        out: &mut Outbox,
    ) {
        let tag = if tag.is_empty() { b"stn-other" } else { tag };
        let reply = Reply { status_line, tag, routes: false, contacts, rest: b"Content-Length: 0\r\n\r\n" };
        self.counts.sent += 1;
        out.write(Hop::udp(self.listener, peer), |bytes| self.source.put(bytes, lines, peer, &reply));
    }

    fn invite(&mut self, now: Instant, peer: SocketAddr, lines: Lines<'_>, message: &[u8], out: &mut Outbox) {
        let mut call_id: &[u8] = &[];
        let mut tagged = false;
        for line in lines {
            match line.name {
                Name::CallId => call_id = line.value,
                Name::To => tagged = param(line.value, b"tag").is_some(),
                Name::Via | Name::RecordRoute | Name::From | Name::CSeq | Name::Contact => {}
                Name::WwwAuthenticate | Name::ProxyAuthenticate | Name::Other => {}
            }
        }
        if call_id.is_empty() {
            self.unexpected.count("INVITE without Call-ID", message);
            return;
        }
        let key = self.hash.hash64(&[call_id]);
        if let Some(&token) = self.by_call_id.get(&key) {
            if tagged {
                self.put_answer(now, token, peer, lines); // a re-INVITE
                return;
            }
            self.counts.repeated_invites += 1;
            let Some(call) = self.calls.get_mut(token) else { return };
            if call.state == State::Ringing {
                self.put_ringing(token, peer, lines, out);
            } else if !call.answer.is_empty() {
                self.counts.sent += 1;
                out.send(Hop::udp(self.listener, peer), &call.answer);
            }
            return;
        }
        let call = Call { state: State::Ringing, repeats: 0, key, peer, answer: Vec::new() };
        let Some(token) = self.calls.insert(call) else {
            self.counts.refused += 1;
            self.answer(peer, lines, b"SIP/2.0 503 Service Unavailable", b"", false, out);
            return;
        };
        self.counts.invites += 1;
        self.by_call_id.insert(key, token);
        self.put_ringing(token, peer, lines, out);
        if self.answering.ring.is_zero() {
            self.put_answer(now, token, peer, lines);
        } else {
            let mut kept = self.spare.pop().unwrap_or_default();
            self.make_answer(token, peer, lines, &mut kept);
            if let Some(call) = self.calls.get_mut(token) {
                call.answer = kept;
            }
            self.timers.at(now + self.answering.ring, token, STEP_ANSWER);
        }
    }

    fn put_ringing(&mut self, token: Token, peer: SocketAddr, lines: Lines<'_>, out: &mut Outbox) {
        if !self.answering.ringing {
            return;
        }
        let tag = self.tag(token);
        let reply = Reply {
            status_line: b"SIP/2.0 180 Ringing",
            tag: &tag,
            routes: true,
            contacts: false,
            rest: &self.ringing_rest,
        };
        self.counts.sent += 1;
        out.write(Hop::udp(self.listener, peer), |bytes| self.source.put(bytes, lines, peer, &reply));
    }

    /// Ends a call that rings (RFC 3261 §9.2); one that was answered goes on.
    fn cancel(&mut self, now: Instant, peer: SocketAddr, lines: Lines<'_>, out: &mut Outbox) {
        let call_id = lines.into_iter().find(|line| line.name == Name::CallId);
        let key = self.hash.hash64(&[call_id.map_or(&[], |line| line.value)]);
        let Some(&token) = self.by_call_id.get(&key) else {
            let status_line = b"SIP/2.0 481 Call/Transaction Does Not Exist";
            self.answer(peer, lines, status_line, b"", false, out);
            return;
        };
        let tag = self.tag(token);
        self.answer(peer, lines, b"SIP/2.0 200 OK", &tag, false, out);
        let Some(call) = self.calls.get_mut(token) else { return };
        if call.state != State::Ringing {
            return;
        }
        // The 200 that it would have been, with another first line and without a body.
        let head = call.answer.len().saturating_sub(self.answer_rest.len());
        call.answer.truncate(head);
        call.answer.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        let status_line = 0..b"SIP/2.0 200 OK".len().min(head);
        call.answer.splice(status_line, *b"SIP/2.0 487 Request Terminated");
        call.state = State::Cancelled;
        self.counts.cancelled += 1;
        self.counts.sent += 1;
        out.send(Hop::udp(self.listener, call.peer), &call.answer);
        if self.answering.retransmit != Retransmit::None {
            self.timers.after(now, Delay::Repeat(0), token, STEP_REPEAT);
        }
        self.timers.after(now, Delay::GiveUp, token, STEP_UNACKNOWLEDGED);
    }

    fn tag(&self, token: Token) -> [u8; 23] {
        let mut text = Vec::with_capacity(24);
        text.extend_from_slice(b"stn");
        put_hex(&mut text, u32::from(self.answering.handler));
        text.drain(3..7);
        put_hex(&mut text, token.slot);
        put_hex(&mut text, token.serial);
        let mut tag = [0; 23];
        tag.copy_from_slice(&text);
        tag
    }

    fn make_answer(&mut self, token: Token, peer: SocketAddr, lines: Lines<'_>, into: &mut Vec<u8>) {
        let tag = self.tag(token);
        let reply = Reply {
            status_line: b"SIP/2.0 200 OK",
            tag: &tag,
            routes: true,
            contacts: false,
            rest: &self.answer_rest,
        };
        self.source.put(into, lines, peer, &reply);
    }

    fn put_answer(&mut self, now: Instant, token: Token, peer: SocketAddr, lines: Lines<'_>) {
        self.counts.sent += 1;
        let mut answers = core::mem::take(&mut self.answers);
        answers.write(Hop::udp(self.listener, peer), |bytes| self.make_answer(token, peer, lines, bytes));
        if let Some(call) = self.calls.get_mut(token)
            && call.state == State::Ringing
        {
            call.state = State::Answered;
            if self.answering.retransmit != Retransmit::None {
                call.answer = self.spare.pop().unwrap_or_default();
                call.answer.extend_from_slice(answers.last());
                self.timers.after(now, Delay::Repeat(0), token, STEP_REPEAT);
            }
            self.timers.after(now, Delay::GiveUp, token, STEP_UNACKNOWLEDGED);
        }
        self.answers = answers;
    }

    /// Our token in the To tag; counts requests for another handler.
    fn token_of(&mut self, lines: Lines<'_>, message: &[u8]) -> Option<Token> {
        let to = lines.into_iter().find(|line| line.name == Name::To)?;
        let tag = param(to.value, b"tag").and_then(|tag| tag.strip_prefix(b"stn"));
        let mut padded = *b"0000....";
        let found = tag.and_then(|tag| {
            let (handler, rest) = tag.split_at_checked(4)?;
            padded.get_mut(4..)?.copy_from_slice(handler);
            let (handler, _) = take_hex(&padded)?;
            let (slot, rest) = take_hex(rest)?;
            let (serial, _) = take_hex(rest)?;
            Some((handler, Token { slot, serial }))
        });
        match found {
            Some((handler, token)) if handler == u32::from(self.answering.handler) => Some(token),
            Some(_) => {
                self.counts.strayed += 1;
                self.unexpected.count("request of another handler's call", message);
                None
            }
            None => None,
        }
    }

    fn ack(&mut self, now: Instant, lines: Lines<'_>, message: &[u8]) {
        let Some(token) = self.token_of(lines, message) else { return }; // of our 503, or strayed
        match self.calls.get_mut(token) {
            Some(call) if call.state == State::Answered => {
                call.state = State::Confirmed;
                self.counts.acks += 1;
                let answer = core::mem::take(&mut call.answer);
                self.give_back(answer);
            }
            Some(call) if call.state == State::Cancelled => {
                call.state = State::Over;
                let answer = core::mem::take(&mut call.answer);
                self.give_back(answer);
                self.timers.after(now, LINGER, token, STEP_FORGET);
            }
            Some(_) => {}
            None => self.unexpected.count("ACK outside a call", message),
        }
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.spare.len() < 4096 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn bye(&mut self, now: Instant, peer: SocketAddr, lines: Lines<'_>, message: &[u8]) {
        let token = self.token_of(lines, message);
        let status_line: &[u8] = match token.and_then(|token| self.calls.get_mut(token)) {
            Some(call) => {
                if call.state != State::Over {
                    if call.state == State::Answered {
                        self.counts.unacknowledged += 1; // the ACK was lost or overtaken
                    }
                    call.state = State::Over;
                    self.counts.byes += 1;
                    let answer = core::mem::take(&mut call.answer);
                    self.give_back(answer);
                    if let Some(token) = token {
                        self.timers.after(now, LINGER, token, STEP_FORGET);
                    }
                }
                b"SIP/2.0 200 OK"
            }
            None => {
                self.unexpected.count("BYE outside a call", message);
                b"SIP/2.0 481 Call/Transaction Does Not Exist"
            }
        };
        let mut byes = core::mem::take(&mut self.byes);
        self.answer(peer, lines, status_line, b"", false, &mut byes);
        self.byes = byes;
    }

    /// Sends what [`Uas::receive`] left, and does what has become due.
    pub fn tick(&mut self, now: Instant, out: &mut Outbox) {
        for kept in [&mut self.byes, &mut self.answers] {
            kept.iter().for_each(|(hop, message)| out.send(hop, message));
            kept.clear();
        }
        while let Some(due) = self.timers.pop(now) {
            let token = due.token;
            let Some(call) = self.calls.get_mut(token) else { continue };
            let hop = Hop::udp(self.listener, call.peer);
            match (due.step, call.state) {
                (STEP_ANSWER, State::Ringing) => {
                    call.state = State::Answered;
                    self.counts.sent += 1;
                    out.send(hop, &call.answer);
                    if self.answering.retransmit != Retransmit::None {
                        self.timers.after(now, Delay::Repeat(0), token, STEP_REPEAT);
                    }
                    self.timers.after(now, Delay::GiveUp, token, STEP_UNACKNOWLEDGED);
                }
                (STEP_REPEAT, State::Answered | State::Cancelled) => {
                    call.repeats += 1;
                    self.counts.sent += 1;
                    self.counts.retransmissions += 1;
                    out.send(hop, &call.answer);
                    self.timers.after(now, Delay::Repeat(call.repeats.min(3)), token, STEP_REPEAT);
                }
                (STEP_UNACKNOWLEDGED, State::Answered | State::Cancelled) => {
                    self.counts.unacknowledged += 1;
                    self.forget(token);
                }
                (STEP_FORGET, State::Over) => self.forget(token),
                (_, State::Ringing | State::Cancelled | State::Answered | State::Confirmed | State::Over) => {
                }
            }
        }
    }

    fn forget(&mut self, token: Token) {
        if let Some(call) = self.calls.remove(token) {
            self.by_call_id.remove(&call.key);
            self.give_back(call.answer);
        }
    }

    /// When [`Uas::tick`] has something to do.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Calls in the table, finished ones that linger included.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.len()
    }
}
