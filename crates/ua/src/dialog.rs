//! Dialogs: RFC 3261 §12, and the requests inside them (§14 re-INVITE, §15 BYE).

use core::net::SocketAddr;
use core::time::Duration;

use tandem_base::Instant;
use tandem_sip::{HeaderName, Hop, ListenerId, Message, Method, Outbox, Uri};

use crate::uac::{Kind, Sent};
use crate::write::{BODY, RequestHead, address_of, token, uri_of};
use crate::{Alarm, DialogId, Event, RequestId, Ua};

/// A 2xx that waits for its ACK (§13.3.1.4).
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) cseq: u32,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) hop: Hop,
    pub(crate) since: Instant,
    pub(crate) interval: Duration,
}

/// One dialog, at either end.
#[derive(Debug)]
pub(crate) struct Dialog {
    pub(crate) call_id: Vec<u8>,
    pub(crate) local_tag: Vec<u8>,
    pub(crate) remote_tag: Vec<u8>,
    /// From and To values of our requests, tags included.
    pub(crate) local: Vec<u8>,
    pub(crate) remote: Vec<u8>,
    pub(crate) target: Vec<u8>,
    pub(crate) route: Vec<Vec<u8>>,
    pub(crate) local_cseq: u32,
    /// `None` until the peer sends a request inside the dialog (§12.1.2).
    pub(crate) remote_cseq: Option<u32>,
    pub(crate) is_over: bool,
    /// The ACKs of our INVITEs, by CSeq number: a repeated 2xx gets the same again (§13.2.2.4).
    pub(crate) acks: Vec<(u32, Box<[u8]>, Hop)>,
    pub(crate) unacknowledged: Option<Unacknowledged>,
    /// Whether a re-INVITE of ours waits for its answer.
    pub(crate) is_reinviting: bool,
}

impl Dialog {
    pub(crate) const fn is_live(&self) -> bool {
        !self.is_over
    }

    /// Request-URI, Route values and address of a request inside the dialog (§12.2.1.1).
    fn way(&self, fallback: SocketAddr) -> (Vec<u8>, Vec<Vec<u8>>, SocketAddr) {
        let first = self.route.first().and_then(|value| uri_of(value));
        match first {
            None => (self.target.clone(), Vec::new(), address_of(&self.target, fallback)),
            Some(first) if Uri::parse(first).is_some_and(|uri| uri.is_loose()) => {
                (self.target.clone(), self.route.clone(), address_of(first, fallback))
            }
            // A strict router gets itself as Request-URI and the target behind the rest of the route.
            Some(first) => {
                let mut route: Vec<Vec<u8>> = self.route.iter().skip(1).cloned().collect();
                route.push([b"<", &self.target[..], b">"].concat());
                (first.to_vec(), route, address_of(first, fallback))
            }
        }
    }
}

impl Ua {
    /// The dialog that a request names, as its receiver sees it.
    pub(crate) fn dialog_of(&self, request: &Message<'_>) -> Option<DialogId> {
        let local = request.to().and_then(|to| to.tag())?;
        let remote = request.from().and_then(|from| from.tag()).unwrap_or_default();
        self.find_dialog(request.call_id(), local, remote)
    }

    /// The caller's side of a dialog, from the 2xx (§12.1.2).
    pub(crate) fn dialog_from_response(&mut self, sent: &SentName, response: &Message<'_>) -> DialogId {
        let mut route: Vec<Vec<u8>> =
            response.values(HeaderName::RecordRoute).map(|value| value.bytes.to_vec()).collect();
        route.reverse();
        let dialog = Dialog {
            call_id: sent.call_id.clone(),
            local_tag: sent.from_tag.clone(),
            remote_tag: response.to().and_then(|to| to.tag()).unwrap_or_default().to_vec(),
            local: sent.from.clone(),
            remote: response.header(HeaderName::To).unwrap_or_default().to_vec(),
            target: contact(response).unwrap_or_else(|| sent.uri.clone()),
            route,
            local_cseq: sent.cseq,
            remote_cseq: None,
            is_over: false,
            acks: Vec::new(),
            unacknowledged: None,
            is_reinviting: false,
        };
        let id = self.new_id();
        self.dialogs.insert(id, dialog);
        DialogId(id)
    }

