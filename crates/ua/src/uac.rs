//! Requests of ours: RFC 3261 §8.1, §9.1, §10.2, §13.2, §22.

use core::net::SocketAddr;
use std::collections::VecDeque;

use tandem_base::Instant;
use tandem_sip::{HeaderName, Hop, ListenerId, Message, Method, Outbox};
use tandem_transaction::{ClientId, ResponseArrival};

use crate::dialog::{SentName, contact};
use crate::keyring::Asked;
use crate::write::{BODY, RequestHead, address_of, token, uri_of};
use crate::{DialogId, Event, RequestId, Ua};

/// Challenges answered for one request: the first, and as many again as call only the nonce stale.
const CHALLENGES_MAX: u8 = 3;

/// What a registration asks for (§10.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Bind our contact for so many seconds; 0 takes it away.
    Bind(u32),
    /// Take all bindings away: `Contact: *`.
    UnbindAll,
    /// Tell what is bound.
    Fetch,
}

/// What a request of ours is part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Call,
    InDialog(DialogId),
    Other,
}

/// One request of ours.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) method: Method,
    /// The method's token, for one that has no name of its own.
    token: Option<String>,
    pub(crate) uri: Vec<u8>,
    pub(crate) route: Vec<Vec<u8>>,
    address: SocketAddr,
    pub(crate) from: Vec<u8>,
    pub(crate) from_tag: Vec<u8>,
    pub(crate) to: Vec<u8>,
    pub(crate) call_id: Vec<u8>,
    pub(crate) cseq: u32,
    pub(crate) headers: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) kind: Kind,
    client: Option<ClientId>,
    challenges: u8,
    uses_keys: bool,
    is_cancelled: bool,
    is_answered: bool,
    contacts: VecDeque<Vec<u8>>,
    /// The dialog of the first 2xx.
    dialog: Option<DialogId>,
}

impl Sent {
    pub(crate) fn new(method: Method, uri: Vec<u8>, address: SocketAddr) -> Self {
        Self {
            method,
            token: None,
            uri,
            route: Vec::new(),
            address,
            from: Vec::new(),
            from_tag: Vec::new(),
            to: Vec::new(),
            call_id: Vec::new(),
            cseq: 1,
            headers: Vec::new(),
            body: Vec::new(),
            kind: Kind::Other,
            client: None,
            challenges: 0,
            uses_keys: false,
            is_cancelled: false,
            is_answered: false,
            contacts: VecDeque::new(),
            dialog: None,
        }
    }

    fn method_token(&self) -> String {
        self.token.clone().unwrap_or_else(|| self.method.to_string())
    }

    fn name(&self) -> SentName {
        SentName {
            call_id: self.call_id.clone(),
            from: self.from.clone(),
            from_tag: self.from_tag.clone(),
            uri: self.uri.clone(),
            cseq: self.cseq,
        }
    }
}

impl Ua {
    /// Registers, unregisters or fetches.
    pub fn register(&mut self, now: Instant, wish: Wish, out: &mut Outbox) -> RequestId {
        let (call_id, from_tag, _) = self.registration.clone();
        self.registration.2 += 1;
        let mut sent =
            Sent::new(Method::Register, format!("sip:{}", self.settings.domain).into(), self.settings.proxy);
        let aor = self.settings.aor();
        sent.from = [format!("<{aor}>;tag=").as_bytes(), &from_tag].concat();
        sent.from_tag = from_tag;
        sent.to = format!("<{aor}>").into_bytes();
        sent.call_id = call_id;
        sent.cseq = self.registration.2;
        let q = if self.settings.q.is_empty() { String::new() } else { format!(";q={}", self.settings.q) };
        sent.headers = match wish {
            Wish::Bind(secs) => {
                format!("Contact: <{}>{q}\r\nExpires: {secs}\r\n", self.settings.contact()).into_bytes()
            }
            Wish::UnbindAll => b"Contact: *\r\nExpires: 0\r\n".to_vec(),
            Wish::Fetch => Vec::new(),
        };
        self.start_request(now, sent, out)
    }

