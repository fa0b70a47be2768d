//! RFC 3261 §16.5: the URIs to try, and where the octets for each would go.

use core::net::SocketAddr;

use tandem_sip::{Hop, ListenerId, Transport, Uri};

use crate::Listeners;

/// Where a request goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// A known address.
    Hop(Hop),
    /// A name to ask DNS for; the listener is the one to prefer.
    Name {
        /// Where in the target set's text the host name stands.
        host: Part,
        /// The port, where the URI has one.
        port: Option<u16>,
        /// How to reach it.
        transport: Transport,
        /// The listener to prefer.
        listener: ListenerId,
    },
    /// Nothing of ours can reach it: no listener for its transport or address family.
    Unreachable,
}

/// A stretch of a [`TargetSet`]'s text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    start: u32,
    end: u32,
}

/// One target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    uri: Part,
    route: Part,
    /// Where its octets go.
    pub next_hop: NextHop,
    /// Its q, in thousandths; higher is tried first.
    pub q: u16,
}

/// The targets of one request, their texts side by side in one buffer that is reused from request to request.
#[derive(Clone, Debug, Default)]
pub struct TargetSet {
    text: Vec<u8>,
    targets: Vec<Target>,
}

impl TargetSet {
    /// No targets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all, keeping the buffers.
    pub fn clear(&mut self) {
        self.text.clear();
        self.targets.clear();
    }

    /// How many targets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The targets, in the order in which they were added or sorted.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Adds a URI, to be reached by `hop` where that is known (a registered flow, a fixed neighbour), by the first
    /// value of `route` (values joined by commas, as in Path) or else by the URI itself.
    ///
    /// Header fields that a URI asks for (`?`) have no place in a Request-URI (§19.1.1), and nobody but the sender writes
    /// header fields into its request. A URI that stands here already is left out (§16.5: the set holds each once).
    pub fn add(
        &mut self,
        uri: &[u8],
        route: &[u8],
        hop: Option<Hop>,
        q: u16,
        listeners: &Listeners,
        preferred: ListenerId,
    ) {
        let uri = without_headers(uri);
        if self.targets.iter().any(|t| self.part(t.uri) == uri) {
            return;
        }
        let uri_part = self.store(uri);
        let route_part = self.store(route);
        let next_hop = match hop {
            Some(hop) => NextHop::Hop(hop),
            None => self.next_hop(uri, route, listeners, preferred),
        };
        self.targets.push(Target { uri: uri_part, route: route_part, next_hop, q });
    }

    /// Sorts by descending q; targets of equal q keep their order (§16.6).
    pub fn sort(&mut self) {
        self.targets.sort_by_key(|t| core::cmp::Reverse(t.q));
    }

    /// A target's URI.
    #[must_use]
    pub fn uri(&self, target: &Target) -> &[u8] {
        self.part(target.uri)
    }

    /// A target's route values, joined by commas; empty without any.
    #[must_use]
    pub fn route(&self, target: &Target) -> &[u8] {
        self.part(target.route)
    }

    /// A part's text.
    #[must_use]
    pub fn part(&self, part: Part) -> &[u8] {
        self.text.get(part.start as usize..part.end as usize).unwrap_or_default()
    }

    /// Keeps where each target's octets go and forgets the route that said so: it stands in the message already.
    pub fn forget_routes(&mut self) {
        for target in &mut self.targets {
            target.route = Part::default();
        }
    }

    fn store(&mut self, bytes: &[u8]) -> Part {
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.text.extend_from_slice(bytes);
        Part { start, end: u32::try_from(self.text.len()).unwrap_or(u32::MAX) }
    }

    /// §16.6 step 7: the first Route value, else the Request-URI.
    fn next_hop(
        &mut self,
        uri: &[u8],
        route: &[u8],
        listeners: &Listeners,
        preferred: ListenerId,
    ) -> NextHop {
        let first = tandem_sip::NameAddr::parse(first_value(route)).map(|route| route.uri_bytes);
        let Some(uri) = Uri::parse(first.unwrap_or(uri)).filter(Uri::is_sip) else {
            return NextHop::Unreachable;
        };
        let sips = matches!(uri.scheme, tandem_sip::Scheme::Sips);
        let transport = match uri.transport() {
            Ok(Some(Transport::Udp | Transport::Tcp)) | Ok(None) if sips => Transport::Tls,
            Ok(Some(transport)) => transport,
            Ok(None) => Transport::Udp,
            Err(_) => return NextHop::Unreachable,
        };
        // RFC 3263 §4.1: maddr, where given, replaces the host. What it may name is the caller's policy.
        let maddr = uri.param(b"maddr").and_then(|p| p.value);
        let host = maddr.unwrap_or(uri.host);
        match tandem_sip::host_ip(host) {
            Some(ip) => {
                let peer = SocketAddr::new(ip, uri.port.unwrap_or(transport.default_port()));
                hop_to(transport, peer, listeners, preferred)
            }
            None => {
                let (port, host) = (uri.port, host.to_ascii_lowercase());
                NextHop::Name { host: self.store(&host), port, transport, listener: preferred }
            }
        }
    }
}

/// The hop to an address from the listener that suits it.
pub(crate) fn hop_to(
    transport: Transport,
    peer: SocketAddr,
    listeners: &Listeners,
    preferred: ListenerId,
) -> NextHop {
    let ip = peer.ip();
    // Nobody's telephone: a target there would make us send to everyone, or to ourselves on port 0.
    let nowhere =
        ip.is_multicast() || ip.is_unspecified() || ip == core::net::Ipv4Addr::BROADCAST || peer.port() == 0;
    match listeners.towards(transport, peer, preferred) {
        Some(listener) if !nowhere => NextHop::Hop(Hop { transport, listener, peer, connection: None }),
        _ => NextHop::Unreachable,
    }
}

/// A URI without its header fields.
fn without_headers(uri: &[u8]) -> &[u8] {
    if !uri.contains(&b'?') {
        return uri;
    }
    let headers = Uri::parse(uri).map_or(0, |uri| uri.headers().len());
    match uri.len().checked_sub(headers + 1).and_then(|len| uri.split_at_checked(len)) {
        Some((before, [b'?', ..])) => before,
        _ => uri,
    }
}

/// The first of the values that a Route or Path list holds.
pub(crate) fn first_value(list: &[u8]) -> &[u8] {
    let mut inside = false;
    let end = list.iter().position(|&b| {
        match b {
            b'<' => inside = true,
            b'>' => inside = false,
            _ => {}
        }
        b == b',' && !inside
    });
    list.get(..end.unwrap_or(list.len())).unwrap_or_default()
}
