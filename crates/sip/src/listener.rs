//! Our own addresses: which URIs mean us, and the header fields that name us.

use core::net::SocketAddr;

use crate::{ListenerId, Transport, Uri, host_ip, same_host, write_sent_by};

/// One listener: its transport, what it is bound to, and the name it goes by.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its transport.
    pub transport: Transport,
    /// The address it is bound to.
    pub address: SocketAddr,
    sent_by: Box<[u8]>,
    host: Box<[u8]>,
    port: u16,
    /// `Via: SIP/2.0/UDP host:port;branch=`
    via: Box<[u8]>,
    /// `sip:host:port;lr` and the transport where it is not UDP: the head of our Record-Route URI.
    route: Box<[u8]>,
}

impl Listener {
    /// A listener bound to `address` that others are told to reach as `advertise` (`host` or `host:port`).
    ///
    /// `None` if `advertise` is no host and port.
    #[must_use]
    pub fn new(transport: Transport, address: SocketAddr, advertise: Option<&str>) -> Option<Self> {
        let sent_by = match advertise {
            Some(text) => text.as_bytes().to_vec(),
            None => {
                let mut text = Vec::new();
                write_sent_by(&mut text, address);
                text
            }
        };
        let uri = [b"sip:", &sent_by[..]].concat();
        let parsed = Uri::parse(&uri)?;
        let port = parsed.port.unwrap_or(transport.default_port());
        let host = parsed.host.to_ascii_lowercase().into_boxed_slice();
        let via = [b"Via: SIP/2.0/", transport.via_token().as_bytes(), b" ", &sent_by, b";branch="].concat();
        let mut route = [&uri[..], b";lr"].concat();
        if transport != Transport::Udp {
            route.extend_from_slice(b";transport=");
            route.extend_from_slice(transport.uri_token().as_bytes());
        }
        Some(Self {
            transport,
            address,
            sent_by: sent_by.into(),
            host,
            port,
            via: via.into(),
            route: route.into(),
        })
    }

    /// The head of our Via field line: `Via: SIP/2.0/UDP host:port;branch=`.
    #[must_use]
    pub fn via(&self) -> &[u8] {
        &self.via
    }

    /// The head of our Record-Route URI: `sip:host:port;lr`, with the transport where it is not UDP.
    #[must_use]
    pub fn route(&self) -> &[u8] {
        &self.route
    }

    /// `host:port` as others are told.
    #[must_use]
    pub fn sent_by(&self) -> &[u8] {
        &self.sent_by
    }

    fn is_at(&self, peer: SocketAddr) -> bool {
        let (ip, bound) = (peer.ip().to_canonical(), self.address.ip());
        let is_bound = || ip == bound || bound.is_unspecified() && ip.is_loopback();
        peer.port() == self.address.port() && is_bound()
            || peer.port() == self.port && host_ip(&self.host) == Some(ip)
    }

    fn is(&self, host: &[u8], port: Option<u16>) -> bool {
        let port = port.unwrap_or(self.transport.default_port());
        let advertised = port == self.port && same_host(host, &self.host);
        advertised
            || port == self.address.port()
                && host_ip(host).is_some_and(|ip| {
                    let bound = self.address.ip();
                    ip == bound || bound.is_unspecified() && ip.is_loopback()
                })
    }
}

/// All listeners, by [`ListenerId`].
#[derive(Clone, Debug, Default)]
pub struct Listeners {
    all: Box<[Listener]>,
    /// Names that lead to us, in lower case.
    names: Box<[Box<[u8]>]>,
}

impl Listeners {
    /// The listeners in the order of their ids.
    #[must_use]
    pub fn new(listeners: Vec<Listener>) -> Self {
        Self { all: listeners.into(), names: Box::default() }
    }

    /// The same, also known by names: a Route that phones are given often has a domain where an address belongs.
    #[must_use]
    pub fn with_names<'a>(mut self, names: impl Iterator<Item = &'a [u8]>) -> Self {
        self.names = names.map(|name| name.to_ascii_lowercase().into_boxed_slice()).collect();
        self
    }

    /// One listener.
    #[must_use]
    pub fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.all.get(usize::from(id.0))
    }

    /// All listeners in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.all.iter()
    }

    /// Whether `host` and `port` are one of ours: bound, advertised, or a name without a port or with one of ours.
    #[must_use]
    pub fn is_ours(&self, host: &[u8], port: Option<u16>) -> bool {
        self.all.iter().any(|listener| listener.is(host, port))
            || self.names.iter().any(|name| name.eq_ignore_ascii_case(host)) && self.is_our_port(port)
    }

    /// Whether datagrams to `peer` come back to us: bound or advertised.
    #[must_use]
    pub fn is_at(&self, peer: SocketAddr) -> bool {
        self.all.iter().any(|listener| listener.is_at(peer))
    }

    /// The listener that goes by `host` and `port`.
    #[must_use]
    pub fn find(&self, host: &[u8], port: Option<u16>) -> Option<ListenerId> {
        let found = self.all.iter().zip(0_u16..).find(|(listener, _)| listener.is(host, port));
        found.map(|(_, id)| ListenerId(id))
    }

    /// Whether a URI that names a domain of ours may have this port.
    #[must_use]
    pub fn is_our_port(&self, port: Option<u16>) -> bool {
        port.is_none_or(|port| {
            matches!(port, 5060 | 5061) || self.all.iter().any(|listener| listener.address.port() == port)
        })
    }

    /// The listener to send from: `preferred` if it fits transport and address family, else the first that does.
    #[must_use]
    pub fn towards(
        &self,
        transport: Transport,
        peer: SocketAddr,
        preferred: ListenerId,
    ) -> Option<ListenerId> {
        let fits = |l: &Listener| l.transport == transport && l.address.is_ipv4() == peer.is_ipv4();
        if self.get(preferred).is_some_and(fits) {
            return Some(preferred);
        }
        self.all.iter().zip(0_u16..).find(|(listener, _)| fits(listener)).map(|(_, id)| ListenerId(id))
    }
}
