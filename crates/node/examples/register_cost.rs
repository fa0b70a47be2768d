//! What one REGISTER costs a node in user space: no sockets, the octets go in and the answer comes out.
//!
//! `cargo run --release -p tandem-node --example register_cost -- 100000 2000000`: that many users, registered once
//! and then refreshed in turn until there were that many REGISTER requests.
#![expect(clippy::unwrap_used, reason = "a measurement may end by panicking")]
#![expect(clippy::disallowed_methods, reason = "it measures, so it reads the clock")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tandem_auth::{Challenger, ChallengerConfig, NonceCounts, Users};
use tandem_base::{HashKey, Instant};
use tandem_node::{Challenge, Config, Domains, Listener, Listeners, Node, Shared};
use tandem_registrar::Locations;
use tandem_sip::{Hop, ListenerId, Outbox, Transport};

/// Datagrams of one turn.
const TURN: u64 = 32;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let argument = |n, default| std::env::args().nth(n).map_or(default, |text| text.parse::<u64>().unwrap());
    let (users, registers) = (argument(1, 100_000), argument(2, 2_000_000));
    let listener = Listener::new(Transport::Udp, "127.0.0.1:5060".parse().unwrap(), None).unwrap();
    let mut config = Config::new(Domains::new(&["localhost"]).unwrap(), Listeners::new(vec![listener]));
    config.auth.challenge = Challenge::Never;
    let key = HashKey::from_bytes([7; 16]);
    let shared = Shared {
        locations: Arc::new(Locations::new(key, usize::MAX)),
        users: Users::new(&key, 10),
        challenger: Challenger::new(&key, ChallengerConfig::default()),
        nonce_counts: NonceCounts::new(&key, 1024, 0),
    };
    let mut node = Node::new(Arc::new(config), Arc::new(shared), &key, 1);
    let hop = Hop::udp(ListenerId(0), "127.0.0.1:5062".parse().unwrap());
    let mut out = Outbox::new();
    let mut now = Instant::from_secs(1);
    let mut spent = Duration::ZERO;
    let mut turn = vec![Vec::new(); usize::try_from(TURN).unwrap()];
    for first in (0..registers).step_by(usize::try_from(TURN).unwrap()) {
        now += Duration::from_micros(500);
        for (message, number) in turn.iter_mut().zip(first..) {
            let (user, cseq) = (number % users, number / users + 1);
            message.clear();
            write!(
                message,
                "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK-{number}\r\n\
                 From: <sip:user{user}@localhost>;tag=a{number}\r\nTo: <sip:user{user}@localhost>\r\n\
                 Call-ID: register-{user}@127.0.0.1\r\nCSeq: {cseq} REGISTER\r\n\
                 Contact: <sip:user{user}@127.0.0.1:5062>\r\nMax-Forwards: 70\r\nExpires: 3600\r\n\
                 Content-Length: 0\r\n\r\n"
            )
            .unwrap();
        }
        out.clear();
        let start = std::time::Instant::now();
        for message in &turn {
            node.handle_input(now, hop, message, &mut out);
        }
        node.handle_timeout(now, &mut out);
        if first >= users {
            spent += start.elapsed();
        }
        assert!(out.iter().all(|(_, answer)| answer.starts_with(b"SIP/2.0 200")));
    }
    println!("{:.3} µs per refreshing REGISTER", spent.as_secs_f64() * 1e6 / (registers - users) as f64);
}