    /// Whether a registration waits for its answer: §10.2 allows no other until then.
    #[must_use]
    pub fn is_registering(&self) -> bool {
        self.requests.values().any(|sent| sent.method == Method::Register && !sent.is_answered)
    }

    /// Calls `target`, a URI.
    pub fn call(&mut self, now: Instant, target: &str, out: &mut Outbox) -> RequestId {
        let mut sent = self.outside(Method::Invite, target);
        sent.headers = format!("Contact: <{}>\r\n", self.settings.contact()).into_bytes();
        sent.body = BODY.to_vec();
        sent.kind = Kind::Call;
        self.start_request(now, sent, out)
    }

    /// Sends a request outside any dialog, such as OPTIONS or MESSAGE, to `target`, a URI.
    pub fn request(&mut self, now: Instant, method: Method, target: &str, out: &mut Outbox) -> RequestId {
        let sent = self.outside(method, target);
        self.start_request(now, sent, out)
    }

    /// [`Ua::request`] with a method that has no name of its own.
    pub fn request_token(&mut self, now: Instant, method: &str, target: &str, out: &mut Outbox) -> RequestId {
        let mut sent = self.outside(Method::from_token(method.as_bytes()), target);
        sent.token = Some(method.to_owned());
        self.start_request(now, sent, out)
    }

    fn outside(&mut self, method: Method, target: &str) -> Sent {
        let mut sent = Sent::new(method, target.into(), self.settings.proxy);
        sent.from_tag = token(&mut self.rng);
        sent.from = [format!("<{}>;tag=", self.settings.aor()).as_bytes(), &sent.from_tag].concat();
        sent.to = format!("<{target}>").into_bytes();
        sent.call_id = token(&mut self.rng);
        sent
    }

    /// Cancels a call (§9.1), or hangs it up if it is answered.
    pub fn cancel(&mut self, now: Instant, call: RequestId, out: &mut Outbox) {
        let Some(sent) = self.requests.get_mut(&call.0) else { return };
        sent.is_cancelled = true;
        let (client, dialog) = (sent.client, sent.dialog);
        if let Some(client) = client {
            self.layer.cancel(now, client, out);
        }
        if let Some(dialog) = dialog {
            self.hang_up(now, dialog, out);
        }
    }

    /// Cancels the re-INVITEs of a dialog that have no answer.
    pub(crate) fn cancel_inside(&mut self, now: Instant, dialog: DialogId, out: &mut Outbox) {
        for sent in self.requests.values_mut() {
            let is_waiting = sent.method == Method::Invite && !sent.is_answered;
            if let Some(client) = sent.client.filter(|_| is_waiting && sent.kind == Kind::InDialog(dialog)) {
                sent.is_cancelled = true;
                self.layer.cancel(now, client, out);
            }
        }
    }

    /// The Call-ID of a request while it is in progress.
    #[must_use]
    pub fn call_id(&self, request: RequestId) -> Option<&[u8]> {
        self.requests.get(&request.0).map(|sent| &sent.call_id[..])
    }

    pub(crate) fn start_request(&mut self, now: Instant, mut sent: Sent, out: &mut Outbox) -> RequestId {
        let id = self.new_id();
        sent.uses_keys = self.settings.keeps_credentials;
        self.requests.insert(id, sent);
        self.send(now, id, out);
        RequestId(id)
    }

