//! Whose request is it: ours to answer, the registrar's, or to be forwarded, and to where (RFC 3261 §16.3 to §16.6).

use tandem_base::Instant;
use tandem_proxy::{Dialog, Forwarding, Rejection, Routed, Turn, redirect_headers};
use tandem_sip::{HeaderName, Hop, Message, Method, Outbox, Uri};
use tandem_transaction::ServerKey;

use crate::authorise::Standing;
use crate::{Mode, Node};

/// A request and what every step needs to know of it.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) now: Instant,
    pub(crate) hop: Hop,
    pub(crate) message: &'a Message<'a>,
    /// Opens its server transaction; `None` for an ACK or a CANCEL, which get none here.
    pub(crate) key: Option<ServerKey>,
}

impl Request<'_> {
    /// An ACK, or a CANCEL of nothing we know: never answered, never challenged, forwarded without state.
    const fn is_mute(&self) -> bool {
        matches!(self.message.method(), Method::Ack | Method::Cancel)
    }
}

impl Node {
    pub(crate) fn new_request(
        &mut self,
        now: Instant,
        hop: Hop,
        message: &Message<'_>,
        key: Option<ServerKey>,
        out: &mut Outbox,
    ) {
        let request = Request { now, hop, message, key };
        // The ACK to an answer that we gave without a transaction ends here.
        if message.method() == Method::Ack
            && message.to().and_then(|to| to.tag()).is_some_and(|tag| tag == self.own_tag(message))
        {
            self.counters.retransmissions += 1;
            return;
        }
        if let Err(rejection) = self.route_request(&request, out) {
            self.counters.refused += 1;
            if !request.is_mute() {
                self.answer_rejection(hop, message, rejection, out);
            }
        }
    }

    fn route_request(&mut self, request: &Request<'_>, out: &mut Outbox) -> Result<(), Rejection> {
        let message = request.message;
        self.proxy.validate(message)?;
        let routed = self.proxy.route(message);
        let uri = Uri::parse(routed.request_uri).ok_or(Rejection::because(400, "Malformed Route"))?;
        let is_local = self.config.domains.of(&uri, &self.config.listeners).is_some();
        if is_local && routed.next_route.is_none() && message.method() == Method::Register {
            return self.register(request, &uri, out);
        }
        let is_ours = is_local && uri.user.is_none() && routed.next_route.is_none();
        if is_ours && message.method() == Method::Options {
            return self.answer_options(request, out);
        }
        let standing = self.authorise(request, &routed, out)?;
        if standing == Standing::Challenged {
            return Ok(());
        }
        if self.is_draining && !matches!(routed.dialog, Dialog::Ours) && !request.is_mute() {
            return Err(Rejection::because(503, "Draining"));
        }
        if is_ours {
            return Err(Rejection::status(405));
        }
        self.find_targets(request, &routed, &uri, is_local, standing)?;
        self.forward(request, routed, standing, out)
    }

    /// §16.5: the Request-URI itself, or the bindings of the user it names.
    fn find_targets(
        &mut self,
        request: &Request<'_>,
        routed: &Routed<'_>,
        uri: &Uri<'_>,
        is_local: bool,
        standing: Standing,
    ) -> Result<(), Rejection> {
        let listener = request.hop.listener;
        self.targets.clear();
        if !is_local || routed.next_route.is_some() {
            if !standing.may_leave() {
                self.counters.relay_refused += 1;
                return Err(Rejection::because(403, "Relaying Denied"));
            }
            let route = routed.next_route.unwrap_or_default();
            // A route that stays in the message decides where it goes, and is not written a second time.
            self.targets.add(routed.request_uri, route, None, 1000, &self.config.listeners, listener);
            self.targets.forget_routes();
            if !uri.is_sip() && routed.next_route.is_none() {
                return Err(Rejection::status(416));
            }
            return Ok(());
        }
        let domains = &self.config.domains;
        domains.write_aor(uri, &self.config.listeners, &mut self.aor);
        let (targets, listeners) = (&mut self.targets, &self.config.listeners);
        let found = self.shared.locations.lookup(&self.aor, request.now, |binding| {
            targets.add(binding.contact, binding.path, binding.received, binding.q, listeners, listener);
        });
        if found > 0 {
            return Ok(());
        }
        self.counters.not_found += 1;
        let is_user = self.shared.users.get(&self.aor).is_some();
        Err(Rejection::status(if is_user || !standing.may_leave() { 480 } else { 404 }))
    }

    fn forward(
        &mut self,
        request: &Request<'_>,
        routed: Routed<'_>,
        standing: Standing,
        out: &mut Outbox,
    ) -> Result<(), Rejection> {
        let Request { now, hop, message, key } = *request;
        let in_dialog = routed.dialog == Dialog::Ours;
        if self.config.mode == Mode::Redirect && !in_dialog && !request.is_mute() {
            self.targets.sort();
            let mut headers = core::mem::take(&mut self.scratch);
            headers.clear();
            redirect_headers(&self.targets, &mut headers);
            self.answer(hop, message, 302, &headers, out);
            self.scratch = headers;
            return Ok(());
        }
        let forwarding = Forwarding {
            request: *message,
            hop,
            routed,
            strip_credentials: standing == Standing::Authenticated,
            breadth: None,
        };
        // A nonce count is used up by the first copy of a request: only a transaction knows the next one as a repetition.
        let wants_state = match self.config.mode {
            Mode::Stateful => true,
            Mode::Auto | Mode::Stateless | Mode::Redirect => {
                self.targets.len() != 1 || standing == Standing::Authenticated
            }
        };
        let Some(key) = key.filter(|_| !request.is_mute()) else {
            let mut turn = Turn { now, layer: &mut self.layer, out };
            if !self.proxy.forward_stateless(&mut turn, &forwarding, &self.targets) {
                self.counters.refused += 1;
            }
            return Ok(());
        };
        if !wants_state {
            let mut turn = Turn { now, layer: &mut self.layer, out };
            if self.proxy.forward_stateless(&mut turn, &forwarding, &self.targets) {
                return Ok(());
            }
        }
        let Ok(server) = self.layer.open_server(now, key, message, hop, 0) else {
            return Err(Rejection::because(503, "Too Many Transactions"));
        };
        if message.method() == Method::Invite {
            // §16.2: at once, so that the caller stops repeating itself.
            let trying = tandem_sip::Reply { to_tag: None, ..tandem_sip::Reply::new(100, hop.peer, b"") };
            self.layer.respond(now, server, 100, |out| trying.write(message, out), out);
        }
        let mut turn = Turn { now, layer: &mut self.layer, out };
        if let Err(rejection) = self.proxy.forward_stateful(&mut turn, server, &forwarding, &mut self.targets)
        {
            self.counters.refused += 1;
            let reply = self.rejection(message, rejection);
            reply.respond(&mut self.layer, now, server, message, hop, out);
        }
        Ok(())
    }

    /// The Unsupported line that a 420 must carry: what Proxy-Require asked for.
    pub(crate) fn write_unsupported(message: &Message<'_>, out: &mut Vec<u8>) {
        for field in message.fields(HeaderName::ProxyRequire) {
            out.extend_from_slice(b"Unsupported: ");
            out.extend_from_slice(field.value);
            out.extend_from_slice(b"\r\n");
        }
    }
}
