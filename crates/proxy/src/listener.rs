//! Our own addresses: which URIs mean us, and the header fields that name us.

use core::net::SocketAddr;

use tandem_sip::{ListenerId, Transport, Uri, host_ip, same_host, write_sent_by};

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

    pub(crate) fn via(&self) -> &[u8] {
        &self.via
    }

    pub(crate) fn route(&self) -> &[u8] {
        &self.route
    }

    /// `host:port` as others are told.
    #[must_use]
    pub fn sent_by(&self) -> &[u8] {
        &self.sent_by
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
pub struct Listeners(Box<[Listener]>);

impl Listeners {
    /// The listeners in the order of their ids.
    #[must_use]
    pub fn new(listeners: Vec<Listener>) -> Self {
        Self(listeners.into())
    }

    /// One listener.
    #[must_use]
    pub fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.0.get(usize::from(id.0))
    }

    /// All listeners in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.0.iter()
    }

    /// Whether `host` and `port` are one of ours, bound or advertised.
    #[must_use]
    pub fn is_ours(&self, host: &[u8], port: Option<u16>) -> bool {
        self.0.iter().any(|listener| listener.is(host, port))
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
        self.0.iter().zip(0_u16..).find(|(listener, _)| fits(listener)).map(|(_, id)| ListenerId(id))
    }
}
