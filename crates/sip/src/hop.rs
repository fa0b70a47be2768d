//! Where a message came from or goes to, and the buffer that collects what a turn sends.

use core::fmt;
use core::net::SocketAddr;
use core::ops::Range;

/// How bytes travel (RFC 3261 §18, RFC 7118 for the two WebSocket kinds).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Transport {
    /// Datagrams; the only unreliable one.
    Udp,
    /// A stream.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// WebSocket over TCP.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Transport {
    /// Whether the transport itself retransmits, so that timers A, E and G stay off (RFC 3261 §17).
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// The token of a Via header field (RFC 3261 §25.1 `transport`), in upper case.
    #[must_use]
    pub const fn via_token(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }

    /// The value of a URI's `transport` parameter (RFC 3261 §19.1.1), in lower case.
    #[must_use]
    pub const fn uri_token(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// Reads either spelling, in any case; `None` for a transport we do not speak.
    #[must_use]
    pub fn from_token(token: &[u8]) -> Option<Self> {
        [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss]
            .into_iter()
            .find(|transport| token.eq_ignore_ascii_case(transport.via_token().as_bytes()))
    }

    /// The port that an absent one means (RFC 3261 §18.2.2, RFC 7118 §7).
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.uri_token())
    }
}

/// One of the node's listeners, by its place in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct ListenerId(pub u16);

/// One open stream connection of a shard; never reused while the shard lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// One hop of a message: which of our listeners, and who is at the other end.
///
/// For a received message `peer` is its source; for a sent one, its destination. Over a stream, `connection` names
/// the connection it came on or must go by; `None` lets the shard find or open one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hop {
    /// How the bytes travel.
    pub transport: Transport,
    /// Our end.
    pub listener: ListenerId,
    /// The other end.
    pub peer: SocketAddr,
    /// The stream connection, where one is meant.
    pub connection: Option<ConnectionId>,
}

impl Hop {
    /// A datagram hop.
    #[must_use]
    pub const fn udp(listener: ListenerId, peer: SocketAddr) -> Self {
        Self { transport: Transport::Udp, listener, peer, connection: None }
    }
}

/// One message to send: its hop and its place in the [`Outbox`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Where it goes.
    pub hop: Hop,
    range: Range<usize>,
}

/// What one turn of a machine sends: messages written once, back to back, into one reused buffer.
///
/// The shard hands the slices to one `sendmmsg` and clears it; nothing is copied or allocated per message once the
/// buffer has grown to the size of a busy turn.
#[derive(Default, Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    transmits: Vec<Transmit>,
    /// Those that leave under another's address.
    disguised: Vec<(SocketAddr, Transmit)>,
}

impl Outbox {
    /// An empty outbox.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes one message by `write`, which appends to the buffer it is handed, and queues it for `hop`.
    pub fn write(&mut self, hop: Hop, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.transmits.push(Transmit { hop, range: start..self.bytes.len() });
    }

    /// Writes one message that leaves under the address of another, `source`, whom the receiver is to answer. It is not
    /// among [`Outbox::iter`], [`Outbox::len`] and [`Outbox::last`].
    pub fn write_as(&mut self, source: SocketAddr, hop: Hop, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.disguised.push((source, Transmit { hop, range: start..self.bytes.len() }));
    }

    /// The messages of [`Outbox::write_as`] in order, each with the address it leaves under.
    pub fn iter_as(&self) -> impl ExactSizeIterator<Item = (SocketAddr, Hop, &[u8])> {
        self.disguised
            .iter()
            .map(|(source, t)| (*source, t.hop, self.bytes.get(t.range.clone()).unwrap_or_default()))
    }

    /// Queues a message that is already bytes.
    pub fn send(&mut self, hop: Hop, message: &[u8]) {
        self.write(hop, |bytes| bytes.extend_from_slice(message));
    }

    /// The queued messages in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Hop, &[u8])> {
        self.transmits.iter().map(|t| (t.hop, self.bytes.get(t.range.clone()).unwrap_or_default()))
    }

    /// The bytes of the message queued last, so that a transaction can keep what was just written.
    #[must_use]
    pub fn last(&self) -> &[u8] {
        self.transmits.last().and_then(|t| self.bytes.get(t.range.clone())).unwrap_or_default()
    }

    /// How many messages are queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.transmits.len()
    }

    /// Whether nothing is queued, under any address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.transmits.is_empty() && self.disguised.is_empty()
    }

    /// Forgets all, keeping the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.disguised.clear();
    }
}
