//! CANCEL from both sides: RFC 3261 §9.

use tandem_sip::Method;

use crate::ResponseArrival::{Absorbed, Pass, Stray};
use crate::bench::{Bench, USER, peer, request};
use crate::{Arrival, Config, Event, Timer};

/// RFC 3261 §9.1: no CANCEL before a provisional response; then it goes out by itself, with the INVITE's
/// Request-URI, topmost Via, Route, From, To, Call-ID and CSeq number. It is repeated by E until its 200, which the
/// TU never sees; the 487 ends the INVITE.
#[test]
fn cancel_waits_for_a_provisional_response_and_is_then_a_transaction_of_its_own() {
    let mut uac = Bench::udp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    assert!(
        uac.turn(|layer, now, out| { layer.cancel_because(now, client, b"Reason: SIP;cause=200\r\n", out) })
    );
    assert!(uac.turn(|layer, now, out| layer.cancel(now, client, out)));
    uac.run_until_ms(400);
    assert_eq!(uac.sent.len(), 1);
    assert_eq!(uac.answered(&invite, 100), Pass { client, user: USER });
    let branch = invite[invite.find("z9hG4bK").unwrap()..].split("\r\n").next().unwrap();
    let cancel = format!(
        "CANCEL sip:bob@192.0.2.4 SIP/2.0\r\n\
         Via: SIP/2.0/UDP pc33.atlanta.example.com:5060;branch={branch}\r\n\
         Route: <sip:p1.example.com;lr>, <sip:p2.example.com;lr>\r\n\
         Route: <sip:p3.example.com;lr>\r\n\
         Max-Forwards: 70\r\n\
         From: Alice <sip:alice@atlanta.example.com>;tag=88sja8x\r\n\
         To: Bob <sip:bob@biloxi.example.com>\r\n\
         Call-ID: 987asjd97y7atg@atlanta.example.com\r\n\
         CSeq: 986759 CANCEL\r\n\
         Reason: SIP;cause=200\r\n\
         Content-Length: 0\r\n\r\n"
    );
    assert_eq!(uac.last_sent(), cancel);
    assert!(uac.turn(|layer, now, out| layer.cancel(now, client, out)));
    uac.run_until_ms(1_000);
    assert_eq!(uac.sent_ms("CANCEL"), [400, 900]);
    assert_eq!(uac.answered(&cancel, 200), Absorbed);
    assert_eq!(uac.answered(&cancel, 200), Absorbed);
    assert_eq!(uac.answered(&invite, 487), Pass { client, user: USER });
    assert!(!uac.turn(|layer, now, out| layer.cancel(now, client, out)));
    uac.run_to_end();
    assert_eq!(uac.sent_ms("CANCEL"), [400, 900]);
    assert_eq!((uac.now_ms(), uac.sent_ms("ACK")), (33_000, vec![1_000]));
    assert_eq!(uac.events(), [Event::ClientTerminated { client, user: USER }]);
    assert_eq!(uac.layer.counters().cancels_sent, 1);
    assert!(uac.layer.is_empty());
}

/// RFC 3261 §9.1: the 200 and the CANCEL pass each other. The 200 is the TU's as if nothing had happened, and the
/// guard of the cancelled INVITE is off.
#[test]
fn cancel_that_crosses_a_2xx_changes_nothing_for_the_caller() {
    let mut uac = Bench::udp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    uac.answered(&invite, 180);
    assert!(uac.turn(|layer, now, out| layer.cancel(now, client, out)));
    let cancel = uac.last_sent();
    assert_eq!(uac.answered(&invite, 200), Pass { client, user: USER });
    assert_eq!(uac.answered(&cancel, 481), Absorbed);
    uac.run_to_end();
    assert_eq!((uac.now_ms(), uac.events()), (32_000, vec![Event::ClientTerminated { client, user: USER }]));
    // A final response that comes before any provisional one leaves nothing to cancel.
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    assert!(uac.turn(|layer, now, out| layer.cancel(now, client, out)));
    assert_eq!(uac.answered(&invite, 200), Pass { client, user: USER });
    uac.run_to_end();
    assert_eq!(uac.sent_ms("CANCEL").len(), 1);
}

