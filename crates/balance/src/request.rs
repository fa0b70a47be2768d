//! What becomes of a request: SARA's one rule, that only the first request of a call is free.
//!
//! A request with our token goes by the token. Else one of a known call goes where the call is. Else it is the first,
//! or nobody's.

use core::net::SocketAddr;

use tandem_base::{Instant, Key};
use tandem_sip::{HeaderName, Hop, Message, Method, Outbox, Scheme, Uri, host_ip};

use crate::answer::{RETRY_AFTER, Refusal};
use crate::balancer::{Event, Waiting};
use crate::calls::{Asked, Cause, First, Place};
use crate::config::Path;
use crate::forward::Forward;
use crate::route::{Routed, Stamp};
use crate::token::{DestinationTag, Direction, End, Token, end_hash};
use crate::{Balancer, Choice};

/// What every step needs to know of a request.
#[derive(Clone, Copy)]
struct Request<'a> {
    now: Instant,
    hop: Hop,
    message: &'a Message<'a>,
    routed: &'a Routed<'a>,
    /// The address of the next hop, where its name was looked up; `Some(None)`: it has none.
    looked_up: Option<Option<SocketAddr>>,
    in_dialog: bool,
}

impl Balancer {
    /// Forwards, or answers, a request that [`Balancer::route`] claimed.
    pub fn handle_request(
        &mut self,
        now: Instant,
        hop: Hop,
        message: &Message<'_>,
        routed: &Routed<'_>,
        out: &mut Outbox,
    ) {
        self.handle(now, hop, message, routed, None, out);
    }

    pub(crate) fn handle_resolved(
        &mut self,
        now: Instant,
        hop: Hop,
        message: &Message<'_>,
        routed: &Routed<'_>,
        address: Option<SocketAddr>,
        out: &mut Outbox,
    ) {
        self.handle(now, hop, message, routed, Some(address), out);
    }

    fn handle(
        &mut self,
        now: Instant,
        hop: Hop,
        message: &Message<'_>,
        routed: &Routed<'_>,
        looked_up: Option<Option<SocketAddr>>,
        out: &mut Outbox,
    ) {
        self.lines.now = now;
        let in_dialog = message.to().and_then(|to| to.tag()).is_some();
        let request = Request { now, hop, message, routed, looked_up, in_dialog };
        if let Err(refusal) = self.decide(&request, out) {
            self.refuse(hop, message, refusal, out);
        }
        self.let_copies_go();
    }

    fn decide(&mut self, request: &Request<'_>, out: &mut Outbox) -> Result<(), Refusal> {
        let Request { hop, message, routed, in_dialog, .. } = *request;
        let method = message.method();
        let is_about_us = routed.is_ours && routed.next_route.is_none() && !in_dialog;
        if method == Method::Options && is_about_us && routed.uri.is_some_and(|uri| uri.user.is_none()) {
            self.answer_options(hop, message, out);
            return Ok(());
        }
        self.validate(request)?;
        match routed.stamp {
            Stamp::Forged => {
                self.counters.tokens_forged += 1;
                return Err(Refusal::new(403, "Forged Route"));
            }
            Stamp::Ours(token) if in_dialog => return self.follow_token(request, &token, out),
            Stamp::Ours(_) | Stamp::None => {}
        }
        let leaves = routed.source.is_some() && routed.pool.is_none();
        if let Some(key) = routed.known.filter(|_| !leaves) {
            return self.follow_call(request, key, out);
        }
        if leaves {
            return self.send_out(request, out);
        }
        if !is_first(method) || in_dialog {
            if let Some(pool) = routed.pool.filter(|&pool| self.finds_again(pool)) {
                return self.send_again(request, pool, out);
            }
            self.counters.unknown += 1;
            return Err(Refusal::new(481, "Call/Transaction Does Not Exist"));
        }
        match routed.pool {
            Some(pool) if routed.next_route.is_none() => self.assign(request, pool, None, out),
            Some(_) | None => {
                self.counters.refused += 1;
                Err(Refusal::new(403, "Relaying Denied"))
            }
        }
    }

