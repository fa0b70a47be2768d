//! From octets to a message and its transaction.

use tandem_base::Instant;
use tandem_proxy::Turn;
use tandem_sip::{Hop, Index, Message, Method, Outbox};
use tandem_transaction::Arrival;

use crate::Node;
use crate::answer::Said;
use crate::request::Request;

impl Node {
    /// Takes one received message: a datagram, or what a stream's framing cut out.
    pub fn handle_input(&mut self, now: Instant, hop: Hop, bytes: &[u8], out: &mut Outbox) {
        let mut index = core::mem::take(&mut self.index);
        self.receive(now, hop, bytes, &mut index, out);
        self.index = index;
        self.drain_layer(now, out);
    }

    fn receive(&mut self, now: Instant, hop: Hop, bytes: &[u8], index: &mut Index, out: &mut Outbox) {
        let message = match Message::parse(bytes, index, &self.config.limits) {
            Ok(message) => message,
            Err(error) => {
                self.counters.drop_unreadable(error);
                return;
            }
        };
        if message.is_request() {
            self.counters.count_request(message.method());
            self.receive_request(now, hop, &message, out);
        } else {
            self.counters.count_response(message.status());
            if self.balance_response(now, &message, out) {
                return;
            }
            self.proxy.handle_response(&mut Turn { now, layer: &mut self.layer, out }, &message);
        }
    }

    fn receive_request(&mut self, now: Instant, hop: Hop, request: &Message<'_>, out: &mut Outbox) {
        if let Some(defect) = request.defect() {
            self.counters.malformed += 1;
            // An ACK is never answered, and what does not know its own method could be one.
            if request.method() != Method::Ack && request.cseq().method != Method::Ack {
                self.answer_defect(hop, request, defect, out);
            }
            return;
        }
        if self.balance_request(now, hop, request, out) {
            return;
        }
        match self.layer.receive_request(now, request, hop, out) {
            Arrival::Retransmission | Arrival::AckAbsorbed => self.counters.retransmissions += 1,
            Arrival::Cancel { key, invite: Some(invite) } => {
                // §9.2: its own transaction outlives the INVITE's, so that a late repetition is known as one.
                let server = self.layer.open_server(now, key, request, hop, 0).ok();
                let cancel = Request { now, hop, message: request, key: None };
                self.say(
                    &cancel,
                    server,
                    &Said { status: 200, reason: None, headers: &[], changed: false },
                    out,
                );
                if let Some(user) = self.layer.server_user(invite) {
                    self.proxy.cancel(&mut Turn { now, layer: &mut self.layer, out }, user);
                }
            }
            Arrival::New(key) => self.new_request(now, hop, request, Some(key), out),
            // A 2xx's ACK may reuse the INVITE's branch (RFC 6026 §7.1); without a transaction a CANCEL goes on
            // without state (RFC 3261 §16.10). Neither gets a transaction of its own.
            Arrival::AckToAccepted(_) | Arrival::Cancel { invite: None, .. } => {
                self.new_request(now, hop, request, None, out);
            }
        }
    }
}