/// RFC 3261 §9.1: an INVITE that nothing ends within 64·T1 of its CANCEL is given up, provisional responses or not;
/// the unanswered CANCEL itself says nothing to the TU.
#[test]
fn cancelled_invite_without_a_final_response_ends_64_t1_after_the_cancel() {
    let user = USER;
    let mut uac = Bench::udp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    uac.answered(&invite, 180);
    uac.run_until_ms(10_000);
    uac.turn(|layer, now, out| layer.cancel(now, client, out));
    uac.run_until_ms(20_000);
    assert_eq!(uac.answered(&invite, 180), Pass { client, user });
    uac.run_until_ms(41_999);
    assert_eq!(uac.events(), []);
    uac.run_to_end();
    assert_eq!(uac.now_ms(), 42_000);
    let timeout = Event::ClientTimeout { client, user, timer: Timer::Cancelled };
    assert_eq!(uac.events(), [timeout, Event::ClientTerminated { client, user }]);
    assert!(uac.layer.is_empty());
}

/// Over a stream the 487 ends the INVITE before the CANCEL's 200 may be here; the CANCEL goes with it.
#[test]
fn cancel_leaves_with_its_invite() {
    let mut uac = Bench::tcp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    uac.answered(&invite, 180);
    uac.turn(|layer, now, out| layer.cancel(now, client, out));
    let cancel = uac.last_sent();
    assert_eq!(uac.answered(&invite, 487), Pass { client, user: USER });
    assert!(uac.layer.is_empty());
    assert_eq!(uac.answered(&cancel, 200), Stray);
    assert_eq!((uac.layer.poll_timeout(), uac.events().len()), (None, 1));
}

/// Only INVITEs are cancelled (§9.1), and a full table costs the CANCEL its repetitions, not its sending.
#[test]
fn cancel_goes_out_even_when_the_table_is_full_and_never_for_other_methods() {
    let mut uac = Bench::with(Config { clients_max: 2, ..Config::default() }, peer("192.0.2.1:5060"));
    let (options, client) = (uac.call(Method::Options), uac.call(Method::Invite));
    assert!(!uac.turn(|layer, now, out| layer.cancel(now, options, out)));
    let invite = uac.last_sent();
    uac.answered(&invite, 180);
    assert!(uac.turn(|layer, now, out| layer.cancel(now, client, out)));
    let cancel = uac.last_sent();
    uac.run_to_end();
    assert_eq!(uac.sent_ms("CANCEL"), [0]);
    assert_eq!((uac.now_ms(), uac.layer.counters().clients_full), (32_000, 1));
    assert_eq!(uac.answered(&cancel, 200), Stray);
}

/// RFC 3261 §9.2: a CANCEL names its INVITE by the branch, is a transaction of its own, and changes nothing in the
/// INVITE's, whatever state that is in; the TU sends 200 and 487.
#[test]
fn received_cancel_finds_its_invite_in_every_state() {
    let mut uas = Bench::udp();
    let (invite, cancel) = (request("INVITE", "z9hG4bKc"), request("CANCEL", "z9hG4bKc"));
    assert!(matches!(uas.receive(&cancel), Arrival::Cancel { invite: None, .. }));
    let server = uas.open(&invite);
    assert!(matches!(uas.receive(&cancel), Arrival::Cancel { invite: Some(id), .. } if id == server));
    let cancelling = uas.open(&cancel);
    uas.respond(cancelling, &cancel, 200);
    assert_eq!(uas.receive(&cancel), Arrival::Retransmission);
    assert_eq!(uas.sent_ms("SIP/2.0 200"), [0, 0]);
    assert!(uas.respond(server, &invite, 487));
    assert_eq!(uas.receive(&request("ACK", "z9hG4bKc")), Arrival::AckAbsorbed);
    uas.run_to_end();
    assert!(uas.layer.is_empty());
    let server = uas.open(&invite);
    uas.respond(server, &invite, 200);
    assert!(matches!(uas.receive(&cancel), Arrival::Cancel { invite: Some(id), .. } if id == server));
}

/// A CANCEL has to come from its INVITE's address (any port); one with a stolen branch from elsewhere gets a 481.
#[test]
fn cancel_from_another_address_matches_no_invite() {
    let mut uas = Bench::udp();
    let server = uas.open(&request("INVITE", "z9hG4bKc"));
    let cancel = request("CANCEL", "z9hG4bKc");
    let stolen = uas.receive_from(&cancel, peer("198.51.100.66:5060"));
    assert!(matches!(stolen, Arrival::Cancel { invite: None, .. }));
    assert_eq!(uas.layer.counters().foreign_cancels, 1);
    let rightful = uas.receive_from(&cancel, peer("192.0.2.1:1024"));
    assert!(matches!(rightful, Arrival::Cancel { invite: Some(id), .. } if id == server));
}
