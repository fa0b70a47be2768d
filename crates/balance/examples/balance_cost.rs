//! What one Proxy-200 call costs the balancer in user space, by policy: no sockets, the octets go in and come out.
//!
//! `cargo run --release -p tandem-balance --example balance_cost -- 200000 8 [POLICY…]`: that many calls over that many
//! destinations, in turns of 2,000 calls a policy, so that a noisy moment hits all policies alike; the median counts.
#![expect(clippy::unwrap_used, reason = "a measurement may end by panicking")]
#![expect(clippy::disallowed_methods, reason = "it measures, so it reads the clock")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tandem_balance::{
    Balancer, Board, Config, Destination, HealthSettings, POLICIES, PolicySettings, PoolConfig, PoolSettings,
};
use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{
    HeaderName, Hop, Index, Limits, Listener, ListenerId, Listeners, Message, Outbox, Reply, Transport,
};

const CALLER: &str = "127.0.0.1:5062";
/// Calls of one turn.
const TURN: u64 = 2_000;
/// The body of an INVITE of some 600 octets.
const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0 8 101\r\n\
    a=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

struct Bench {
    name: &'static str,
    balancer: Balancer,
    out: Outbox,
    now: Instant,
    /// Time per call of each turn, in microseconds.
    turns: Vec<f64>,
}

impl Bench {
    fn new(name: &'static str, destinations: u16) -> Self {
        let hop = |n| Hop::udp(ListenerId(0), ([127, 0, 1, 1], 6000 + n).into());
        let all = (0..destinations).map(|n| Destination::new(&format!("d{n}"), hop(n))).collect();
        let health = HealthSettings { interval: None, ..HealthSettings::default() };
        let settings = PoolSettings::new("pool", PolicySettings::new(name), health, all).unwrap();
        let pool = PoolConfig::new(Arc::new(settings), Arc::new(Board::new(destinations, 1)));
        let listener = Listener::new(Transport::Udp, "127.0.0.1:5060".parse().unwrap(), None).unwrap();
        let key = HashKey::from_bytes([7; 16]);
        let config = Arc::new(Config::new(vec![pool]));
        let listeners = Listeners::new(vec![listener]);
        let balancer = Balancer::new(config, listeners, &key, None, 0, Rng::from_seed(1));
        Self { name, balancer, out: Outbox::new(), now: Instant::from_secs(1), turns: Vec::new() }
    }

    fn turn(&mut self, first: u64) {
        let mut spent = Duration::ZERO;
        for call in first..first + TURN {
            self.now += Duration::from_micros(50);
            self.call(call, &mut spent);
        }
        self.turns.push(spent.as_secs_f64() * 1e6 / TURN as f64);
    }

    /// Feeds one message and gives where the one that came of it went, and its octets.
    fn feed(&mut self, from: Hop, text: &[u8], spent: &mut Duration) -> (Hop, Vec<u8>) {
        self.out.clear();
        let start = std::time::Instant::now();
        self.balancer.handle_timeout(self.now, &mut self.out);
        self.balancer.handle_input(self.now, from, text, &mut self.out);
        *spent += start.elapsed();
        let (hop, bytes) = self.out.iter().last().unwrap();
        (hop, bytes.to_vec())
    }

    fn call(&mut self, call: u64, spent: &mut Duration) {
        let caller = Hop::udp(ListenerId(0), CALLER.parse().unwrap());
        let request = |method: &str, cseq: u32, uri: &str, to_tag: &str, route: &str, rest: &str| {
            let mut text = Vec::with_capacity(1024);
            write!(
                text,
                "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK-{method}{call}\r\n{route}\
                 From: <sip:alice@example.com>;tag=a{call}\r\nTo: <sip:bob@example.com>{to_tag}\r\n\
                 Call-ID: call-{call}@127.0.0.1\r\nCSeq: {cseq} {method}\r\nContact: <sip:alice@{CALLER}>\r\n\
                 Max-Forwards: 70\r\nSubject: Performance\r\n{rest}"
            )
            .unwrap();
            text
        };
        let body = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{SDP}", SDP.len());
        let invite = request("INVITE", 1, "sip:bob@example.com", "", "", &body);
        let (destination, forwarded) = self.feed(caller, &invite, spent);
        let mut index = Index::new();
        let received = Message::parse(&forwarded, &mut index, &Limits::default()).unwrap();
        let route = String::from_utf8_lossy(received.header(HeaderName::RecordRoute).unwrap()).into_owned();
        let headers = format!("Record-Route: {route}\r\nContact: <sip:bob@{}>\r\n", destination.peer);
        for status in [180, 200] {
            let mut text = Vec::new();
            let reply = Reply {
                source: None,
                headers: headers.as_bytes(),
                ..Reply::new(status, destination.peer, b"b")
            };
            reply.write(&received, &mut text);
            assert_eq!(self.feed(destination, &text, spent).0.peer, caller.peer);
        }
        let (uri, route) = (format!("sip:bob@{}", destination.peer), format!("Route: {route}\r\n"));
        let mut last = Vec::new();
        for (method, cseq) in [("ACK", 1), ("BYE", 2)] {
            let text = request(method, cseq, &uri, ";tag=b", &route, "Content-Length: 0\r\n\r\n");
            let (hop, forwarded) = self.feed(caller, &text, spent);
            assert_eq!(hop.peer, destination.peer);
            last = forwarded;
        }
        let received = Message::parse(&last, &mut index, &Limits::default()).unwrap();
        let mut text = Vec::new();
        Reply { source: None, ..Reply::new(200, destination.peer, b"b") }.write(&received, &mut text);
        self.feed(destination, &text, spent);
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let calls: u64 = args.next().map_or(100_000, |text| text.parse().unwrap());
    let destinations: u16 = args.next().map_or(8, |text| text.parse().unwrap());
    let only: Vec<String> = args.collect();
    let wanted = |name: &&str| only.is_empty() || only.iter().any(|one| one == name);
    let names = POLICIES.iter().map(|entry| entry.name).filter(wanted);
    let mut benches: Vec<Bench> = names.map(|name| Bench::new(name, destinations)).collect();
    for first in (0..calls).step_by(usize::try_from(TURN).unwrap()) {
        benches.iter_mut().for_each(|bench| bench.turn(first));
    }
    println!(
        "µs per call of six messages over {destinations} destinations, the clock's two readings a message included:"
    );
    for bench in &mut benches {
        bench.turns.sort_by(f64::total_cmp);
        println!("{:14} {:.3}", bench.name, bench.turns.get(bench.turns.len() / 2).unwrap());
    }
}