    /// Sends the request as it stands, in a transaction of its own.
    fn send(&mut self, now: Instant, id: u64, out: &mut Outbox) {
        let Self { settings, layer, keyring, requests, .. } = self;
        let Some(sent) = requests.get_mut(&id) else { return };
        let method = sent.method_token();
        let mut headers = Vec::new();
        if sent.uses_keys {
            let (user, password) = (&settings.user[..], &settings.password[..]);
            keyring.write(Asked { method: &method, uri: &sent.uri, user, password }, &mut headers);
        }
        headers.extend_from_slice(&sent.headers);
        let hop = Hop::udp(ListenerId(0), sent.address);
        let opened = layer.open_client(now, sent.method, hop, id, out, |out, branch| {
            let head = RequestHead {
                method: &method,
                uri: &sent.uri,
                address: settings.address,
                branch,
                rport: settings.rport,
                route: &sent.route,
                max_forwards: settings.max_forwards,
                from: &sent.from,
                to: &sent.to,
                call_id: &sent.call_id,
                cseq: sent.cseq,
                headers: &headers,
                body: &sent.body,
            };
            head.write(out);
        });
        match opened {
            Ok(client) => sent.client = Some(client),
            Err(_) => self.answered(RequestId(id), 503, b""),
        }
    }

    fn answered(&mut self, request: RequestId, status: u16, message: &[u8]) {
        if let Some(sent) = self.requests.get_mut(&request.0)
            && !sent.is_answered
        {
            sent.is_answered = true;
            self.events.push_back(Event::Answered { request, status, message: message.into() });
        }
    }

    /// The transaction gave up: as if 408 or 503 had come (§8.1.3.1).
    pub(crate) fn fail_request(&mut self, now: Instant, id: u64, status: u16, out: &mut Outbox) {
        if self.requests.get(&id).is_none_or(|sent| sent.is_answered) {
            return;
        }
        if self.next_contact(now, id, out) {
            return;
        }
        self.answered(RequestId(id), status, b"");
        self.ended_in_dialog(now, id, status, out);
    }

    /// The transaction is over: nothing more comes for the request unless it was sent anew.
    pub(crate) fn close_request(&mut self, client: ClientId, id: u64) {
        if self.requests.get(&id).is_some_and(|sent| sent.client == Some(client)) {
            self.requests.remove(&id);
        }
    }

