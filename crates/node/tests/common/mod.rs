//! A node for tests and the pieces of messages: one UDP listener on loopback, time that stands still until it is told
//! to pass, and the two peers alice and bob.
#![allow(dead_code, reason = "each test file uses its part")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use tandem_auth::{Challenger, ChallengerConfig, Ha1, NonceCounts, ResponseInput, Users};
use tandem_base::{HashKey, Instant};
use tandem_node::{
    Challenge, Command, Config, Domains, Event, Listener, Listeners, Mode, Network, Node, Shared,
};
use tandem_registrar::Locations;
use tandem_sip::{HeaderName, Hop, Index, Limits, ListenerId, Message, Outbox, Transport};

pub(crate) const US: &str = "127.0.0.1:5060";
pub(crate) const ALICE: &str = "127.0.0.1:5062";
pub(crate) const BOB: &str = "127.0.0.1:5064";
/// What the wall clock says when time begins, in Unix milliseconds.
const START: u64 = 1_800_000_000_000;
pub(crate) const PASSWORD: &str = "correct horse";

/// A node that answers for `domains`, with everyone trusted where anyone is.
pub(crate) fn node(challenge: Challenge, domains: &[&str]) -> Node {
    let mut config = config(domains);
    config.auth.challenge = challenge;
    config.auth.trusted = vec![Network { address: "0.0.0.0".parse().unwrap(), prefix: 0 }];
    Bench::with(config).node
}

/// Defaults on one listener.
pub(crate) fn config(domains: &[&str]) -> Config {
    let listener = Listener::new(Transport::Udp, US.parse().unwrap(), None).unwrap();
    Config::new(Domains::new(domains).unwrap(), Listeners::new(vec![listener]))
}

/// A message on its way: where to, and its text.
pub(crate) type Sent = (String, String);

/// A node, and the time it is given.
pub(crate) struct Bench {
    pub(crate) node: Node,
    pub(crate) now: Instant,
    pub(crate) shared: Arc<Shared>,
    pub(crate) listener: u16,
}

impl Bench {
    pub(crate) fn with(config: Config) -> Self {
        let key = HashKey::from_bytes([7; 16]);
        let shared = Arc::new(Shared {
            locations: Arc::new(Locations::new(key, 1000)),
            users: Users::new(&key, 10),
            challenger: Challenger::new(
                &key,
                ChallengerConfig { unix_ms_at_zero: START, ..ChallengerConfig::default() },
            ),
            nonce_counts: NonceCounts::new(&key, 1024, START),
        });
        for user in ["alice", "bob"] {
            let ha1 = Ha1::from_password(user.as_bytes(), b"localhost", PASSWORD.as_bytes());
            shared.users.insert(format!("{user}@localhost").as_bytes(), ha1);
        }
        let node = Node::new(Arc::new(config), Arc::clone(&shared), &key, 1);
        Self { node, now: Instant::from_secs(1), shared, listener: 0 }
    }

    /// Nobody is challenged and everybody is trusted, changed by `change`.
    pub(crate) fn open(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(&["localhost"]);
        config.auth.trusted = vec![
            Network { address: "0.0.0.0".parse().unwrap(), prefix: 0 },
            Network { address: "::".parse().unwrap(), prefix: 0 },
        ];
        change(&mut config);
        Self::with(config)
    }

    /// Everybody is challenged, changed by `change`.
    pub(crate) fn closed(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(&["localhost"]);
        config.auth.challenge = Challenge::Always;
        change(&mut config);
        Self::with(config)
    }

    /// What the node sends on being sent `text` by `from`.
    pub(crate) fn send(&mut self, from: &str, text: &str) -> Vec<Sent> {
        let mut out = Outbox::new();
        let hop = Hop::udp(ListenerId(self.listener), from.parse().unwrap());
        self.node.handle_input(self.now, hop, text.as_bytes(), &mut out);
        texts(&out)
    }

    pub(crate) fn command(&mut self, command: &Command) -> Vec<Sent> {
        let mut out = Outbox::new();
        self.node.handle_command(self.now, command, &mut out);
        texts(&out)
    }

