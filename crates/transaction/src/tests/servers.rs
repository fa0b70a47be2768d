//! Server transactions: RFC 3261 §17.2, RFC 6026 §7.1.

use crate::bench::{Bench, USER, request};
use crate::{Arrival, Event};

const BRANCH: &str = "z9hG4bK776";

/// RFC 3261 §17.2.1. G fires after T1 = 500 ms and doubles up to T2 = 4 s; H ends it at 64·T1.
#[test]
fn unacknowledged_486_repeats_on_timer_g_until_timer_h() {
    let mut uas = Bench::udp();
    let invite = request("INVITE", BRANCH);
    let server = uas.open(&invite);
    uas.respond(server, &invite, 486);
    uas.run_to_end();
    let g = [0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500];
    assert_eq!(uas.sent_ms("SIP/2.0 486"), g);
    assert_eq!(uas.now_ms(), 32_000);
    let user = USER;
    assert_eq!(uas.events(), [Event::AckTimeout { server, user }, Event::ServerTerminated { server, user }]);
    assert!(uas.layer.is_empty());
    assert_eq!((uas.layer.counters().timeouts_h, uas.layer.counters().responses_repeated), (1, 10));
}

/// RFC 3261 §17.2.1. The first ACK is lost; the one for the repeated 486 ends the repetitions, and for I = T4 = 5 s
/// further INVITEs and ACKs are swallowed without a sound.
#[test]
fn lost_ack_is_made_good_by_the_next_and_confirmed_is_silent_until_timer_i() {
    let mut uas = Bench::udp();
    let (invite, ack) = (request("INVITE", BRANCH), request("ACK", BRANCH));
    let server = uas.open(&invite);
    uas.respond(server, &invite, 486);
    uas.run_until_ms(600);
    assert_eq!(uas.receive(&ack), Arrival::AckAbsorbed);
    assert_eq!(uas.receive(&invite), Arrival::Retransmission);
    uas.run_until_ms(1600);
    assert_eq!(uas.receive(&ack), Arrival::AckAbsorbed);
    assert!(!uas.respond(server, &invite, 480));
    uas.run_until_ms(5_599);
    assert_eq!(uas.events(), []);
    uas.run_to_end();
    assert_eq!(uas.sent_ms("SIP/2.0"), [0, 500]);
    assert_eq!((uas.now_ms(), uas.events()), (5_600, vec![Event::ServerTerminated { server, user: USER }]));
    assert!(matches!(uas.receive(&invite), Arrival::New(_)));
}

/// RFC 3261 §17.2.1: in Proceeding the provisional response sent last answers a repeated INVITE; before the first
/// nothing does. An ACK there acknowledges nothing.
#[test]
fn repeated_invite_gets_the_last_provisional_and_then_the_final_response() {
    let mut uas = Bench::udp();
    let invite = request("INVITE", BRANCH);
    let server = uas.open(&invite);
    assert_eq!(uas.receive(&invite), Arrival::Retransmission);
    assert_eq!(uas.receive(&request("ACK", BRANCH)), Arrival::AckAbsorbed);
    assert!(uas.sent.is_empty());
    for status in [100, 180, 486] {
        assert!(uas.respond(server, &invite, status));
        assert_eq!(uas.receive(&invite), Arrival::Retransmission);
        assert!(uas.last_sent().starts_with(&format!("SIP/2.0 {status}")));
    }
    assert_eq!(uas.sent.len(), 6);
}

/// RFC 6026 §7.1. After a 2xx the transaction swallows repeated INVITEs for L = 64·T1 = 32 s and answers none, lets
/// the UAS core repeat its 2xx and nothing else, and hands ACKs with its branch to the TU.
#[test]
fn accepted_absorbs_late_invites_in_silence_until_timer_l() {
    for mut uas in [Bench::udp(), Bench::tcp()] {
        let invite = request("INVITE", BRANCH);
        let server = uas.open(&invite);
        assert!(uas.respond(server, &invite, 180));
        assert!(uas.respond(server, &invite, 200));
        assert_eq!(uas.receive(&invite), Arrival::Retransmission);
        assert_eq!(uas.sent.len(), 2);
        uas.run_until_ms(500);
        assert!(uas.respond(server, &invite, 200));
        assert!(!uas.respond(server, &invite, 486));
        assert!(!uas.respond(server, &invite, 180));
        assert_eq!(uas.receive(&request("ACK", BRANCH)), Arrival::AckToAccepted(server));
        uas.run_until_ms(31_999);
        assert_eq!(uas.receive(&invite), Arrival::Retransmission);
        uas.run_to_end();
        assert_eq!(uas.sent_ms("SIP/2.0 200"), [0, 500]);
        assert_eq!(uas.now_ms(), 32_000);
        assert_eq!(uas.events(), [Event::ServerTerminated { server, user: USER }]);
        assert!(matches!(uas.receive(&request("ACK", BRANCH)), Arrival::New(_)));
    }
}