    /// The callee's side, from the INVITE and the tag of our answer (§12.1.1).
    pub(crate) fn dialog_from_request(&mut self, request: &Message<'_>, tag: &[u8]) -> DialogId {
        let to = request.header(HeaderName::To).unwrap_or_default();
        let dialog = Dialog {
            call_id: request.call_id().to_vec(),
            local_tag: tag.to_vec(),
            remote_tag: request.from().and_then(|from| from.tag()).unwrap_or_default().to_vec(),
            local: [to, b";tag=", tag].concat(),
            remote: request.header(HeaderName::From).unwrap_or_default().to_vec(),
            target: contact(request).unwrap_or_default(),
            route: request.values(HeaderName::RecordRoute).map(|value| value.bytes.to_vec()).collect(),
            local_cseq: 0,
            remote_cseq: Some(request.cseq().number),
            is_over: false,
            acks: Vec::new(),
            unacknowledged: None,
            is_reinviting: false,
        };
        let id = self.new_id();
        self.dialogs.insert(id, dialog);
        DialogId(id)
    }

    /// Sends the ACK of a 2xx, or the same again (§13.2.2.4).
    pub(crate) fn acknowledge(&mut self, id: DialogId, cseq: u32, out: &mut Outbox) {
        let Some(dialog) = self.dialogs.get_mut(&id.0) else { return };
        if let Some((_, ack, hop)) = dialog.acks.iter().find(|(of, ..)| *of == cseq) {
            out.send(*hop, ack);
            return;
        }
        let (uri, route, address) = dialog.way(self.settings.proxy);
        let hop = Hop::udp(ListenerId(0), address);
        let branch = [b"z9hG4bKack", &token(&mut self.rng)[..]].concat();
        let head = RequestHead {
            method: "ACK",
            uri: &uri,
            address: self.settings.address,
            branch: &branch,
            rport: self.settings.rport,
            route: &route,
            max_forwards: self.settings.max_forwards,
            from: &dialog.local,
            to: &dialog.remote,
            call_id: &dialog.call_id,
            cseq,
            headers: b"",
            body: b"",
        };
        out.write(hop, |out| head.write(out));
        dialog.acks.push((cseq, out.last().into(), hop));
    }

    /// Sends a request inside a dialog; `None` if that is over or unknown.
    ///
    /// An INVITE gets a body, and a Contact that refreshes the target (§14.1).
    pub fn request_in(
        &mut self,
        now: Instant,
        dialog: DialogId,
        method: Method,
        out: &mut Outbox,
    ) -> Option<RequestId> {
        let fallback = self.settings.proxy;
        let is_invite = method == Method::Invite;
        let known = self.dialogs.get_mut(&dialog.0).filter(|dialog| dialog.is_live())?;
        known.local_cseq += 1;
        known.is_reinviting |= is_invite;
        let (uri, route, address) = known.way(fallback);
        let mut sent = Sent::new(method, uri, address);
        sent.route = route;
        sent.from = known.local.clone();
        sent.from_tag = known.local_tag.clone();
        sent.to = known.remote.clone();
        sent.call_id = known.call_id.clone();
        sent.cseq = known.local_cseq;
        sent.kind = Kind::InDialog(dialog);
        if is_invite {
            sent.headers = format!("Contact: <{}>\r\n", self.settings.contact()).into_bytes();
            sent.body = BODY.to_vec();
        }
        Some(self.start_request(now, sent, out))
    }

    /// Ends a dialog with a BYE; `None` if it is over already.
    pub fn hang_up(&mut self, now: Instant, dialog: DialogId, out: &mut Outbox) -> Option<RequestId> {
        let request = self.request_in(now, dialog, Method::Bye, out)?;
        self.end_dialog(now, dialog, false, out);
        Some(request)
    }

    /// Marks a dialog as over; what is repeated may still be answered for 64·T1.
    ///
    /// A re-INVITE under way is cancelled: its answer may have been lost, and nobody repeats it any more.
    pub(crate) fn end_dialog(&mut self, now: Instant, dialog: DialogId, by_peer: bool, out: &mut Outbox) {
        let Some(known) = self.dialogs.get_mut(&dialog.0).filter(|dialog| dialog.is_live()) else { return };
        known.is_over = true;
        known.unacknowledged = None;
        self.alarms.schedule(now + 64 * self.settings.transaction.t1, Alarm::Forget(dialog.0));
        self.events.push_back(Event::Ended { dialog, by_peer });
        self.cancel_inside(now, dialog, out);
    }
}

/// What of a request makes a dialog.
#[derive(Clone, Debug)]
pub(crate) struct SentName {
    pub(crate) call_id: Vec<u8>,
    pub(crate) from: Vec<u8>,
    pub(crate) from_tag: Vec<u8>,
    pub(crate) uri: Vec<u8>,
    pub(crate) cseq: u32,
}

/// The URI of a message's Contact.
pub(crate) fn contact(message: &Message<'_>) -> Option<Vec<u8>> {
    message.values(HeaderName::Contact).next().and_then(|value| uri_of(value.bytes)).map(<[u8]>::to_vec)
}
