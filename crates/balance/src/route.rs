//! Whose is a request: which call it belongs to, which pool it is for, and what our own Route values say
//! (RFC 3261 §16.4).
//!
//! Left out: strict routers (RFC 2543), which put the next hop into the Request-URI.

use tandem_base::Key;
use tandem_sip::{HeaderName, Hop, ListenerId, Message, NameAddr, Uri};

use crate::Balancer;
use crate::calls::Place;
use crate::token::{PARAMETER, Token};

/// What a request's Route says of its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stamp {
    /// Nothing.
    None,
    /// It carries our token for this very call.
    Ours(Token),
    /// It carries a token that is not.
    Forged,
}

/// A request that is the balancer's, and what routes it.
#[derive(Clone, Copy, Debug)]
pub struct Routed<'a> {
    pub(crate) uri: Option<Uri<'a>>,
    /// How many Route values at the top are ours, to be removed.
    pub(crate) own_routes: usize,
    /// The first Route value that stays.
    pub(crate) next_route: Option<&'a [u8]>,
    /// The listener that our last value names: ours towards the next hop.
    pub(crate) listener: Option<ListenerId>,
    pub(crate) stamp: Stamp,
    /// Whether the Request-URI names our own address.
    pub(crate) is_ours: bool,
    /// The pool that the Request-URI is for.
    pub(crate) pool: Option<u16>,
    /// The destination that the request came from.
    pub(crate) source: Option<Place>,
    pub(crate) hash: u128,
    pub(crate) known: Option<Key>,
}

impl Balancer {
    /// Whether a request is the balancer's: it belongs to a call of ours, is for one of the pools, or comes from a
    /// destination. `is_local`: its Request-URI names what the node itself serves.
    #[must_use]
    pub fn route<'a>(&self, hop: Hop, request: &Message<'a>, is_local: bool) -> Option<Routed<'a>> {
        let uri = Uri::parse(request.request_uri());
        let is_ours = uri.is_some_and(|uri| uri.is_sip() && self.listeners.is_ours(uri.host, uri.port));
        let hash = self.calls.hash(request.call_id());
        let mut routed = Routed {
            uri,
            own_routes: 0,
            next_route: None,
            listener: None,
            stamp: Stamp::None,
            is_ours,
            pool: None,
            source: None,
            hash,
            known: self.calls.find(hash),
        };
        if request.field(HeaderName::Route).is_some() {
            self.read_route(request, &mut routed);
        }
        if routed.stamp != Stamp::None {
            return Some(routed);
        }
        routed.source = self.sources.get(&hop.peer).copied();
        if is_local {
            return None;
        }
        // What a destination sends elsewhere is no call for its own pool.
        let takes_rest = routed.source.is_none() || is_ours;
        routed.pool = self.pool_for(uri.as_ref()).or(self.rest.filter(|_| takes_rest));
        (routed.pool.is_some() || routed.known.is_some() || routed.source.is_some()).then_some(routed)
    }

    fn read_route<'a>(&self, request: &Message<'a>, routed: &mut Routed<'a>) {
        for value in request.values(HeaderName::Route) {
            let uri = NameAddr::parse(value.bytes).and_then(|route| Uri::parse(route.uri_bytes));
            let Some(uri) = uri.filter(|uri| uri.is_sip() && self.listeners.is_ours(uri.host, uri.port))
            else {
                routed.next_route = Some(value.bytes);
                return;
            };
            routed.own_routes += 1;
            routed.listener = self.listeners.find(uri.host, uri.port).or(routed.listener);
            if routed.stamp == Stamp::None
                && let Some(text) = uri.param(PARAMETER).and_then(|param| param.value)
            {
                let token = self.signer.read_token(text, request.call_id());
                routed.stamp = token.map_or(Stamp::Forged, Stamp::Ours);
            }
        }
    }

    /// The pool that has a Request-URI's host among its own.
    fn pool_for(&self, uri: Option<&Uri<'_>>) -> Option<u16> {
        let uri = uri.filter(|uri| uri.is_sip())?;
        let order = self.order.iter().copied();
        order.filter(|&pool| Some(pool) != self.rest).find(|&pool| {
            let hosts = self.lines.get(pool).map_or(&[][..], |line| &line.config.hosts);
            hosts.iter().any(|host| host.eq_ignore_ascii_case(uri.host))
        })
    }
}
