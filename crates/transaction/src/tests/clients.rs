//! Client transactions: RFC 3261 §17.1, RFC 6026 §7.2.

use tandem_base::Rng;
use tandem_sip::Method;

use crate::ResponseArrival::{Absorbed, Pass, Stray};
use crate::bench::{Bench, USER, answer, request};
use crate::{Event, Timer, branch};

/// RFC 3261 §17.1.1.2. A starts at T1 = 500 ms and doubles without limit; B gives up at 64·T1.
#[test]
fn unanswered_invite_repeats_on_timer_a_until_timer_b() {
    let mut uac = Bench::udp();
    let (client, user) = (uac.call(Method::Invite), USER);
    uac.run_to_end();
    assert_eq!(uac.sent_ms("INVITE"), [0, 500, 1500, 3500, 7500, 15500, 31500]);
    assert_eq!(uac.now_ms(), 32_000);
    let timeout = Event::ClientTimeout { client, user, timer: Timer::B };
    assert_eq!(uac.events(), [timeout, Event::ClientTerminated { client, user }]);
    assert!(uac.sent.iter().all(|sent| sent.text == uac.sent[0].text));
    assert!(uac.layer.is_empty());
}

/// RFC 3261 §17.1.2.2. E starts at T1 and doubles up to T2 = 4 s; F gives up at 64·T1.
#[test]
fn unanswered_register_repeats_on_timer_e_until_timer_f() {
    let mut uac = Bench::udp();
    let (client, user) = (uac.call(Method::Register), USER);
    uac.run_to_end();
    let e = [0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500];
    assert_eq!(uac.sent_ms("REGISTER"), e);
    assert_eq!(uac.now_ms(), 32_000);
    let timeout = Event::ClientTimeout { client, user, timer: Timer::F };
    assert_eq!(uac.events(), [timeout, Event::ClientTerminated { client, user }]);
}

/// RFC 3261 §17.1.1.2: a provisional response ends the repetitions and the patience of B; it may ring for an hour.
#[test]
fn provisional_response_stops_the_repetition_of_an_invite_for_good() {
    let mut uac = Bench::udp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    uac.run_until_ms(600);
    assert_eq!(uac.answered(&invite, 100), Pass { client, user: USER });
    assert_eq!(uac.layer.poll_timeout(), None);
    uac.run_until_ms(3_600_000);
    assert_eq!(uac.answered(&invite, 180), Pass { client, user: USER });
    assert_eq!((uac.sent_ms("INVITE"), uac.events()), (vec![0, 500], vec![]));
    assert_eq!(uac.layer.len().invite_client, 1);
}

/// RFC 3261 §17.1.2.2: in Proceeding the running E fires once more as set (1500 ms), then every T2; F goes on.
#[test]
fn provisional_response_slows_a_non_invite_down_to_t2() {
    let mut uac = Bench::udp();
    let client = uac.call(Method::Options);
    let options = uac.last_sent();
    uac.run_until_ms(600);
    assert_eq!(uac.answered(&options, 100), Pass { client, user: USER });
    uac.run_to_end();
    assert_eq!(uac.sent_ms("OPTIONS"), [0, 500, 1500, 5500, 9500, 13500, 17500, 21500, 25500, 29500]);
    assert_eq!(uac.now_ms(), 32_000);
}

/// RFC 3261 §17.1.1.3: what has to be equal is, To is the response's, one Via, every Route. The ACK is repeated for
/// every repeated failure until D = 32 s, and the TU sees the failure once.
#[test]
fn failure_is_acknowledged_each_time_it_comes_and_passed_on_once() {
    let mut uac = Bench::udp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    assert_eq!(uac.answered(&invite, 486), Pass { client, user: USER });
    let branch = &invite[invite.find("z9hG4bK").unwrap()..][..branch::encode(0, 0).len()];
    let ack = format!(
        "ACK sip:bob@192.0.2.4 SIP/2.0\r\n\
         Via: SIP/2.0/UDP pc33.atlanta.example.com:5060;branch={branch}\r\n\
         Route: <sip:p1.example.com;lr>, <sip:p2.example.com;lr>\r\n\
         Route: <sip:p3.example.com;lr>\r\n\
         Max-Forwards: 70\r\n\
         From: Alice <sip:alice@atlanta.example.com>;tag=88sja8x\r\n\
         To: Bob <sip:bob@biloxi.example.com>;tag=b\r\n\
         Call-ID: 987asjd97y7atg@atlanta.example.com\r\n\
         CSeq: 986759 ACK\r\n\
         Content-Length: 0\r\n\r\n"
    );
    assert_eq!(uac.last_sent(), ack);
    uac.run_until_ms(31_999);
    assert_eq!(uac.answered(&invite, 486), Absorbed);
    assert_eq!((uac.last_sent(), uac.sent.last().unwrap().hop), (ack, uac.hop));
    // RFC 3261 figure 5 has no arrow for these.
    assert_eq!((uac.answered(&invite, 200), uac.answered(&invite, 180)), (Absorbed, Absorbed));
    uac.run_to_end();
    assert_eq!((uac.now_ms(), uac.sent_ms("ACK"), uac.sent_ms("INVITE")), (32_000, vec![0, 31_999], vec![0]));
    assert_eq!(uac.events(), [Event::ClientTerminated { client, user: USER }]);
    assert_eq!(uac.answered(&invite, 486), Stray);
}