/// RFC 3261 §17.2.1 over a stream: no G, and I is zero, so the ACK ends it at once; without one, H does.
#[test]
fn over_tcp_a_486_goes_out_once_and_its_ack_ends_the_transaction() {
    let invite = request("INVITE", BRANCH);
    let mut uas = Bench::tcp();
    let server = uas.open(&invite);
    uas.respond(server, &invite, 486);
    uas.run_until_ms(10_000);
    assert_eq!(uas.receive(&request("ACK", BRANCH)), Arrival::AckAbsorbed);
    assert!(uas.layer.is_empty());
    assert_eq!(uas.sent_ms("SIP/2.0"), [0]);
    let mut uas = Bench::tcp();
    let server = uas.open(&invite);
    uas.respond(server, &invite, 486);
    uas.run_to_end();
    assert_eq!((uas.now_ms(), uas.sent.len()), (32_000, 1));
    assert_eq!(uas.events().first(), Some(&Event::AckTimeout { server, user: USER }));
}

/// RFC 3261 §17.2.2. Trying swallows repetitions, Proceeding and Completed repeat their last response, J ends it
/// 64·T1 after the final one; a second final response is dropped.
#[test]
fn non_invite_repeats_its_last_response_until_timer_j() {
    let mut uas = Bench::udp();
    let options = request("OPTIONS", BRANCH);
    let server = uas.open(&options);
    assert_eq!(uas.receive(&options), Arrival::Retransmission);
    assert_eq!(uas.sent.len(), 0);
    for status in [100, 200] {
        uas.respond(server, &options, status);
        assert_eq!(uas.receive(&options), Arrival::Retransmission);
        assert!(uas.last_sent().starts_with(&format!("SIP/2.0 {status}")));
    }
    assert_eq!((uas.sent_ms("SIP/2.0 100"), uas.sent_ms("SIP/2.0 200")), (vec![0, 0], vec![0, 0]));
    assert!(!uas.respond(server, &options, 500));
    uas.run_until_ms(31_999);
    assert_eq!(uas.receive(&options), Arrival::Retransmission);
    uas.run_to_end();
    assert_eq!(uas.sent_ms("SIP/2.0 200"), [0, 0, 31_999]);
    assert_eq!((uas.now_ms(), uas.events()), (32_000, vec![Event::ServerTerminated { server, user: USER }]));
    assert!(matches!(uas.receive(&options), Arrival::New(_)));
}

/// RFC 3261 §17.2.2: J is zero over a stream.
#[test]
fn over_tcp_the_final_response_ends_a_non_invite_at_once() {
    let mut uas = Bench::tcp();
    let options = request("OPTIONS", BRANCH);
    let server = uas.open(&options);
    assert!(uas.respond(server, &options, 200));
    assert!(uas.layer.is_empty());
    assert_eq!(uas.layer.poll_timeout(), None);
    assert!(!uas.respond(server, &options, 200));
    assert_eq!(uas.sent[0].hop, uas.hop);
}

/// RFC 3261 §17.2.4 as changed by RFC 6026 §8.8: the transaction survives the failure of a response, an INVITE's goes
/// on repeating it, and another request that comes again is still known.
#[test]
fn failed_response_is_reported_and_leaves_the_transaction_as_it_was() {
    let mut uas = Bench::udp();
    for method in ["INVITE", "OPTIONS"] {
        let request = request(method, BRANCH);
        let server = uas.open(&request);
        uas.respond(server, &request, 486);
        let failed = uas.last_sent();
        uas.turn(|layer, now, _| layer.transport_error(now, failed.as_bytes()));
        assert_eq!(uas.events(), [Event::ServerTransportError { server, user: USER }]);
        assert_eq!(uas.receive(&request), Arrival::Retransmission);
        assert_eq!(uas.last_sent(), failed);
    }
    uas.run_until_ms(500);
    assert_eq!(uas.sent_ms("SIP/2.0 486"), [0, 0, 0, 0, 500]);
    assert_eq!(uas.layer.counters().transport_errors, 2);
}

/// RFC 4320 §4.2: a non-INVITE that was forwarded in vain ends without a response. One that is answered runs on.
#[test]
fn abandoned_server_transaction_is_gone_and_an_answered_one_is_not() {
    let mut uas = Bench::udp();
    for method in ["OPTIONS", "INVITE"] {
        let request = request(method, BRANCH);
        let server = uas.open(&request);
        uas.turn(|layer, now, _| layer.abandon_server(now, server));
        assert_eq!(uas.events(), [Event::ServerTerminated { server, user: USER }]);
        let server = uas.open(&request);
        uas.respond(server, &request, 404);
        uas.turn(|layer, now, _| layer.abandon_server(now, server));
        assert_eq!(uas.events(), []);
        assert_eq!(uas.receive(&request), Arrival::Retransmission);
    }
}

/// RFC 3261 §18.2.2 with RFC 3581: responses go to the source address, at the Via's port without `rport`.
#[test]
fn responses_go_to_the_source_address_at_the_port_the_via_names() {
    let mut uas = Bench::udp();
    uas.hop = crate::bench::peer("203.0.113.8:41234");
    for (branch, port) in [("z9hG4bK1;rport", 41234), ("z9hG4bK2", 5060)] {
        let options = request("OPTIONS", branch);
        let server = uas.open(&options);
        uas.respond(server, &options, 200);
        let hop = uas.sent.last().unwrap().hop;
        assert_eq!((hop.peer.ip().to_string(), hop.peer.port()), ("203.0.113.8".into(), port));
        assert_eq!(uas.layer.server_hop(server), Some(hop));
    }
}