    /// RFC 3261 §16.3: what must be so before anything is forwarded. Loops end by Max-Forwards.
    fn validate(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let refusal = match request.message.number(HeaderName::MaxForwards) {
            _ if request.routed.uri.is_none() => Refusal::new(400, "Malformed Request-URI"),
            _ if request.routed.uri.is_some_and(|uri| matches!(uri.scheme, Scheme::Other)) => {
                Refusal::new(416, "Unsupported URI Scheme")
            }
            Ok(Some(0)) => Refusal::new(483, "Too Many Hops"),
            Ok(Some(hops)) if hops > 255 => Refusal::new(400, "Malformed Max-Forwards"),
            Ok(_) => return Ok(()),
            Err(_) => Refusal::new(400, "Malformed Max-Forwards"),
        };
        self.counters.refused += 1;
        Err(refusal)
    }

    fn follow_token(
        &mut self,
        request: &Request<'_>,
        token: &Token,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let place = self.tags.get(&token.destination).copied();
        let sender = token.sender(request.message).unwrap_or(match place {
            Some(place) if self.sources.get(&request.hop.peer) == Some(&place) => End::Destination,
            _ => End::Outside,
        });
        let inward = sender == End::Outside;
        let known = request.routed.known.filter(|&key| self.calls.get(key).map(|call| call.place()) == place);
        if let Some(key) = known {
            self.calls.request(request.now, key, &asked(request, inward), &mut self.lines);
        }
        if !inward {
            return self.send_back(request, token, out);
        }
        match known {
            Some(_) => self.counters.followed += 1,
            None => self.counters.followed_by_token += 1,
        }
        let place = place.ok_or(Refusal::new(481, "Destination Removed"))?;
        self.send_in(request, place, token, out)
    }