/// RFC 6026 §7.2: every 2xx goes to the TU for M = 64·T1, be it a repetition or another branch of a fork; after that
/// it is a stray that must not be forwarded.
#[test]
fn late_2xx_are_passed_on_twice_and_again_until_timer_m() {
    let mut uac = Bench::udp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    let pass = Pass { client, user: USER };
    assert_eq!(uac.answered(&invite, 200), pass);
    uac.run_until_ms(500);
    assert_eq!(uac.answered(&invite, 200), pass);
    let other_fork = answer(&invite, 200).replace(";tag=b", ";tag=c");
    assert_eq!(uac.receive_response(&other_fork), pass);
    assert_eq!((uac.answered(&invite, 486), uac.answered(&invite, 183)), (Absorbed, Absorbed));
    uac.run_until_ms(31_999);
    assert_eq!(uac.answered(&invite, 200), pass);
    uac.run_to_end();
    assert_eq!((uac.now_ms(), uac.sent.len()), (32_000, 1));
    assert_eq!(uac.answered(&invite, 200), Stray);
    assert_eq!(uac.layer.counters().strays, 1);
}

/// RFC 3261 §17.1.2.2: K = T4 = 5 s swallows repeated final responses.
#[test]
fn repeated_final_response_to_a_non_invite_is_absorbed_until_timer_k() {
    let mut uac = Bench::udp();
    let client = uac.call(Method::Bye);
    let bye = uac.last_sent();
    assert_eq!(uac.answered(&bye, 200), Pass { client, user: USER });
    uac.run_until_ms(4_999);
    assert_eq!(uac.answered(&bye, 200), Absorbed);
    uac.run_to_end();
    assert_eq!((uac.now_ms(), uac.sent.len()), (5_000, 1));
    assert_eq!(uac.answered(&bye, 200), Stray);
}

/// RFC 3261 §17.1: over a stream A, D, E and K are off or zero; B, F and M are as ever.
#[test]
fn over_tcp_nothing_is_repeated_and_final_responses_end_it_at_once() {
    let mut uac = Bench::tcp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    assert_eq!(uac.answered(&invite, 603), Pass { client, user: USER });
    assert!(uac.layer.is_empty());
    assert_eq!(uac.sent_ms("ACK"), [0]);
    uac.call(Method::Options);
    let options = uac.last_sent();
    uac.answered(&options, 404);
    assert!(uac.layer.is_empty());
    uac.events();
    let (invite, options) = (uac.call(Method::Invite), uac.call(Method::Options));
    let sent = uac.sent.len();
    uac.run_to_end();
    assert_eq!((uac.now_ms(), uac.sent.len()), (32_000, sent));
    let user = USER;
    let expected = [(invite, Timer::B), (options, Timer::F)].map(|(client, timer)| {
        [Event::ClientTimeout { client, user, timer }, Event::ClientTerminated { client, user }]
    });
    assert_eq!(uac.events(), expected.concat());
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    uac.answered(&invite, 200);
    uac.run_until_ms(63_999);
    assert_eq!(uac.answered(&invite, 200), Pass { client, user: USER });
    uac.run_to_end();
    assert_eq!(uac.now_ms(), 64_000);
}

/// RFC 3261 §17.1.4: word that the request could not be sent ends the transaction at once, unless a peer has
/// answered since; word of an ACK does so too.
#[test]
fn failed_sending_ends_a_client_transaction_that_nobody_answered() {
    let user = USER;
    let mut uac = Bench::udp();
    for method in [Method::Invite, Method::Message] {
        let client = uac.call(method);
        let request = uac.last_sent();
        uac.turn(|layer, now, _| layer.transport_error(now, request.as_bytes()));
        let error = Event::ClientTransportError { client, user };
        assert_eq!(uac.events(), [error, Event::ClientTerminated { client, user }]);
        uac.turn(|layer, now, _| layer.transport_error(now, request.as_bytes()));
        assert_eq!(uac.events(), []);
    }
    uac.call(Method::Invite);
    let invite = uac.last_sent();
    uac.answered(&invite, 180);
    uac.turn(|layer, now, _| layer.transport_error(now, invite.as_bytes()));
    assert_eq!(uac.events(), []);
    uac.answered(&invite, 486);
    let ack = uac.last_sent();
    uac.turn(|layer, now, _| layer.transport_error(now, ack.as_bytes()));
    assert_eq!(uac.events().len(), 2);
    assert!(uac.layer.is_empty());
    for garbage in ["", "\r\n\r\n", "x", &invite[..40], &answer(&invite, 200)] {
        uac.turn(|layer, now, _| layer.transport_error(now, garbage.as_bytes()));
    }
}

