//! What we say ourselves: answers without a transaction where repeating them is harmless, and through one where not.

use core::time::Duration;

use tandem_auth::source_prefix;
use tandem_base::Instant;
use tandem_proxy::Rejection;
use tandem_sip::{Hop, Message, Outbox, ParseError, Reply, write_number};
use tandem_transaction::{Layer, ServerId, response_hop};

use crate::config::RETRY_AFTER;
use crate::request::Request;
use crate::{Challenge, Node};

/// What to do when the store has answered.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Answer a REGISTER.
    Answer {
        /// Its transaction.
        server: ServerId,
        /// Where it came from.
        hop: Hop,
        /// The request.
        request: Box<[u8]>,
        /// The header field lines of its 200.
        headers: Box<[u8]>,
    },
    /// Nothing: it was answered at once.
    Nobody,
}

/// An answer of ours with header fields.
pub(crate) struct Said<'a> {
    pub(crate) status: u16,
    pub(crate) reason: Option<&'static str>,
    pub(crate) headers: &'a [u8],
    /// Whether bindings changed.
    pub(crate) changed: bool,
}

/// A refusal ready to be written.
pub(crate) struct Refused {
    status: u16,
    reason: Option<&'static str>,
    tag: [u8; 16],
    headers: Vec<u8>,
}

impl Refused {
    fn reply(&self, hop: Hop) -> Reply<'_> {
        let reason = self.reason.map(str::as_bytes);
        Reply { reason, headers: &self.headers, ..Reply::new(self.status, hop.peer, &self.tag) }
    }

    /// Answers through a transaction.
    pub(crate) fn respond(
        &self,
        layer: &mut Layer,
        now: Instant,
        server: ServerId,
        message: &Message<'_>,
        hop: Hop,
        out: &mut Outbox,
    ) {
        let reply = self.reply(hop);
        layer.respond(now, server, self.status, |out| reply.write(message, out), out);
    }
}

impl Node {
    /// Answers without a transaction (RFC 3261 §8.2.7): the same request gets the same answer, and the same tag.
    pub(crate) fn answer(
        &mut self,
        hop: Hop,
        message: &Message<'_>,
        status: u16,
        headers: &[u8],
        out: &mut Outbox,
    ) {
        let tag = self.own_tag(message);
        self.send_stateless(hop, message, &Reply { headers, ..Reply::new(status, hop.peer, &tag) }, out);
    }

    fn send_stateless(&mut self, hop: Hop, message: &Message<'_>, reply: &Reply<'_>, out: &mut Outbox) {
        let to = response_hop(hop, message.via());
        if hop.transport.is_reliable()
            || self.config.auth.challenge == Challenge::Never
            || self.is_trusted(hop)
        {
            self.counters.count_answer(reply.status);
            out.write(to, |out| reply.write(message, out));
        } else {
            self.answer_stranger(hop, message, *reply, |answer| out.send(to, answer));
        }
    }

    /// Answers whoever may have feigned its source address: no longer than it has paid for.
    fn answer_stranger(
        &mut self,
        hop: Hop,
        message: &Message<'_>,
        mut reply: Reply<'_>,
        send: impl FnOnce(&[u8]),
    ) {
        let (source, asked) = (source_prefix(hop.peer.ip()), message.bytes().len());
        let mut answer = Vec::with_capacity(2 * asked);
        reply.write(message, &mut answer);
        if reply.status == 200 && answer.len() > asked {
            // What a 200 of ours to a stranger says besides is welcome and may be left out.
            answer.clear();
            reply.headers = b"";
            reply.write(message, &mut answer);
        }
        if self.debts.pay(&source, asked, answer.len()) {
            self.counters.count_answer(reply.status);
            send(&answer);
        } else {
            self.counters.answers_withheld += 1;
        }
    }

    pub(crate) fn answer_defect(
        &mut self,
        hop: Hop,
        message: &Message<'_>,
        defect: ParseError,
        out: &mut Outbox,
    ) {
        let tag = self.own_tag(message);
        let reason = defect.to_string();
        let reply = Reply { reason: Some(reason.as_bytes()), ..Reply::new(defect.status(), hop.peer, &tag) };
        self.send_stateless(hop, message, &reply, out);
    }