    /// Lets time pass; what the node sends meanwhile.
    pub(crate) fn pass(&mut self, secs: u64) -> Vec<Sent> {
        let (end, mut out) = (self.now + core::time::Duration::from_secs(secs), Outbox::new());
        while let Some(at) = self.node.poll_timeout().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            self.node.handle_timeout(self.now, &mut out);
        }
        self.now = end;
        texts(&out)
    }

    /// Lets ten minutes pass; fails unless nothing is left in progress.
    pub(crate) fn drain(&mut self) {
        self.pass(600);
        assert!(self.node.is_idle(), "something is left behind");
    }

    pub(crate) fn event(&mut self) -> Option<Event> {
        self.node.poll_event()
    }

    /// Binds contacts (`<uri>;q=0.5`) to a local user by the registrar.
    pub(crate) fn bind(&mut self, user: &str, contacts: &[&str]) {
        for (i, contact) in contacts.iter().enumerate() {
            let text = register(user, contact).call_id(&format!("bind-{user}-{i}")).text();
            let sent = self.send(BOB, &text);
            assert!(sent[0].1.starts_with("SIP/2.0 200"), "{sent:?}");
        }
    }

    /// The contacts bound to a local user.
    pub(crate) fn contacts(&self, user: &str) -> Vec<String> {
        let mut contacts = Vec::new();
        self.shared.locations.lookup(format!("{user}@localhost").as_bytes(), self.now, |binding| {
            contacts.push(String::from_utf8_lossy(binding.contact).into_owned());
        });
        contacts
    }
}

pub(crate) fn texts(out: &Outbox) -> Vec<Sent> {
    out.iter().map(|(hop, m)| (hop.peer.to_string(), String::from_utf8_lossy(m).into_owned())).collect()
}

/// The status codes that went to `to`.
pub(crate) fn statuses(sent: &[Sent], to: &str) -> Vec<u16> {
    sent.iter().filter(|(peer, _)| peer == to).filter_map(|(_, text)| status(text)).collect()
}

pub(crate) fn status(text: &str) -> Option<u16> {
    text.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
}

/// The requests among what was sent, as they went out.
pub(crate) fn requests(sent: &[Sent]) -> Vec<Sent> {
    sent.iter().filter(|(_, text)| status(text).is_none()).cloned().collect()
}

/// The first value of a header field; empty if it is not there.
pub(crate) fn header(message: &str, name: HeaderName) -> String {
    all(message, name).into_iter().next().unwrap_or_default()
}

/// All lines of a header field.
pub(crate) fn all(message: &str, name: HeaderName) -> Vec<String> {
    let mut index = Index::new();
    let message = Message::parse(message.as_bytes(), &mut index, &Limits::default()).unwrap();
    message.fields(name).map(|field| String::from_utf8_lossy(field.value).into_owned()).collect()
}

/// An answer to `request` as a user agent server writes it.
pub(crate) fn answer(request: &str, status: &str, extra: &str) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for name in
        [HeaderName::Via, HeaderName::RecordRoute, HeaderName::From, HeaderName::CallId, HeaderName::CSeq]
    {
        for value in all(request, name) {
            text += &format!("{name}: {value}\r\n");
        }
    }
    let to = header(request, HeaderName::To);
    let tag = if to.contains("tag=") || status.starts_with("100") { "" } else { ";tag=bob" };
    text + &format!("To: {to}{tag}\r\n{extra}Content-Length: 0\r\n\r\n")
}

/// A request; [`Ask::text`] writes it.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) via: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) call_id: String,
    pub(crate) cseq: u32,
    pub(crate) hops: String,
    pub(crate) extra: String,
}

