//! A balancer with destinations and a caller that are text.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{
    HeaderName, Hop, Index, Limits, Listener, ListenerId, Listeners, Message, Outbox, Reply, Transport,
};

use crate::{
    Balancer, Board, Config, Destination, HealthSettings, PolicySettings, Pool, PoolConfig, PoolSettings,
    Slot,
};

/// Our address.
pub(super) const US: &str = "192.0.2.1:5060";
/// The caller's.
pub(super) const CALLER: &str = "198.51.100.7:5070";

pub(super) fn hop(peer: &str) -> Hop {
    Hop::udp(ListenerId(0), peer.parse().unwrap())
}

/// The address of destination `n`.
pub(super) fn destination(n: usize) -> String {
    format!("203.0.113.{}:5060", n + 1)
}

/// One message that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    pub(super) to: String,
    pub(super) text: String,
}

impl Sent {
    pub(super) fn with<T>(&self, then: impl FnOnce(&Message<'_>) -> T) -> T {
        parsed(&self.text, then)
    }

    /// A header field's values, each a string.
    pub(super) fn values(&self, name: HeaderName) -> Vec<String> {
        self.with(|m| m.values(name).map(|v| String::from_utf8(v.bytes.to_vec()).unwrap()).collect())
    }

    pub(super) fn start(&self) -> &str {
        self.text.lines().next().unwrap()
    }

    pub(super) fn branch(&self) -> String {
        self.with(|m| String::from_utf8(m.via().branch.unwrap().to_vec()).unwrap())
    }

    /// What its receiver answers: with our Record-Route in it, as a user agent must (RFC 3261 §12.1.1).
    pub(super) fn answer(&self, status: u16, extra: &str) -> String {
        let routes = self.values(HeaderName::RecordRoute);
        let mut headers: String = routes.iter().map(|route| format!("Record-Route: {route}\r\n")).collect();
        headers.push_str(extra);
        let mut text = Vec::new();
        self.with(|m| {
            let source: SocketAddr = US.parse().unwrap();
            Reply { headers: headers.as_bytes(), ..Reply::new(status, source, b"callee") }
                .write(m, &mut text);
        });
        String::from_utf8(text).unwrap()
    }
}

pub(super) fn parsed<T>(text: &str, then: impl FnOnce(&Message<'_>) -> T) -> T {
    let mut index = Index::new();
    let message = Message::parse(text.as_bytes(), &mut index, &Limits::default()).unwrap();
    assert_eq!(message.defect(), None, "{text}");
    then(&message)
}

pub(super) struct Bench {
    pub(super) balancer: Balancer,
    pub(super) now: Instant,
    pub(super) config: Config,
}

pub(super) fn pool_config(name: &str, policy: &'static str, destinations: usize) -> PoolConfig {
    let all = (0..destinations).map(|n| Destination::new(&format!("d{n}"), hop(&destination(n)))).collect();
    let health = HealthSettings { interval: None, ..HealthSettings::default() };
    let settings = PoolSettings::new(name, PolicySettings::new(policy), health, all).unwrap();
    PoolConfig::new(Arc::new(settings), Arc::new(Board::new(64, 1)))
}

pub(super) fn listeners() -> Listeners {
    Listeners::new(vec![Listener::new(Transport::Udp, US.parse().unwrap(), None).unwrap()])
}

impl Bench {
    pub(super) fn new(destinations: usize) -> Self {
        Self::of(Config::new(vec![pool_config("media", "tlwl", destinations)]))
    }

    pub(super) fn of(config: Config) -> Self {
        Self { balancer: balancer(&config, 1, 1), now: Instant::from_secs(1), config }
    }

    /// The same balancer after a crash, or another one of the cluster: same key, nothing in its table.
    pub(super) fn crash(&mut self) {
        self.balancer = balancer(&self.config, 1, 2);
    }

    pub(super) fn receive(&mut self, from: &str, text: &str) -> Vec<Sent> {
        let mut out = Outbox::new();
        self.balancer.handle_input(self.now, hop(from), text.as_bytes(), &mut out);
        sent(&out)
    }

    /// The single message that came of it.
    pub(super) fn pass(&mut self, from: &str, text: &str) -> Sent {
        let mut all = self.receive(from, text);
        assert_eq!(all.len(), 1, "{text}\n{all:#?}");
        all.remove(0)
    }

    pub(super) fn wait(&mut self, duration: Duration) -> Vec<Sent> {
        let mut out = Outbox::new();
        let end = self.now + duration;
        while self.now < end {
            self.now = (self.now + Duration::from_millis(500)).min(end);
            self.balancer.handle_timeout(self.now, &mut out);
        }
        sent(&out)
    }

    pub(super) fn pool(&self) -> &Pool {
        self.balancer.pool("media").unwrap()
    }

    /// Calls and requests booked on each destination.
    pub(super) fn booked(&self) -> Vec<(u32, u32)> {
        let slots = 0..self.config.pools[0].settings.slots();
        let load = |at| self.pool().own_load(Slot(u16::try_from(at).unwrap()));
        slots.map(|at| (load(at).calls, load(at).transactions)).collect()
    }
}

fn balancer(config: &Config, key: u64, seed: u64) -> Balancer {
    let key = HashKey::from_rng(&mut Rng::from_seed(key));
    Balancer::new(Arc::new(config.clone()), listeners(), &key, None, 0, Rng::from_seed(seed))
}

pub(super) fn sent(out: &Outbox) -> Vec<Sent> {
    let one = |(hop, bytes): (Hop, &[u8])| Sent {
        to: hop.peer.to_string(),
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    };
    out.iter().map(one).collect()
}

/// A request of the caller's. `branch` names the transaction.
pub(super) fn request(method: &str, call: &str, cseq: u32, branch: &str, extra: &str) -> String {
    let to = if extra.contains("in-dialog") { ";tag=callee" } else { "" };
    let extra: String =
        extra.lines().filter(|line| *line != "in-dialog").map(|l| format!("{l}\r\n")).collect();
    format!(
        "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};rport;branch=z9hG4bK{branch}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=caller\r\nTo: <sip:bob@example.com>{to}\r\n\
         Call-ID: {call}\r\nCSeq: {cseq} {method}\r\nContact: <sip:alice@{CALLER}>\r\n{extra}\
         Content-Length: 0\r\n\r\n"
    )
}

/// A request of the callee's within the call, with the route that its INVITE recorded, first value first.
pub(super) fn from_callee(method: &str, call: &str, cseq: u32, routes: &[String]) -> String {
    let routes: String = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
    format!(
        "{method} sip:alice@{CALLER} SIP/2.0\r\nVia: SIP/2.0/UDP 203.0.113.99:5060;branch=z9hG4bKback{cseq}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:bob@example.com>;tag=callee\r\nTo: <sip:alice@example.org>;tag=caller\r\n\
         Call-ID: {call}\r\nCSeq: {cseq} {method}\r\n{routes}Content-Length: 0\r\n\r\n"
    )
}