    pub(crate) fn answer_rejection(
        &mut self,
        hop: Hop,
        message: &Message<'_>,
        rejection: Rejection,
        out: &mut Outbox,
    ) {
        let refused = self.rejection(message, rejection);
        self.send_stateless(hop, message, &refused.reply(hop), out);
    }

    pub(crate) fn rejection(&mut self, message: &Message<'_>, rejection: Rejection) -> Refused {
        let mut headers = Vec::new();
        match rejection.status {
            405 => headers.extend_from_slice(b"Allow: OPTIONS, REGISTER\r\n"),
            420 => Self::write_unsupported(message, rejection.unsupported, &mut headers),
            503 => self.write_retry_after(&mut headers),
            _ => {}
        }
        let tag = self.own_tag(message);
        Refused { status: rejection.status, reason: rejection.reason, tag, headers }
    }

    /// Tells a source that guessed too often when it may try again; whether this guess was right stays unsaid.
    pub(crate) fn answer_busy(&mut self, hop: Hop, message: &Message<'_>, wait: Duration, out: &mut Outbox) {
        let mut headers = Vec::new();
        write_retry_after(wait.as_secs() + 1, &mut headers);
        self.answer(hop, message, 503, &headers, out);
    }

    /// OPTIONS to the node itself (§11.2): 503 while draining, so that balancers look elsewhere.
    pub(crate) fn answer_options(
        &mut self,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> Result<(), Rejection> {
        if self.is_draining {
            return Err(Rejection::because(503, "Draining"));
        }
        let mut headers = b"Allow: OPTIONS, REGISTER\r\nSupported: path\r\n".to_vec();
        write_server(&self.config.server, &mut headers);
        self.answer(request.hop, request.message, 200, &headers, out);
        Ok(())
    }

    /// Answers a request, through its transaction where it has one.
    pub(crate) fn say(
        &mut self,
        request: &Request<'_>,
        server: Option<ServerId>,
        said: &Said<'_>,
        out: &mut Outbox,
    ) {
        let tag = self.own_tag(request.message);
        let reason = said.reason.map(str::as_bytes);
        let reply =
            Reply { reason, headers: said.headers, ..Reply::new(said.status, request.hop.peer, &tag) };
        match server {
            Some(server) => {
                self.counters.count_answer(said.status);
                let write = |out: &mut Vec<u8>| reply.write(request.message, out);
                self.layer.respond(request.now, server, said.status, write, out);
            }
            None => self.send_stateless(request.hop, request.message, &reply, out),
        }
    }

    /// The To tag of our own answers: the same for a request and its ACK, and nobody else's to make.
    pub(crate) fn own_tag(&self, message: &Message<'_>) -> [u8; 16] {
        let from = message.from().and_then(|from| from.tag()).unwrap_or_default();
        let number = message.cseq().number.to_be_bytes();
        hex64(self.key.mac64(&[b"tag", message.call_id(), from, &number]))
    }

    /// A Retry-After line whose time is spread, so that those refused together do not come back together.
    pub(crate) fn write_retry_after(&mut self, out: &mut Vec<u8>) {
        let base = RETRY_AFTER.as_secs();
        write_retry_after(base + self.rng.below(base + 1), out);
    }
}

/// The Server line of a 200 (RFC 3261 §20.35); refusals, which strangers get too, are kept short.
pub(crate) fn write_server(name: &[u8], out: &mut Vec<u8>) {
    if !name.is_empty() {
        out.extend_from_slice(b"Server: ");
        out.extend_from_slice(name);
        out.extend_from_slice(b"\r\n");
    }
}

fn write_retry_after(secs: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Retry-After: ");
    write_number(out, secs);
    out.extend_from_slice(b"\r\n");
}

fn hex64(value: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (digit, shift) in digits.iter_mut().zip((0..16_u32).rev()) {
        let nibble = u32::try_from((value >> (4 * shift)) & 15).unwrap_or(0);
        *digit = char::from_digit(nibble, 16).and_then(|c| u8::try_from(c).ok()).unwrap_or(b'0');
    }
    digits
}
