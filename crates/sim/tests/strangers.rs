//! Strangers: no answer is more than was asked (THREATS 16), nothing leaves for places that are not ours (no open
//! relay), answers go back where the request came from (RFC 3581), whatever it says of itself.

use tandem_node::Mode;
use tandem_sim::{World, secs, sweep};
use tandem_sip::{Index, Limits, Message};

const METHODS: [&str; 14] = [
    "INVITE",
    "BYE",
    "REGISTER",
    "OPTIONS",
    "PRACK",
    "UPDATE",
    "INFO",
    "MESSAGE",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "REFER",
    "CANCEL",
    "JUMP",
];

fn request(method: &str, uri: &str, via: &str, n: usize, more: &str) -> Vec<u8> {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {via};branch=z9hG4bKs{n}\r\nMax-Forwards: 70\r\n\
         From: <sip:mallory@example.com>;tag=s{n}\r\nTo: <sip:bob@example.com>\r\nCall-ID: stranger-{n}\r\n\
         CSeq: 1 {method}\r\nContact: <sip:mallory@192.0.2.9>\r\n{more}Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// Unauthenticated requests of every method: at most one datagram of at most twice its octets comes back for each,
/// none of them is repeated, and nobody behind the node hears of them.
#[test]
fn a_stranger_gets_one_datagram_for_one() {
    sweep(0..256, |seed| {
        let mut world = World::new(seed);
        let mode = [Mode::Stateful, Mode::Stateless, Mode::Auto][world.rng.index(3)];
        let proxy = world.node("p1", |config| config.mode = mode);
        let bob = world.phone("bob", proxy);
        world.register_all(&[bob]);
        let seen = world.events(bob).count();
        let (stranger, to) = (world.stranger(), world.node_address(proxy));
        let uris = ["sip:bob@example.com", "sip:10.0.0.1", "sip:x@192.0.2.1", "sip:nobody@example.com"];
        for (n, method) in METHODS.into_iter().enumerate() {
            let uri = uris[world.rng.index(4)];
            let before = world.received(stranger).len();
            let asked = request(method, uri, "10.0.2.1:5060;rport", n, "");
            world.send_raw(stranger, to, &asked);
            world.run_for(secs(40));
            let answers = world.received(stranger).get(before..).unwrap_or_default();
            assert!(answers.len() <= 1, "{method} {uri}");
            // A challenge under two algorithms is longer than the shortest of requests.
            assert!(answers.iter().all(|answer| answer.len() <= 2 * asked.len()), "{method} {uri}");
        }
        assert_eq!(world.events(bob).count(), seen, "a stranger reached a telephone");
        world.finish();
    });
}

/// Via, Route, maddr and foreign hosts: whatever the request claims, one refusal goes to its source address and
/// nothing anywhere else.
#[test]
fn what_a_stranger_claims_moves_nothing_elsewhere() {
    sweep(0..256, |seed| {
        let mut world = World::new(seed);
        let mode = [Mode::Stateful, Mode::Stateless, Mode::Auto][world.rng.index(3)];
        let proxy = world.node("p1", |config| config.mode = mode);
        let (stranger, victim) = (world.stranger(), world.stranger());
        let to = world.node_address(proxy);
        let vias = [
            "10.0.2.2:5060",
            "10.0.2.2:5060;maddr=10.0.2.2",
            "10.0.2.1:5060;received=10.0.2.2;rport=5060",
            "10.0.2.2:5060;rport",
            "victim.example.com;received=10.0.2.2",
        ];
        let uris = [
            "sip:x@10.0.2.2",
            "sip:bob@example.com;maddr=10.0.2.2",
            "sip:bob%40example.com@10.0.2.2",
            "tel:+4930123456",
            "sip:10.0.0.1;maddr=10.0.2.2",
        ];
        let mores = [
            "",
            "Route: <sip:10.0.2.2;lr>\r\n",
            "Route: <sip:10.0.0.1;lr>, <sip:10.0.2.2;lr>\r\n",
            "Route: <sip:10.0.0.1;lr;c=0123456789abcdef>, <sip:10.0.2.2;lr>\r\n",
            "Route: <sip:example.com;lr>, <sip:10.0.2.2;lr>\r\n",
        ];
        for n in 0..20 {
            let method = METHODS[world.rng.index(METHODS.len())];
            let (via, uri) = (vias[world.rng.index(5)], uris[world.rng.index(5)]);
            let more = mores[world.rng.index(5)];
            let to_tag = world.rng.chance(0.5);
            let mut text = request(method, uri, via, n, more);
            if to_tag {
                text = String::from_utf8(text)
                    .unwrap()
                    .replace("bob@example.com>\r\n", "bob@example.com>;tag=x\r\n")
                    .into_bytes();
            }
            world.send_raw(stranger, to, &text);
            world.run_for(secs(40));
            let victims = world.received(victim);
            assert!(
                victims.is_empty(),
                "{method} {uri} {via} {more}: {}",
                String::from_utf8_lossy(&victims[0])
            );
        }
        world.finish();
    });
}

/// RFC 3581 §4: with `rport` the answer goes to the source port and says so; without, to the port in Via.
#[test]
fn rport_brings_the_answer_back_to_the_source_port() {
    sweep(0..256, |seed| {
        let mut world = World::new(seed);
        let proxy = world.node("p1", |_| {});
        let (stranger, to) = (world.stranger(), world.node_address(proxy));
        world.send_raw(stranger, to, &request("OPTIONS", "sip:10.0.0.1", "10.9.9.9:4711;rport", 1, ""));
        world.run_for(secs(1));
        let mut index = Index::new();
        let answer = Message::parse(&world.received(stranger)[0], &mut index, &Limits::default()).unwrap();
        assert_eq!(answer.via().rport, Some(Some(5060)));
        assert_eq!(answer.via().received_ip(), Some(stranger.ip()));
        world.send_raw(stranger, to, &request("OPTIONS", "sip:10.0.0.1", "10.2.2.2:4711", 2, ""));
        world.run_for(secs(1));
        assert_eq!(world.received(stranger).len(), 1, "that answer went to port 4711");
        world.finish();
    });
}