    pub(crate) fn receive_response(&mut self, now: Instant, response: &Message<'_>, out: &mut Outbox) {
        let status = response.status();
        match self.layer.receive_response(now, response, out) {
            ResponseArrival::Absorbed => {}
            // A 2xx that outlived its transaction is acknowledged while its dialog is known.
            ResponseArrival::Stray => {
                if (200..300).contains(&status) && response.cseq().method == Method::Invite {
                    let tag = |address: Option<tandem_sip::NameAddr<'_>>| {
                        address.and_then(|address| address.tag()).unwrap_or_default().to_vec()
                    };
                    let (from, to) = (tag(response.from()), tag(response.to()));
                    if let Some(dialog) = self.find_dialog(response.call_id(), &from, &to) {
                        self.acknowledge(dialog, response.cseq().number, out);
                    }
                }
            }
            ResponseArrival::Pass { user, .. } => match status {
                ..=100 => {}
                101..200 => self.events.push_back(Event::Provisional { request: RequestId(user), status }),
                200..300 => self.succeeded(now, user, response, out),
                _ => self.refused(now, user, response, out),
            },
        }
    }

    fn succeeded(&mut self, now: Instant, id: u64, response: &Message<'_>, out: &mut Outbox) {
        let request = RequestId(id);
        let Some(sent) = self.requests.get(&id) else { return };
        match sent.kind {
            Kind::Call => self.call_answered(now, request, response, out),
            Kind::InDialog(dialog) => {
                let is_invite = sent.method == Method::Invite;
                self.answered(request, response.status(), response.bytes());
                if is_invite && let Some(known) = self.dialogs.get_mut(&dialog.0) {
                    known.is_reinviting = false;
                    if let Some(target) = contact(response) {
                        known.target = target;
                    }
                    self.acknowledge(dialog, response.cseq().number, out);
                }
            }
            Kind::Other => self.answered(request, response.status(), response.bytes()),
        }
    }

    /// A 2xx to a call: every one is acknowledged, and only the first of a call nobody cancelled lives on.
    fn call_answered(&mut self, now: Instant, request: RequestId, response: &Message<'_>, out: &mut Outbox) {
        let Some(sent) = self.requests.get(&request.0) else { return };
        let (name, first, is_cancelled) = (sent.name(), sent.dialog, sent.is_cancelled);
        let tag = response.to().and_then(|to| to.tag()).unwrap_or_default().to_vec();
        if let Some(dialog) = self.find_dialog(&name.call_id, &name.from_tag, &tag) {
            self.acknowledge(dialog, name.cseq, out);
            return;
        }
        let dialog = self.dialog_from_response(&name, response);
        self.acknowledge(dialog, name.cseq, out);
        if let Some(sent) = self.requests.get_mut(&request.0)
            && first.is_none()
        {
            sent.dialog = Some(dialog);
        }
        self.answered(request, response.status(), response.bytes());
        if first.is_some() || is_cancelled {
            self.events.push_back(Event::Surplus { request, dialog });
            self.hang_up(now, dialog, out);
        } else {
            self.events.push_back(Event::Established { request, dialog });
        }
    }

    fn refused(&mut self, now: Instant, id: u64, response: &Message<'_>, out: &mut Outbox) {
        let status = response.status();
        let cnonce = token(&mut self.rng);
        let Some(sent) = self.requests.get_mut(&id) else { return };
        if matches!(status, 401 | 407) && !sent.is_cancelled {
            sent.challenges += 1;
            let challenges = sent.challenges;
            if let Some(stale) = self.keyring.take(response, &cnonce)
                && (challenges == 1 || stale && challenges <= CHALLENGES_MAX)
            {
                self.send_again(now, id, true, out);
                return;
            }
        }
        if (300..400).contains(&status) && self.settings.follows_redirects {
            let contacts = response.values(HeaderName::Contact).filter_map(|value| uri_of(value.bytes));
            if let Some(sent) = self.requests.get_mut(&id) {
                sent.contacts.extend(contacts.map(<[u8]>::to_vec));
            }
        }
        if self.next_contact(now, id, out) {
            return;
        }
        self.answered(RequestId(id), status, response.bytes());
        self.ended_in_dialog(now, id, status, out);
    }

    /// Calls the next contact of a redirection, straight (§8.1.3.4); false without any.
    fn next_contact(&mut self, now: Instant, id: u64, out: &mut Outbox) -> bool {
        let proxy = self.settings.proxy;
        let Some(sent) = self.requests.get_mut(&id).filter(|sent| !sent.is_cancelled) else { return false };
        let Some(uri) = sent.contacts.pop_front() else { return false };
        sent.address = address_of(&uri, proxy);
        sent.uri = uri;
        self.send_again(now, id, false, out);
        true
    }

    /// The same request with the next CSeq number.
    fn send_again(&mut self, now: Instant, id: u64, uses_keys: bool, out: &mut Outbox) {
        let Some(sent) = self.requests.get_mut(&id) else { return };
        sent.uses_keys |= uses_keys;
        match sent.kind {
            Kind::InDialog(dialog) => {
                if let Some(dialog) = self.dialogs.get_mut(&dialog.0) {
                    dialog.local_cseq += 1;
                    sent.cseq = dialog.local_cseq;
                }
            }
            Kind::Call | Kind::Other if sent.method == Method::Register => {
                self.registration.2 += 1;
                sent.cseq = self.registration.2;
            }
            Kind::Call | Kind::Other => sent.cseq += 1,
        }
        self.send(now, id, out);
    }

    /// What the failure of a request inside a dialog means for the dialog (§12.2.1.2, §14.1).
    fn ended_in_dialog(&mut self, now: Instant, id: u64, status: u16, out: &mut Outbox) {
        let Some(Kind::InDialog(dialog)) = self.requests.get(&id).map(|sent| sent.kind) else { return };
        if let Some(known) = self.dialogs.get_mut(&dialog.0) {
            known.is_reinviting = false;
        }
        match status {
            481 => self.end_dialog(now, dialog, true, out),
            408 => {
                self.hang_up(now, dialog, out);
            }
            _ => {}
        }
    }
}
