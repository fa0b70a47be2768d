//! What a balancer says itself: overload, questions about itself, and what it can't forward.
//!
//! All without a transaction (RFC 3261 §8.2.7): the same request gets the same answer and the same tag.

use core::time::Duration;

use tandem_sip::{Hop, Message, Method, Outbox, ParseError, Reply, Via, write_number};

use crate::Balancer;
use crate::base32::digits;

/// Why a request is not forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    status: u16,
    reason: &'static str,
    retry_after: Option<Duration>,
}

impl Refusal {
    pub(crate) const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason, retry_after: None }
    }

    pub(crate) const fn busy(reason: &'static str, retry_after: Duration) -> Self {
        Self { status: 503, reason, retry_after: Some(retry_after) }
    }
}

/// Those refused are told to come back after this and up to as much again, so that they do not come back at once.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Balancer {
    pub(crate) fn refuse(&mut self, hop: Hop, request: &Message<'_>, refusal: Refusal, out: &mut Outbox) {
        if request.method() == Method::Ack {
            return;
        }
        let mut headers = Vec::new();
        if let Some(wait) = refusal.retry_after {
            let secs = wait.as_secs().max(1);
            headers.extend_from_slice(b"Retry-After: ");
            write_number(&mut headers, secs + self.rng.below(secs + 1));
            headers.extend_from_slice(b"\r\n");
        }
        self.answer(hop, request, refusal.status, Some(refusal.reason), &headers, out);
    }

    pub(crate) fn answer(
        &self,
        hop: Hop,
        request: &Message<'_>,
        status: u16,
        reason: Option<&str>,
        headers: &[u8],
        out: &mut Outbox,
    ) {
        let from = request.from().and_then(|from| from.tag()).unwrap_or_default();
        let number = request.cseq().number.to_be_bytes();
        let tag = digits::<13>(self.own.mac64(&[request.call_id(), from, &number]));
        let reply =
            Reply { reason: reason.map(str::as_bytes), headers, ..Reply::new(status, hop.peer, &tag) };
        out.write(response_hop(hop, request.via()), |out| reply.write(request, out));
    }

    pub(crate) fn answer_defect(
        &self,
        hop: Hop,
        request: &Message<'_>,
        defect: ParseError,
        out: &mut Outbox,
    ) {
        // An ACK is never answered, and what does not know its own method could be one.
        if request.method() != Method::Ack && request.cseq().method != Method::Ack {
            self.answer(hop, request, defect.status(), Some(&defect.to_string()), b"", out);
        }
    }

    /// OPTIONS to the balancer itself (RFC 3261 §11.2): 503 while draining, so that those before us look elsewhere.
    pub(crate) fn answer_options(&mut self, hop: Hop, request: &Message<'_>, out: &mut Outbox) {
        self.counters.probes_answered += 1;
        if self.is_draining {
            self.refuse(hop, request, Refusal::busy("Draining", RETRY_AFTER), out);
        } else {
            self.answer(hop, request, 200, None, b"", out);
        }
    }
}

/// Where the response to a request goes: RFC 3261 §18.2.2, RFC 3581 §4; never to a host that is only named in its Via.
pub(crate) fn response_hop(hop: Hop, via: &Via<'_>) -> Hop {
    if hop.transport.is_reliable() || via.rport.is_some() {
        return hop;
    }
    let mut peer = hop.peer;
    peer.set_port(via.port.unwrap_or(hop.transport.default_port()));
    Hop { peer, ..hop }
}
