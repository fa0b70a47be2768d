//! RFC 3261 §16.4: what the Route header field says to us, and whether it is ours to believe.

use tandem_base::Instant;
use tandem_sip::{HeaderName, ListenerId, Message, NameAddr, Uri};

use crate::Proxy;
use crate::cookie::{self, Worth};

/// What a request's Route (or Request-URI, behind a strict router) tells about the dialog it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialog {
    /// It names no Record-Route of ours.
    None,
    /// It carries the cookie that we wrote into this very call's Record-Route, and a To tag: it is in-dialog.
    Ours,
    /// It names us, without a cookie or To tag: a preloaded route through its outbound proxy.
    Preloaded,
    /// It carries such a cookie, and that is too old to be believed.
    Expired,
    /// It names us with a cookie that is not this dialog's.
    Forged,
}

impl Dialog {
    /// Whether we wrote its cookie, lately or not: the request belongs to a dialog that exists already.
    #[must_use]
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Ours | Self::Expired)
    }
}

/// A request after §16.4.
#[derive(Clone, Copy, Debug)]
pub struct Routed<'a> {
    /// The Request-URI to work on: the request's own, or the last Route value behind a strict router.
    pub request_uri: &'a [u8],
    /// How many Route values at the top are ours, to be removed.
    pub own_routes: usize,
    /// Whether the last Route value has become the Request-URI, so that it is removed too.
    pub last_route_used: bool,
    /// The listener that the last of them names: ours towards the next hop, where it has two values (RFC 5658 §3).
    pub listener: Option<ListenerId>,
    /// The first Route value that stays; the request goes there.
    pub next_route: Option<&'a [u8]>,
    /// Whether it belongs to a dialog that came through us.
    pub dialog: Dialog,
}

impl Proxy {
    /// Takes our own values off the route (§16.4).
    #[must_use]
    pub fn route<'a>(&self, now: Instant, request: &Message<'a>) -> Routed<'a> {
        let mut routed = Routed {
            request_uri: request.request_uri(),
            own_routes: 0,
            last_route_used: false,
            listener: None,
            next_route: None,
            dialog: Dialog::None,
        };
        if request.field(HeaderName::Route).is_none() {
            return routed;
        }
        // A strict router puts the next hop, us, into the Request-URI and the target at the route's end.
        if let Some(uri) = self.own_route(request.request_uri()) {
            routed.dialog = self.dialog(now, request, &uri);
            if let Some(last) =
                request.values(HeaderName::Route).last().and_then(|v| NameAddr::parse(v.bytes))
            {
                routed.request_uri = last.uri_bytes;
                routed.last_route_used = true;
            }
        }
        let kept = request.values(HeaderName::Route).count() - usize::from(routed.last_route_used);
        for value in request.values(HeaderName::Route).take(kept) {
            let Some(uri) = NameAddr::parse(value.bytes).and_then(|route| self.own_host(route.uri_bytes))
            else {
                routed.next_route = Some(value.bytes);
                break;
            };
            routed.own_routes += 1;
            routed.listener = self.listeners.find(uri.host, uri.port).or(routed.listener);
            // A phone may put its outbound proxy's bare address before the dialog's route.
            if matches!(routed.dialog, Dialog::None | Dialog::Preloaded) {
                routed.dialog = self.dialog(now, request, &uri);
            }
        }
        routed
    }

    fn own_host<'a>(&self, uri: &'a [u8]) -> Option<Uri<'a>> {
        Uri::parse(uri).filter(|uri| uri.is_sip() && self.listeners.is_ours(uri.host, uri.port))
    }

    /// A URI that we wrote into a Record-Route: our host, and our cookie's parameter.
    fn own_route<'a>(&self, uri: &'a [u8]) -> Option<Uri<'a>> {
        self.own_host(uri).filter(|uri| uri.user.is_none() && uri.param(b"c").is_some())
    }

    fn dialog(&self, now: Instant, request: &Message<'_>, uri: &Uri<'_>) -> Dialog {
        let Some(cookie) = uri.param(b"c").and_then(|p| p.value) else { return Dialog::Preloaded };
        let has_tag = request.to().is_some_and(|to| to.tag().is_some());
        let (hour, lifetime) = (self.hour(now), self.config.dialog_lifetime);
        let judged = self.keys().map(|key| cookie::judge(key, hour, lifetime, cookie, request));
        match judged.into_iter().find(|worth| *worth != Worth::Forged).unwrap_or(Worth::Forged) {
            Worth::Forged => Dialog::Forged,
            Worth::Good | Worth::Expired if !has_tag => Dialog::Preloaded,
            Worth::Good => Dialog::Ours,
            Worth::Expired => Dialog::Expired,
        }
    }
}