    fn follow_call(&mut self, request: &Request<'_>, key: Key, out: &mut Outbox) -> Result<(), Refusal> {
        let Some(call) = self.calls.get(key) else { return Ok(()) };
        let (place, caller) = (call.place(), call.caller);
        let hash = |address: Option<tandem_sip::NameAddr<'_>>| {
            end_hash(address.and_then(|address| address.tag()).unwrap_or_default())
        };
        let token = Token { destination: self.lines.tag(place), first: End::Outside, hash: caller };
        let is_back = request.in_dialog
            && hash(request.message.from()) != caller
            && (hash(request.message.to()) == caller || request.routed.source == Some(place));
        let asked = asked(request, !is_back);
        if is_back {
            self.calls.request(request.now, key, &asked, &mut self.lines);
            return self.send_back(request, &token, out);
        }
        if self.calls.is_free(key, &asked)
            && let Some(pool) = request.routed.pool
        {
            return self.assign(request, pool, Some(key), out);
        }
        self.counters.followed += 1;
        if self.calls.is_another_try(key, &asked) {
            let first = self.first(request, place, Cause::Policy);
            self.calls.restart(request.now, key, &first, &mut self.lines);
            let token = Token { hash: first.caller, ..token };
            return self.send_in(request, place, &token, out);
        }
        self.calls.request(request.now, key, &asked, &mut self.lines);
        self.send_in(request, place, &token, out)
    }

    /// Whether a pool chooses by what every message of a call says, so that a choice can be made again.
    fn finds_again(&self, pool: u16) -> bool {
        let name = self.lines.get(pool).map_or("", |line| line.pool.settings().policy().name.as_str());
        matches!(name, "hash" | "fnv" | "rendezvous") || name.starts_with("user")
    }

    /// A request of a call that nothing tells of, in a pool that chooses by hash: where the first one went.
    fn send_again(&mut self, request: &Request<'_>, pool: u16, out: &mut Outbox) -> Result<(), Refusal> {
        let message = request.message;
        let (call_id, user) = (message.call_id(), crate::user_of(message));
        let choice = Choice { call_id, user, method: message.method(), tried: &[] };
        let unknown = Refusal::new(481, "Call/Transaction Does Not Exist");
        let line = self.lines.get_mut(pool).ok_or(unknown)?;
        let slot = line.pool.pick(request.now, &choice).map_err(|_| unknown)?;
        let place = Place { pool, slot };
        let from = message.from().and_then(|from| from.tag()).unwrap_or_default();
        let token = Token { destination: self.lines.tag(place), first: End::Outside, hash: end_hash(from) };
        self.counters.followed_by_hash += 1;
        self.send_in(request, place, &token, out)
    }

    fn first(&self, request: &Request<'_>, place: Place, cause: Cause) -> First {
        let line = self.lines.get(place.pool);
        let load = line.map(|line| line.pool.board().load(place.slot)).unwrap_or_default();
        let from = request.message.from().and_then(|from| from.tag());
        First {
            place,
            method: request.message.method(),
            cseq: request.message.cseq().number,
            caller: end_hash(from.unwrap_or_default()),
            ahead: u64::from(load.calls),
            cause,
            stays: line.is_some_and(|line| matches!(line.config.path, Path::Via | Path::RecordRoute)),
        }
    }

    /// The first request of a call: free to go anywhere.
    fn assign(
        &mut self,
        request: &Request<'_>,
        pool: u16,
        known: Option<Key>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Request { now, message, routed, .. } = *request;
        if self.is_draining {
            self.counters.draining += 1;
            return Err(Refusal::busy("Draining", RETRY_AFTER));
        }
        self.stopwatch.start();
        let Some(line) = self.lines.get_mut(pool) else {
            return Err(Refusal::new(403, "Relaying Denied"));
        };
        let choice = Choice {
            call_id: message.call_id(),
            user: crate::user_of(message),
            method: message.method(),
            tried: &[],
        };
        let slot = line.pool.pick(now, &choice).map_err(|none| {
            self.counters.no_destination += 1;
            Refusal::busy("No Destination", none.retry_after)
        })?;
        self.stopwatch.decided();
        let ahead = line.pool.board().load(slot).transactions;
        if let Some(occupancy) = line.occupancy.get_mut(slot.index()) {
            occupancy.add(ahead);
        }
        line.earn();
        let (stays_copy, place) = (line.config.failover.tries_max > 1, Place { pool, slot });
        let first = self.first(request, place, Cause::Policy);
        let key = match known {
            Some(key) => {
                self.calls.restart(now, key, &first, &mut self.lines);
                key
            }
            None => self.calls.begin(now, routed.hash, &first, &mut self.lines).map_err(|_| {
                self.counters.table_full += 1;
                Refusal::busy("Too Many Calls", RETRY_AFTER)
            })?,
        };
        if stays_copy && first.stays {
            self.keep_copy(now, key, request.hop, message, place);
        }
        self.counters.assigned += 1;
        let token = Token { destination: self.lines.tag(place), first: End::Outside, hash: first.caller };
        let sent = self.send_in(request, place, &token, out);
        self.stopwatch.forwarded();
        sent
    }

    /// To the destination, wherever Route and Request-URI would lead: that is what affinity means.
    fn send_in(
        &mut self,
        request: &Request<'_>,
        place: Place,
        token: &Token,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Some(line) = self.lines.get(place.pool) else {
            return Err(Refusal::new(481, "Destination Removed"));
        };
        let Some(destination) = line.pool.settings().destination(place.slot) else {
            return Err(Refusal::new(481, "Destination Removed"));
        };
        let (path, to) = (line.config.path, destination.hop);
        if path == Path::Redirect {
            self.redirect(request.hop, request.message, to, out);
            return Ok(());
        }
        let forward = Forward {
            request: request.message,
            routed: request.routed,
            from: request.hop,
            to,
            direction: Direction::In,
            tag: self.lines.tag(place),
            token: (path == Path::Via).then_some(token),
            has_via: !matches!(path, Path::NoVia | Path::Transparent),
            disguised: path == Path::Transparent,
        };
        self.write(&forward, out);
        Ok(())
    }

    /// From the destination's side to the other: by Route and Request-URI (RFC 3261 §16.6 step 7).
    fn send_back(&mut self, request: &Request<'_>, token: &Token, out: &mut Outbox) -> Result<(), Refusal> {
        self.send_outward(request, Direction::Back, token.destination, token, out)
    }

    /// A call that a destination starts, or a request outside calls, to somewhere else.
    fn send_out(&mut self, request: &Request<'_>, out: &mut Outbox) -> Result<(), Refusal> {
        let tag = request.routed.source.map_or(DestinationTag::NONE, |place| self.lines.tag(place));
        let from = request.message.from().and_then(|from| from.tag()).unwrap_or_default();
        let token = Token { destination: tag, first: End::Destination, hash: end_hash(from) };
        self.send_outward(request, Direction::Out, tag, &token, out)
    }

    fn send_outward(
        &mut self,
        request: &Request<'_>,
        direction: Direction,
        tag: DestinationTag,
        token: &Token,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Request { hop, message, routed, .. } = *request;
        let route = routed.next_route.and_then(tandem_sip::NameAddr::parse).and_then(|route| route.uri());
        let uri = match routed.next_route {
            Some(_) => route.ok_or(Refusal::new(400, "Malformed Route"))?,
            None if routed.is_ours => return Err(Refusal::new(404, "Not Found")),
            None => routed.uri.ok_or(Refusal::new(400, "Malformed Request-URI"))?,
        };
        let (host, port, transport) = next_hop(&uri)?;
        let peer = match (host_ip(host), request.looked_up) {
            (Some(ip), _) => SocketAddr::new(ip, port.unwrap_or(transport.default_port())),
            (None, Some(Some(address))) => address,
            (None, Some(None)) => return Err(Refusal::new(404, "Unknown Host")),
            (None, None) => {
                let waiting = Waiting { hop, bytes: message.bytes().into() };
                let ticket = self
                    .waiting
                    .insert(waiting)
                    .map_err(|_| Refusal::busy("Too Many Lookups", RETRY_AFTER))?;
                let host = host.to_ascii_lowercase().into();
                self.events.push_back(Event::Resolve { ticket: ticket.to_bits(), host, port, transport });
                return Ok(());
            }
        };
        let listener = self.listeners.towards(transport, peer, routed.listener.unwrap_or(hop.listener));
        let ip = peer.ip();
        // Nobody's telephone: a target there would make us send to everyone, or to ourselves.
        let nowhere = ip.is_multicast() || ip.is_unspecified() || ip == core::net::Ipv4Addr::BROADCAST;
        let listener = listener.filter(|_| !nowhere).ok_or(Refusal::new(404, "Unreachable"))?;
        self.counters.outward += 1;
        let forward = Forward {
            request: message,
            routed,
            from: hop,
            to: Hop { transport, listener, peer, connection: None },
            direction,
            tag,
            token: Some(token),
            has_via: true,
            disguised: false,
        };
        self.write(&forward, out);
        Ok(())
    }
}

/// The host, port and transport that a URI asks for (RFC 3263 §4.1).
fn next_hop<'a>(uri: &Uri<'a>) -> Result<(&'a [u8], Option<u16>, tandem_sip::Transport), Refusal> {
    if !uri.is_sip() {
        return Err(Refusal::new(416, "Unsupported URI Scheme"));
    }
    let transport = match uri.transport() {
        Ok(transport) => transport.unwrap_or(tandem_sip::Transport::Udp),
        Err(_) => return Err(Refusal::new(404, "Unreachable")),
    };
    let maddr = uri.param(b"maddr").and_then(|param| param.value);
    Ok((maddr.unwrap_or(uri.host), uri.port, transport))
}

fn asked(request: &Request<'_>, inward: bool) -> Asked {
    Asked {
        method: request.message.method(),
        cseq: request.message.cseq().number,
        inward,
        in_dialog: request.in_dialog,
    }
}

/// Methods that may begin something: a call, a subscription, or a request for itself (CHECKLIST A9).
const fn is_first(method: Method) -> bool {
    !matches!(method, Method::Ack | Method::Cancel | Method::Bye | Method::Prack | Method::Update)
}
