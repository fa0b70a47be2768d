//! Requests of others: RFC 3261 §8.2, §9.2, §12.2.2, §13.3, §14.2, §15.1.2.

use tandem_base::Instant;
use tandem_sip::{HeaderName, Hop, Index, Limits, Message, Method, Outbox, Reply};
use tandem_transaction::{Arrival, ServerId, ServerKey};

use crate::dialog::{Unacknowledged, contact};
use crate::write::{BODY, token};
use crate::{Alarm, Answer, DialogId, Event, Ua};

/// An INVITE that came.
#[derive(Debug)]
pub(crate) struct Incoming {
    server: ServerId,
    request: Box<[u8]>,
    hop: Hop,
    tag: Vec<u8>,
    /// What is done with it.
    answer: Answer,
    has_final: bool,
}

impl Ua {
    pub(crate) fn receive_request(
        &mut self,
        now: Instant,
        hop: Hop,
        request: &Message<'_>,
        out: &mut Outbox,
    ) {
        match self.layer.receive_request(now, request, hop, out) {
            Arrival::Retransmission | Arrival::AckAbsorbed => {}
            Arrival::AckToAccepted(_) => self.acknowledged(now, request),
            Arrival::New(_) if request.method() == Method::Ack => self.acknowledged(now, request),
            Arrival::New(key) => self.new_request(now, key, hop, request, out),
            Arrival::Cancel { key, invite } => self.cancelled(now, key, invite, hop, request, out),
        }
    }

    /// Answers a request that is no call, in a transaction.
    fn reply(
        &mut self,
        now: Instant,
        key: ServerKey,
        hop: Hop,
        request: &Message<'_>,
        status: u16,
        out: &mut Outbox,
    ) {
        let Ok(server) = self.layer.open_server(now, key, request, hop, 0) else { return };
        let tag = token(&mut self.rng);
        let reply = Reply::new(status, hop.peer, &tag);
        self.layer.respond(now, server, status, |out| reply.write(request, out), out);
    }

    fn new_request(
        &mut self,
        now: Instant,
        key: ServerKey,
        hop: Hop,
        request: &Message<'_>,
        out: &mut Outbox,
    ) {
        let method = request.method();
        if request.to().is_some_and(|to| to.tag().is_some()) {
            match self.dialog_of(request) {
                Some(dialog) => self.request_inside(now, key, dialog, hop, request, out),
                None => self.reply(now, key, hop, request, 481, out),
            }
        } else if method == Method::Invite {
            self.invited(now, key, hop, request, out);
        } else if method == Method::Bye {
            self.reply(now, key, hop, request, 481, out);
        } else if method == Method::Register {
            self.reply(now, key, hop, request, 405, out);
        } else {
            self.events.push_back(Event::Received { method, dialog: None });
            self.reply(now, key, hop, request, 200, out);
        }
    }

    fn invited(&mut self, now: Instant, key: ServerKey, hop: Hop, request: &Message<'_>, out: &mut Outbox) {
        // §8.2.2.2: the same request by another way is a merged one.
        let is_merged = self.incoming.values().any(|incoming| {
            let mut index = Index::new();
            Message::parse(&incoming.request, &mut index, &Limits::unbounded()).is_ok_and(|other| {
                other.call_id() == request.call_id()
                    && other.cseq().number == request.cseq().number
                    && other.from().and_then(|from| from.tag()) == request.from().and_then(|from| from.tag())
            })
        });
        if is_merged {
            self.reply(now, key, hop, request, 482, out);
            return;
        }
        let id = self.new_id();
        let Ok(server) = self.layer.open_server(now, key, request, hop, id) else { return };
        let answer = self.settings.answer.clone();
        if let Some(after) = answer.ring_after {
            self.alarms.schedule(now + after, Alarm::Ring(id));
        }
        if let Some(after) = answer.after {
            self.alarms.schedule(now + after, Alarm::Answer(id));
        }
        let tag = token(&mut self.rng);
        let request_bytes = request.bytes().into();
        let incoming = Incoming { server, request: request_bytes, hop, tag, answer, has_final: false };
        self.incoming.insert(id, incoming);
        self.events.push_back(Event::Incoming { call_id: request.call_id().into() });
    }

    /// 180.
    pub(crate) fn ring(&mut self, now: Instant, id: u64, out: &mut Outbox) {
        self.respond_call(now, id, 180, out);
    }

    /// The final answer that the script names.
    pub(crate) fn answer(&mut self, now: Instant, id: u64, out: &mut Outbox) {
        let Some(status) = self.incoming.get(&id).map(|incoming| incoming.answer.status) else { return };
        self.respond_call(now, id, status, out);
    }

    fn respond_call(&mut self, now: Instant, id: u64, status: u16, out: &mut Outbox) {
        let Some(incoming) = self.incoming.get_mut(&id).filter(|incoming| !incoming.has_final) else {
            return;
        };
        incoming.has_final = status >= 200;
        let (server, hop, tag) = (incoming.server, incoming.hop, incoming.tag.clone());
        let (bytes, contacts) = (incoming.request.clone(), incoming.answer.contacts.clone());
        let mut index = Index::new();
        let Ok(request) = Message::parse(&bytes, &mut index, &Limits::unbounded()) else { return };
        let is_success = (200..300).contains(&status);
        let mut headers = Vec::new();
        match status {
            101..300 => {
                // §12.1.1: a response that makes a dialog carries the route back, and where we are.
                for field in request.fields(HeaderName::RecordRoute) {
                    headers.extend_from_slice(b"Record-Route: ");
                    headers.extend_from_slice(field.value);
                    headers.extend_from_slice(b"\r\n");
                }
                headers.extend(format!("Contact: <{}>\r\n", self.settings.contact()).bytes());
            }
            300..400 => {
                for contact in contacts {
                    headers.extend(format!("Contact: <{contact}>\r\n").bytes());
                }
            }
            _ => {}
        }
        if is_success {
            headers.extend_from_slice(b"Content-Type: application/sdp\r\n");
        }
        let body = if is_success { BODY } else { b"" };
        let reply = Reply { headers: &headers, body, ..Reply::new(status, hop.peer, &tag) };
        if !self.layer.respond(now, server, status, |out| reply.write(&request, out), out) {
            return;
        }
        if is_success {
            let hop = self.layer.server_hop(server).unwrap_or(hop);
            let dialog = self.dialog_from_request(&request, &tag);
            self.expect_ack(now, dialog, request.cseq().number, hop, out.last().into());
            self.events.push_back(Event::Accepted { dialog });
        }
    }