/// RFC 3261 §17.1.3 wants branch and CSeq method. THREATS 15: the branch's 64 random bits stand against an attacker
/// who knows the slot: a million guesses expect 10^6 / 2^64 hits.
#[test]
fn a_million_guessed_responses_match_nothing() {
    let mut uac = Bench::udp();
    uac.call(Method::Invite);
    let invite = uac.last_sent();
    let response = answer(&invite, 200);
    let cseq = response.replace("986759 INVITE", "986759 OPTIONS");
    assert_eq!(uac.receive_response(&cseq), Stray);
    let at = invite.find("z9hG4bK").unwrap();
    let branch = invite[at..].split("\r\n").next().unwrap();
    for bad in ["x", "z9hG4bK", "z9hG4bKx", &branch[..branch.len() - 1], "z9hG4bKAAAAAAAAAAAAAAA!"] {
        assert_eq!(
            uac.receive_response(&response.replace(&format!("branch={branch}"), &format!("branch={bad};x"))),
            Stray
        );
    }
    let (slot, secret) = branch::decode(branch.as_bytes()).unwrap();
    let mut guesses = Rng::from_seed(99);
    let bytes = response.into_bytes();
    let at = bytes.windows(7).position(|w| w == b"z9hG4bK").unwrap();
    let strays = uac.layer.counters().strays;
    let (mut forged, mut index) = (bytes.clone(), tandem_sip::Index::new());
    let mut out = tandem_sip::Outbox::new();
    for n in 0..1_000_000_u64 {
        // Half of them differ from the true secret in one bit or in a few.
        let guess =
            if n % 2 == 0 { guesses.next_u64() } else { secret ^ (1 << (n / 2 % 64)) ^ (n / 128) << 8 };
        if guess == secret {
            continue;
        }
        forged[at..at + crate::BRANCH_BYTES].copy_from_slice(&branch::encode(slot, guess));
        let limits = tandem_sip::Limits::default();
        let message = tandem_sip::Message::parse(&forged, &mut index, &limits).unwrap();
        assert_eq!(uac.layer.receive_response(uac.now, &message, &mut out), Stray);
    }
    assert!(uac.layer.counters().strays - strays >= 999_900);
    let message = tandem_sip::Message::parse(&bytes, &mut index, &tandem_sip::Limits::default());
    assert!(matches!(uac.layer.receive_response(uac.now, &message.unwrap(), &mut out), Pass { .. }));
}

/// A slot is used again, its branch is not: what answers the earlier request finds nothing, and neither does its id.
#[test]
fn response_to_an_earlier_transaction_of_the_same_slot_is_a_stray() {
    let mut uac = Bench::tcp();
    let first = uac.call(Method::Options);
    let old = uac.last_sent();
    uac.answered(&old, 200);
    let second = uac.call(Method::Options);
    let new = uac.last_sent();
    assert_eq!(first.0.slot(), second.0.slot());
    assert_ne!(first, second);
    assert_eq!(uac.answered(&old, 200), Stray);
    assert_eq!((uac.layer.client_user(first), uac.layer.client_user(second)), (None, Some(USER)));
    assert!(!uac.layer.set_client_user(first, 1));
    assert!(uac.layer.set_client_user(second, 9));
    assert_eq!(uac.answered(&new, 200), Pass { client: second, user: 9 });
}

/// The TU may put a suffix behind the branch; responses are found all the same, and ACKs repeat it.
#[test]
fn suffix_behind_the_branch_comes_back_and_is_kept_in_the_ack() {
    let mut uac = Bench::udp();
    let hop = uac.hop;
    uac.turn(|layer, now, out| {
        layer.open_client(now, Method::Invite, hop, USER, out, |bytes, branch| {
            let branch = format!("{}.k7f3", core::str::from_utf8(branch).unwrap());
            bytes.extend_from_slice(request("INVITE", &branch).as_bytes());
        })
    })
    .unwrap();
    let invite = uac.last_sent();
    assert!(matches!(uac.answered(&invite, 404), Pass { .. }));
    assert!(uac.last_sent().starts_with("ACK ") && uac.last_sent().contains(".k7f3\r\n"));
}
