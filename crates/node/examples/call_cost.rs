//! What one Proxy-200 call costs a node in user space: no sockets, the octets go from machine to machine.
//!
//! `cargo run --release -p tandem-node --example call_cost -- stateful 200000`
#![expect(clippy::unwrap_used, reason = "a measurement may end by panicking")]
#![expect(clippy::disallowed_methods, reason = "it measures, so it reads the clock")]

use std::sync::Arc;
use std::time::Duration;

use tandem_auth::{Challenger, ChallengerConfig, NonceCounts, Users};
use tandem_base::{HashKey, Instant};
use tandem_node::{Challenge, Config, Domains, Listener, Listeners, Mode, Node, Shared};
use tandem_registrar::Locations;
use tandem_sip::{HeaderName, Hop, Index, Limits, ListenerId, Message, Outbox, Reply, Transport};

const ALICE: &str = "127.0.0.1:5062";
const BOB: &str = "127.0.0.1:5064";

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let calls: u64 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let mode = if mode == "stateless" { Mode::Stateless } else { Mode::Stateful };
    let listener = Listener::new(Transport::Udp, "127.0.0.1:5060".parse().unwrap(), None).unwrap();
    let mut config = Config::new(Domains::new(&["localhost"]).unwrap(), Listeners::new(vec![listener]));
    config.mode = mode;
    config.auth.challenge = Challenge::Never;
    config.transaction.servers_max = 1 << 22;
    config.transaction.clients_max = 1 << 22;
    let key = HashKey::from_bytes([7; 16]);
    let shared = Shared {
        locations: Arc::new(Locations::new(key, 1000)),
        users: Users::new(&key, 10),
        challenger: Challenger::new(&key, ChallengerConfig::default()),
        nonce_counts: NonceCounts::new(&key, 1024, 0),
    };
    let mut node = Node::new(Arc::new(config), Arc::new(shared), &key, 1);
    let (alice, bob) = (ALICE.parse().unwrap(), BOB.parse().unwrap());
    let mut out = Outbox::new();
    let mut now = Instant::from_secs(1);
    let register = "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5064;branch=z9hG4bKreg\r\n\
        From: <sip:bob@localhost>;tag=1\r\nTo: <sip:bob@localhost>\r\nCall-ID: reg\r\nCSeq: 1 REGISTER\r\n\
        Contact: <sip:bob@127.0.0.1:5064>\r\nContent-Length: 0\r\n\r\n";
    node.handle_input(now, Hop::udp(ListenerId(0), bob), register.as_bytes(), &mut out);
    let sdp = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0 8 101\r\n\
        a=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";
    let mut spent = Duration::ZERO;
    let mut index = Index::new();
    let mut feed = |node: &mut Node, now, from, text: &[u8], out: &mut Outbox| {
        out.clear();
        let start = std::time::Instant::now();
        node.handle_timeout(now, out);
        node.handle_input(now, Hop::udp(ListenerId(0), from), text, out);
        spent += start.elapsed();
    };
    for call in 0..calls {
        now += Duration::from_micros(100);
        let invite = format!(
            "INVITE sip:bob@localhost SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK-i{call}\r\n\
             From: <sip:alice@localhost>;tag=a{call}\r\nTo: <sip:bob@localhost>\r\nCall-ID: call-{call}@127.0.0.1\r\n\
             CSeq: 1 INVITE\r\nContact: <sip:alice@127.0.0.1:5062>\r\nMax-Forwards: 70\r\nSubject: Performance\r\n\
             Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
            sdp.len()
        );
        feed(&mut node, now, alice, invite.as_bytes(), &mut out);
        let forwarded = out.iter().last().unwrap().1.to_vec();
        let received = Message::parse(&forwarded, &mut index, &Limits::default()).unwrap();
        let route = String::from_utf8_lossy(received.header(HeaderName::RecordRoute).unwrap()).into_owned();
        let headers = format!("Record-Route: {route}\r\nContact: <sip:bob@127.0.0.1:5064>\r\n");
        let answers = [180, 200].map(|status| {
            let mut text = Vec::new();
            let reply = Reply { source: None, headers: headers.as_bytes(), ..Reply::new(status, bob, b"b") };
            reply.write(&received, &mut text);
            text
        });
        for answer in answers {
            feed(&mut node, now, bob, &answer, &mut out);
        }
        for (method, cseq) in [("ACK", 1), ("BYE", 2)] {
            let text = format!(
                "{method} sip:bob@127.0.0.1:5064 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK-{method}{call}\r\n\
                 Route: {route}\r\nFrom: <sip:alice@localhost>;tag=a{call}\r\nTo: <sip:bob@localhost>;tag=b\r\n\
                 Call-ID: call-{call}@127.0.0.1\r\nCSeq: {cseq} {method}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
            );
            feed(&mut node, now, alice, text.as_bytes(), &mut out);
        }
        let forwarded = out.iter().last().unwrap().1.to_vec();
        let received = Message::parse(&forwarded, &mut index, &Limits::default()).unwrap();
        let mut text = Vec::new();
        Reply { source: None, ..Reply::new(200, bob, b"b") }.write(&received, &mut text);
        feed(&mut node, now, bob, &text, &mut out);
        assert_eq!(out.len(), 1);
    }
    println!(
        "{:.3} µs per call of six messages, the clock's two readings a message included",
        spent.as_secs_f64() * 1e6 / calls as f64
    );
}
