//! A layer on a virtual clock, with everything it sent and said written down. Tests only.

use core::time::Duration;

use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{ConnectionId, Hop, Index, Limits, ListenerId, Message, Method, Outbox, Reply, Transport};

use crate::{Arrival, ClientId, Config, Event, Full, Layer, ResponseArrival, ServerId};

/// One message that the layer sent.
pub(crate) struct Sent {
    pub(crate) ms: u64,
    pub(crate) hop: Hop,
    pub(crate) text: String,
}

pub(crate) struct Bench {
    pub(crate) layer: Layer,
    pub(crate) now: Instant,
    pub(crate) hop: Hop,
    pub(crate) sent: Vec<Sent>,
    events: Vec<Event>,
}

/// The handle of every transaction of a bench's TU.
pub(crate) const USER: u64 = 7;

impl Bench {
    pub(crate) fn with(config: Config, hop: Hop) -> Self {
        let mut rng = Rng::from_seed(1);
        let layer = Layer::new(config, HashKey::from_rng(&mut rng), rng);
        Self { layer, now: Instant::from_secs(1000), hop, sent: Vec::new(), events: Vec::new() }
    }

    pub(crate) fn udp() -> Self {
        Self::with(Config::default(), peer("192.0.2.1:5060"))
    }

    pub(crate) fn tcp() -> Self {
        let hop = peer("192.0.2.1:40000");
        let hop = Hop { transport: Transport::Tcp, connection: Some(ConnectionId(3)), ..hop };
        Self::with(Config::default(), hop)
    }

    /// Milliseconds since the bench was made.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now.saturating_since(Instant::from_secs(1000)).as_millis().try_into().unwrap()
    }

    pub(crate) fn turn<R>(&mut self, act: impl FnOnce(&mut Layer, Instant, &mut Outbox) -> R) -> R {
        let mut out = Outbox::new();
        let result = act(&mut self.layer, self.now, &mut out);
        let ms = self.now_ms();
        for (hop, bytes) in out.iter() {
            self.sent.push(Sent { ms, hop, text: String::from_utf8(bytes.to_vec()).unwrap() });
        }
        while let Some(event) = self.layer.poll_event() {
            self.events.push(event);
        }
        result
    }

    /// Lets time pass up to `ms` after the start.
    pub(crate) fn run_until_ms(&mut self, ms: u64) {
        let until = Instant::from_secs(1000) + Duration::from_millis(ms);
        while let Some(at) = self.layer.poll_timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.turn(|layer, now, out| layer.handle_timeout(now, out));
        }
        self.now = self.now.max(until);
    }

    /// Lets time pass until no timer runs.
    pub(crate) fn run_to_end(&mut self) {
        while let Some(at) = self.layer.poll_timeout() {
            self.now = self.now.max(at);
            self.turn(|layer, now, out| layer.handle_timeout(now, out));
        }
    }

    pub(crate) fn receive(&mut self, request: &str) -> Arrival {
        self.receive_from(request, self.hop)
    }

    pub(crate) fn receive_from(&mut self, request: &str, hop: Hop) -> Arrival {
        read(request, |request| self.turn(|layer, now, out| layer.receive_request(now, request, hop, out)))
    }

    /// Receives a new request and opens its transaction.
    pub(crate) fn open(&mut self, request: &str) -> ServerId {
        self.try_open(request).unwrap()
    }

    pub(crate) fn try_open(&mut self, request: &str) -> Result<ServerId, Full> {
        let arrival = self.receive(request);
        let (Arrival::New(key) | Arrival::Cancel { key, .. }) = arrival else {
            panic!("not new: {arrival:?}")
        };
        let hop = self.hop;
        read(request, |request| self.turn(|layer, now, _| layer.open_server(now, key, request, hop, USER)))
    }

    /// Answers `request`, with the To tag `b`.
    pub(crate) fn respond(&mut self, server: ServerId, request: &str, status: u16) -> bool {
        let text = answer(request, status);
        let write = |bytes: &mut Vec<u8>| bytes.extend_from_slice(text.as_bytes());
        self.turn(|layer, now, out| layer.respond(now, server, status, write, out))
    }

    /// Opens a client transaction; its request is the one sent last.
    pub(crate) fn call(&mut self, method: Method) -> ClientId {
        self.try_call(method).unwrap()
    }

    pub(crate) fn try_call(&mut self, method: Method) -> Result<ClientId, Full> {
        let hop = self.hop;
        self.turn(|layer, now, out| {
            layer.open_client(now, method, hop, USER, out, |bytes, branch| {
                let branch = core::str::from_utf8(branch).unwrap();
                bytes.extend_from_slice(request(method.as_str(), branch).as_bytes());
            })
        })
    }

    /// Receives the answer to `request`, with the To tag `b`.
    pub(crate) fn answered(&mut self, request: &str, status: u16) -> ResponseArrival {
        self.receive_response(&answer(request, status))
    }

    pub(crate) fn receive_response(&mut self, response: &str) -> ResponseArrival {
        read(response, |response| self.turn(|layer, now, out| layer.receive_response(now, response, out)))
    }

    pub(crate) fn last_sent(&self) -> String {
        self.sent.last().unwrap().text.clone()
    }

    /// When messages that start with `head` were sent.
    pub(crate) fn sent_ms(&self, head: &str) -> Vec<u64> {
        self.sent.iter().filter(|sent| sent.text.starts_with(head)).map(|sent| sent.ms).collect()
    }

    /// What happened since last asked.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }
}

pub(crate) fn peer(address: &str) -> Hop {
    Hop::udp(ListenerId(0), address.parse().unwrap())
}

pub(crate) fn read<R>(text: &str, act: impl FnOnce(&Message<'_>) -> R) -> R {
    let mut index = Index::new();
    let message = Message::parse(text.as_bytes(), &mut index, &Limits::default()).unwrap();
    assert_eq!(message.defect(), None, "{text}");
    act(&message)
}

pub(crate) fn request(method: &str, branch: &str) -> String {
    format!(
        "{method} sip:bob@192.0.2.4 SIP/2.0\r\n\
         Via: SIP/2.0/UDP pc33.atlanta.example.com:5060;branch={branch}\r\n\
         Via: SIP/2.0/UDP 192.0.2.77;branch=z9hG4bKearlier\r\n\
         Route: <sip:p1.example.com;lr>, <sip:p2.example.com;lr>\r\n\
         Route: <sip:p3.example.com;lr>\r\n\
         Max-Forwards: 12\r\n\
         From: Alice <sip:alice@atlanta.example.com>;tag=88sja8x\r\n\
         To: Bob <sip:bob@biloxi.example.com>\r\n\
         Call-ID: 987asjd97y7atg@atlanta.example.com\r\n\
         CSeq: 986759 {method}\r\n\
         Contact: <sip:alice@pc33.atlanta.example.com>\r\n\
         Content-Type: text/plain\r\n\
         Content-Length: 2\r\n\r\nhi"
    )
}

pub(crate) fn answer(request: &str, status: u16) -> String {
    read(request, |request| {
        let mut out = Vec::new();
        let tag: Option<&[u8]> = (status > 100).then_some(b"b");
        Reply { source: None, to_tag: tag, ..Reply::new(status, "192.0.2.1:1".parse().unwrap(), b"") }
            .write(request, &mut out);
        String::from_utf8(out).unwrap()
    })
}
