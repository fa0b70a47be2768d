//! Matching requests: RFC 3261 §17.2.3; and the bounds of the tables.

use tandem_sip::Method;

use crate::bench::{Bench, USER, peer, request};
use crate::{Arrival, Config, Event, Full};

/// RFC 3261 §17.2.3 item 1 to 3: branch, `sent-by` with its port, method. Host names match in any case.
#[test]
fn request_matches_by_branch_sent_by_and_method_and_by_nothing_else() {
    let mut uas = Bench::udp();
    let options = request("OPTIONS", "z9hG4bKm");
    uas.open(&options);
    let shouted = options.replace("pc33.atlanta", "PC33.Atlanta");
    let rewritten = options.replace("986759 OPTIONS", "1 OPTIONS").replace("987asjd97y7atg", "x");
    for same in [&shouted, &rewritten, &options.replace(";branch=z9hG4bKm", ";rport;branch=z9hG4bKm")] {
        assert_eq!(uas.receive(same), Arrival::Retransmission);
    }
    let port = options.replacen("com:5060", "com:5061", 1);
    let no_port = options.replacen("com:5060", "com", 1);
    let host = options.replacen("pc33.", "pc34.", 1);
    let long = options.replacen("pc33.", &"long-name.".repeat(20), 1);
    let other = options.replace("OPTIONS", "INFO");
    let unknown = options.replace("OPTIONS", "FETCH");
    for different in [&port, &no_port, &host, &long, &other, &unknown] {
        assert!(matches!(uas.receive(different), Arrival::New(_)), "{different}");
    }
    uas.open(&unknown);
    assert_eq!(uas.receive(&unknown), Arrival::Retransmission);
    assert!(matches!(uas.receive(&options.replace("OPTIONS", "FETCH2")), Arrival::New(_)));
}

/// RFC 3261 §17.2.3 for elements of RFC 2543, whose branch lacks the cookie: Request-URI, tags, Call-ID, CSeq and
/// the whole topmost Via have to match; an ACK carries the To tag of our failure instead of the INVITE's.
#[test]
fn rfc_2543_requests_match_by_what_they_are_and_the_ack_by_our_tag() {
    let mut uas = Bench::udp();
    let invite = request("INVITE", "1");
    let server = uas.open(&invite);
    assert_eq!(uas.receive(&invite), Arrival::Retransmission);
    for (from, to) in [
        ("sip:bob@192.0.2.4 SIP", "sip:bob@192.0.2.5 SIP"),
        ("tag=88sja8x", "tag=other"),
        ("987asjd97y7atg", "x"),
        ("986759", "986760"),
        ("branch=1", "branch=2"),
        ("biloxi.example.com>", "biloxi.example.com>;tag=t"),
    ] {
        assert!(matches!(uas.receive(&invite.replace(from, to)), Arrival::New(_)), "{from}");
    }
    // Display names and the like play no part.
    assert_eq!(uas.receive(&invite.replace("Alice <", "A <")), Arrival::Retransmission);
    let ack = request("ACK", "1").replace("biloxi.example.com>", "biloxi.example.com>;tag=b");
    assert!(matches!(uas.receive(&ack), Arrival::New(_)));
    uas.respond(server, &invite, 486);
    assert!(matches!(uas.receive(&ack.replace("tag=b", "tag=c")), Arrival::New(_)));
    assert_eq!(uas.receive(&ack), Arrival::AckAbsorbed);
    let cancel = request("CANCEL", "1");
    assert!(matches!(uas.receive(&cancel), Arrival::Cancel { invite: Some(id), .. } if id == server));
    uas.run_to_end();
    assert_eq!(uas.events(), [Event::ServerTerminated { server, user: USER }]);
    assert!(uas.layer.is_empty());
    assert!(matches!(uas.receive(&ack), Arrival::New(_)));
}

/// A re-INVITE of such an element has a To tag already, so that both hashes of its ACK's matching say the same.
#[test]
fn rfc_2543_reinvite_answered_2xx_hands_its_ack_to_the_user() {
    let mut uas = Bench::udp();
    let tagged = |method| request(method, "1").replace("biloxi.example.com>", "biloxi.example.com>;tag=b");
    let invite = tagged("INVITE");
    let server = uas.open(&invite);
    uas.respond(server, &invite, 200);
    assert_eq!(uas.receive(&tagged("ACK")), Arrival::AckToAccepted(server));
    uas.run_to_end();
    assert!(uas.layer.is_empty());
}

/// CHECKLIST S9, THREATS 20: a full table refuses the newcomer and leaves the living alone.
#[test]
fn full_table_refuses_the_newcomer_and_evicts_nobody() {
    let config = Config { servers_max: 2, clients_max: 2, ..Config::default() };
    let mut bench = Bench::with(config, peer("192.0.2.1:5060"));
    let first = request("OPTIONS", "z9hG4bK1");
    bench.open(&first);
    assert!(!bench.layer.servers_full());
    bench.open(&request("INVITE", "z9hG4bK2"));
    assert!(bench.layer.servers_full());
    let third = request("OPTIONS", "z9hG4bK3");
    assert_eq!(bench.try_open(&third), Err(Full));
    assert!(matches!(bench.receive(&third), Arrival::New(_)));
    assert_eq!(bench.receive(&first), Arrival::Retransmission);
    bench.call(Method::Invite);
    bench.call(Method::Options);
    let sent = bench.sent.len();
    assert_eq!(bench.try_call(Method::Options), Err(Full));
    assert_eq!(bench.sent.len(), sent);
    let counters = bench.layer.counters();
    assert_eq!((counters.servers_full, counters.clients_full, counters.opened.sum()), (1, 1, 4));
    let len = bench.layer.len();
    assert_eq!((len.invite_server, len.non_invite_server), (1, 1));
    assert_eq!((len.invite_client, len.non_invite_client), (1, 1));
}

/// Ids travel as numbers, as handles of a transaction in another table.
#[test]
fn ids_survive_the_trip_through_bits() {
    let mut bench = Bench::udp();
    let server = bench.open(&request("OPTIONS", "z9hG4bK1"));
    let client = bench.call(Method::Options);
    assert_eq!(crate::ServerId::from_bits(server.to_bits()), Some(server));
    assert_eq!(crate::ClientId::from_bits(client.to_bits()), Some(client));
    assert_eq!((crate::ServerId::from_bits(0), crate::ClientId::from_bits(0)), (None, None));
    assert!(bench.layer.set_server_user(server, 12));
    assert_eq!(bench.layer.server_user(server), Some(12));
    assert_eq!(bench.layer.client_hop(client), Some(bench.hop));
}
