//! Whose request is it: ours to answer, the registrar's, or to be forwarded, and to where (RFC 3261 §16.3 to §16.6).

use tandem_base::Instant;
use tandem_proxy::{Forwarding, Locate, Rejection, Routed, Turn, Wanted, redirect_headers};
use tandem_sip::{HeaderName, Hop, Message, Method, Outbox, Scheme, Uri};
use tandem_transaction::ServerKey;

use crate::answer::Said;
use crate::authorise::Standing;
use crate::local::is_sips;
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
        let accepted = self.counters.auth_accepted;
        let Err(rejection) = self.route_request(&request, out) else { return };
        self.counters.refused += 1;
        if request.is_mute() {
            return;
        }
        // Once its nonce count is used up, a repetition that no transaction knows would be challenged anew.
        let proved = self.counters.auth_accepted != accepted;
        let server =
            key.filter(|_| proved).and_then(|key| self.layer.open_server(now, key, message, hop, 0).ok());
        match server {
            None => self.answer_rejection(hop, message, rejection, out),
            Some(server) => {
                self.counters.count_answer(rejection.status);
                let refused = self.rejection(message, rejection);
                refused.respond(&mut self.layer, now, server, message, hop, out);
            }
        }
    }

    fn route_request(&mut self, request: &Request<'_>, out: &mut Outbox) -> Result<(), Rejection> {
        let message = request.message;
        let checked = self.proxy.validate(message);
        // What is ours to answer travels no further: hops, loops and Proxy-Require say nothing to us (§16.3).
        if checked.is_err_and(|rejection| !matches!(rejection.status, 420 | 440 | 482 | 483)) {
            return checked;
        }
        let routed = self.proxy.route(request.now, message);
        let uri = Uri::parse(routed.request_uri).ok_or(Rejection::because(400, "Malformed Route"))?;
        let is_local = self.config.domains.of(&uri, &self.config.listeners).is_some();
        if is_local && routed.next_route.is_none() && message.method() == Method::Register {
            return self.register(request, &uri, out);
        }
        let is_ours = is_local && uri.user.is_none() && routed.next_route.is_none();
        if is_ours && message.method() == Method::Options {
            Self::check_required(message)?;
            return self.answer_options(request, out);
        }
        checked?;
        let standing = self.authorise(request, &routed, out)?;
        if standing == Standing::Challenged {
            return Ok(());
        }
        if self.is_draining && !routed.dialog.is_up() && !request.is_mute() {
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
        let listener = routed.listener.unwrap_or(request.hop.listener);
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
        let is_secure = matches!(uri.scheme, Scheme::Sips);
        self.shared.locations.lookup(&self.aor, request.now, |binding| {
            // What was asked for under sips goes nowhere in the clear (§26.2.2).
            if is_sips(binding.contact) || !is_secure {
                targets.add(binding.contact, binding.path, binding.received, binding.q, listeners, listener);
            }
        });
        let mut is_circle = false;
        if self.targets.targets().iter().any(|target| self.local.leads_to_us(&self.targets, target)) {
            self.targets.clear();
            let wanted = Wanted { uri, q: None, is_secure, listener };
            is_circle = self.local.locate(request.now, wanted, &mut self.targets);
        }
        if !self.targets.is_empty() {
            self.targets.sort();
            return Ok(());
        }
        if is_circle {
            return Err(Rejection::status(482));
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
        let in_dialog = routed.dialog.is_up();
        if self.config.mode == Mode::Redirect && !in_dialog && !request.is_mute() {
            // A redirect to the very URI that was asked for would lead in a circle (§8.3).
            let is_other = |target| self.targets.uri(target) != message.request_uri();
            if !self.targets.targets().iter().any(is_other) {
                return Err(Rejection::status(404));
            }
            let mut headers = core::mem::take(&mut self.scratch);
            headers.clear();
            redirect_headers(&self.targets, &mut headers);
            let key = key.filter(|_| matches!(standing, Standing::Authenticated(_)));
            let server = key.and_then(|key| self.layer.open_server(now, key, message, hop, 0).ok());
            self.say(
                request,
                server,
                &Said { status: 302, reason: None, headers: &headers, changed: false },
                out,
            );
            self.scratch = headers;
            return Ok(());
        }
        let forwarding = Forwarding {
            request: *message,
            hop,
            routed,
            checked_credentials: match standing {
                Standing::Authenticated(line) => Some(line),
                Standing::InDialog | Standing::Trusted | Standing::Stranger | Standing::Challenged => None,
            },
            breadth: None,
        };
        // A nonce count is used up by the first copy of a request: only a transaction knows the next one as a repetition.
        let wants_state = match self.config.mode {
            Mode::Stateful => true,
            // Who follows 3xx answers must still know the request when one comes.
            Mode::Auto if self.config.proxy.recurse_redirects => true,
            Mode::Auto | Mode::Stateless | Mode::Redirect => {
                self.targets.len() != 1 || forwarding.checked_credentials.is_some()
            }
        };
        let Some(key) = key.filter(|_| !request.is_mute()) else {
            let mut turn = Turn { now, layer: &mut self.layer, out };
            if !self.proxy.forward_stateless(&mut turn, &forwarding, &self.targets) {
                self.counters.refused += 1;
            }
            return Ok(());
        };
        // A call must be able to end however many are up: what belongs to one needs no state to get through (§16.11).
        let is_full = || self.layer.servers_full() || self.layer.clients_full() || self.proxy.is_full();
        if !wants_state || in_dialog && is_full() {
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

    /// What a request to this node itself requires (§8.2.2.3).
    pub(crate) fn check_required(message: &Message<'_>) -> Result<(), Rejection> {
        if message.values(HeaderName::Require).any(|value| is_unknown(HeaderName::Require, value.bytes)) {
            return Err(Rejection { status: 420, reason: None, unsupported: Some(HeaderName::Require) });
        }
        Ok(())
    }

    /// The Unsupported lines that a 420 must carry: what `name` asked for and we do not know.
    pub(crate) fn write_unsupported(message: &Message<'_>, name: Option<HeaderName>, out: &mut Vec<u8>) {
        let Some(name) = name else { return };
        for value in message.values(name).filter(|value| is_unknown(name, value.bytes)) {
            out.extend_from_slice(b"Unsupported: ");
            out.extend_from_slice(value.bytes);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Whether an option tag is none of ours: the registrar knows `path`, the proxy needs to know none.
fn is_unknown(name: HeaderName, tag: &[u8]) -> bool {
    !tag.is_empty() && (name != HeaderName::Require || !tag.eq_ignore_ascii_case(b"path"))
}