impl Ask {
    /// From alice at [`ALICE`], out of dialog.
    pub(crate) fn new(method: &str, uri: &str) -> Self {
        Self {
            method: method.into(),
            uri: uri.into(),
            via: format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-{method}-1"),
            from: "<sip:alice@localhost>;tag=a".into(),
            to: "<sip:bob@localhost>".into(),
            call_id: "call-1".into(),
            cseq: 1,
            hops: "Max-Forwards: 70\r\n".into(),
            extra: format!("Contact: <sip:alice@{ALICE}>\r\n"),
        }
    }

    pub(crate) fn via(mut self, via: &str) -> Self {
        self.via = via.into();
        self
    }

    pub(crate) fn to(mut self, to: &str) -> Self {
        self.to = to.into();
        self
    }

    pub(crate) fn from(mut self, from: &str) -> Self {
        self.from = from.into();
        self
    }

    pub(crate) fn call_id(mut self, call_id: &str) -> Self {
        self.call_id = call_id.into();
        self
    }

    pub(crate) fn cseq(mut self, cseq: u32) -> Self {
        self.cseq = cseq;
        self
    }

    pub(crate) fn hops(mut self, line: &str) -> Self {
        self.hops = line.into();
        self
    }

    /// Adds header field lines, each with its line end.
    pub(crate) fn with(mut self, lines: &str) -> Self {
        self.extra += lines;
        self
    }

    /// The CANCEL of this request (RFC 3261 §9.1), or the ACK of its failure (§17.1.1.3).
    pub(crate) fn follow(&self, method: &str, to: &str) -> Self {
        Self { method: method.into(), to: to.into(), extra: String::new(), ..self.clone() }
    }

    pub(crate) fn text(&self) -> String {
        let Self { method, uri, via, from, to, call_id, cseq, hops, extra } = self;
        format!(
            "{method} {uri} SIP/2.0\r\nVia: {via}\r\n{hops}From: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\n\
             CSeq: {cseq} {method}\r\n{extra}Content-Length: 0\r\n\r\n"
        )
    }
}

/// A call from alice to bob.
pub(crate) fn invite() -> Ask {
    Ask::new("INVITE", "sip:bob@localhost")
}

/// A local user's REGISTER of one contact, or as many as the text holds.
pub(crate) fn register(user: &str, contacts: &str) -> Ask {
    let aor = format!("<sip:{user}@localhost>");
    let mut ask = Ask::new("REGISTER", "sip:localhost").to(&aor).from(&format!("{aor};tag=r"));
    ask.via = format!("SIP/2.0/UDP {BOB};branch=z9hG4bK-reg-{}-{user}", contacts.len());
    ask.call_id = format!("reg-{user}");
    ask.extra = if contacts.is_empty() { String::new() } else { format!("Contact: {contacts}\r\n") };
    ask
}

/// The credentials that answer the challenge in `challenged`, as a header field line.
pub(crate) fn credentials(
    challenged: &str,
    method: &str,
    uri: &str,
    user: &str,
    password: &str,
    nc: u32,
) -> String {
    let (name, answers) = match status(challenged) {
        Some(401) => (HeaderName::WwwAuthenticate, "Authorization"),
        Some(407) => (HeaderName::ProxyAuthenticate, "Proxy-Authorization"),
        other => panic!("{other:?} is no challenge: {challenged}"),
    };
    let values = all(challenged, name);
    let challenge = tandem_auth::Challenge::pick(values.iter().map(|v| v.as_bytes())).unwrap();
    let realm: Vec<u8> = challenge.realm.bytes().collect();
    let ha1 = Ha1::from_password(user.as_bytes(), &realm, password.as_bytes());
    let (method, uri, user) = (method.as_bytes(), uri.as_bytes(), user.as_bytes());
    let input = ResponseInput { method, uri, user, ha1: &ha1, cnonce: b"0a4f113b", nc };
    let mut value = Vec::new();
    assert!(tandem_auth::respond(&challenge, input, &mut value));
    format!("{answers}: {}\r\n", String::from_utf8(value).unwrap())
}

/// The `mode` of a [`Config`], for [`Bench::open`].
pub(crate) fn mode(mode: Mode) -> impl FnOnce(&mut Config) {
    move |config| config.mode = mode
}