    /// Remembers a 2xx until its ACK comes.
    fn expect_ack(&mut self, now: Instant, dialog: DialogId, cseq: u32, hop: Hop, bytes: Box<[u8]>) {
        let t1 = self.settings.transaction.t1;
        if let Some(known) = self.dialogs.get_mut(&dialog.0) {
            known.unacknowledged = Some(Unacknowledged { cseq, bytes, hop, since: now, interval: t1 });
            self.alarms.schedule(now + t1, Alarm::Repeat(dialog.0));
        }
    }

    /// §13.3.1.4: T1 after the 2xx it is repeated, then at doubled intervals up to T2; after 64·T1 comes a BYE.
    pub(crate) fn repeat_ok(&mut self, now: Instant, dialog: u64, out: &mut Outbox) {
        let timers = self.settings.transaction;
        let Some(known) = self.dialogs.get_mut(&dialog) else { return };
        let Some(waiting) = &mut known.unacknowledged else { return };
        // An alarm of an earlier 2xx of this dialog.
        if now < waiting.since + waiting.interval.min(timers.t1) {
            return;
        }
        if now.saturating_since(waiting.since) >= 64 * timers.t1 {
            self.events.push_back(Event::Unacknowledged { dialog: DialogId(dialog) });
            self.hang_up(now, DialogId(dialog), out);
            return;
        }
        out.send(waiting.hop, &waiting.bytes);
        waiting.interval = (2 * waiting.interval).min(timers.t2);
        let next = (now + waiting.interval).min(waiting.since + 64 * timers.t1);
        self.alarms.schedule(next, Alarm::Repeat(dialog));
    }

    fn acknowledged(&mut self, now: Instant, ack: &Message<'_>) {
        let Some(dialog) = self.dialog_of(ack) else { return };
        let answer = &self.settings.answer;
        if answer.is_deaf_to_ack {
            return;
        }
        let hang_up_after = answer.hang_up_after;
        let Some(known) = self.dialogs.get_mut(&dialog.0) else { return };
        if known.unacknowledged.as_ref().is_none_or(|waiting| waiting.cseq != ack.cseq().number) {
            return;
        }
        known.unacknowledged = None;
        self.events.push_back(Event::Confirmed { dialog });
        if let Some(after) = hang_up_after {
            self.alarms.schedule(now + after, Alarm::HangUp(dialog.0));
        }
    }

    fn cancelled(
        &mut self,
        now: Instant,
        key: ServerKey,
        invite: Option<ServerId>,
        hop: Hop,
        request: &Message<'_>,
        out: &mut Outbox,
    ) {
        let known = invite.and_then(|server| self.layer.server_user(server));
        self.reply(now, key, hop, request, if known.is_some() { 200 } else { 481 }, out);
        let Some(id) = known else { return };
        if self.incoming.get(&id).is_some_and(|incoming| !incoming.has_final) {
            self.respond_call(now, id, 487, out);
            self.events.push_back(Event::Cancelled { call_id: request.call_id().into() });
        }
    }

    fn request_inside(
        &mut self,
        now: Instant,
        key: ServerKey,
        dialog: DialogId,
        hop: Hop,
        request: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Some(known) = self.dialogs.get_mut(&dialog.0) else { return };
        let (method, number) = (request.method(), request.cseq().number);
        // §12.2.2: out of order.
        if known.remote_cseq.is_some_and(|last| number < last) {
            self.reply(now, key, hop, request, 500, out);
            return;
        }
        known.remote_cseq = Some(number);
        if known.is_over {
            self.reply(now, key, hop, request, 481, out);
            return;
        }
        if method == Method::Bye {
            self.reply(now, key, hop, request, 200, out);
            self.end_dialog(now, dialog, true, out);
        } else if method != Method::Invite {
            self.events.push_back(Event::Received { method, dialog: Some(dialog) });
            self.reply(now, key, hop, request, 200, out);
        } else if known.is_reinviting || known.unacknowledged.is_some() {
            self.reply(now, key, hop, request, 491, out);
        } else {
            if let Some(target) = contact(request) {
                known.target = target;
            }
            let tag = known.local_tag.clone();
            let Ok(server) = self.layer.open_server(now, key, request, hop, 0) else { return };
            let contact = self.settings.contact();
            let headers = format!("Contact: <{contact}>\r\nContent-Type: application/sdp\r\n");
            let reply = Reply { headers: headers.as_bytes(), body: BODY, ..Reply::new(200, hop.peer, &tag) };
            self.layer.respond(now, server, 200, |out| reply.write(request, out), out);
            let hop = self.layer.server_hop(server).unwrap_or(hop);
            self.expect_ack(now, dialog, number, hop, out.last().into());
            self.events.push_back(Event::Received { method, dialog: Some(dialog) });
        }
    }
}
