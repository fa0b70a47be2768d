//! A whole call through one node, message by message.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod common;

use common::{ALICE, BOB, Bench, answer, header};
use tandem_node::{Challenge, Mode};
use tandem_sip::{HeaderName, Outbox};

fn bench(mode: Mode) -> Bench {
    let mut bench = Bench::open(|config| {
        config.mode = mode;
        config.auth.challenge = Challenge::Never;
    });
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    bench
}

const INVITE: &str = "INVITE sip:bob@localhost SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bKinv;rport\r\n\
From: <sip:alice@localhost>;tag=a\r\nTo: <sip:bob@localhost>\r\nCall-ID: call-1\r\nCSeq: 1 INVITE\r\n\
Contact: <sip:alice@127.0.0.1:5062>\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n";

fn in_dialog(method: &str, cseq: u32, branch: &str, route: &str) -> String {
    format!(
        "{method} sip:bob@127.0.0.1:5064 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5062;branch={branch}\r\n\
         Route: {route}\r\nFrom: <sip:alice@localhost>;tag=a\r\nTo: <sip:bob@localhost>;tag=bob\r\n\
         Call-ID: call-1\r\nCSeq: {cseq} {method}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    )
}

fn call_goes_through(mode: Mode) -> Bench {
    let mut bench = bench(mode);
    let mut sent = bench.send(ALICE, INVITE);
    if mode == Mode::Stateful {
        assert!(sent[0].1.starts_with("SIP/2.0 100 ") && sent[0].0 == ALICE, "{sent:?}");
        sent.remove(0);
    }
    let (to, invite) = sent.remove(0);
    assert_eq!(to, BOB);
    assert!(
        invite
            .starts_with("INVITE sip:bob@127.0.0.1:5064 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=")
    );
    assert!(
        invite.contains("branch=z9hG4bKinv;rport;received=127.0.0.1;rport=5062")
            || invite.contains("branch=z9hG4bKinv;received=127.0.0.1;rport=5062"),
        "{invite}"
    );
    assert_eq!(header(&invite, HeaderName::MaxForwards), "69");
    for status in ["180 Ringing", "200 OK"] {
        let sent = bench.send(BOB, &answer(&invite, status, ""));
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert_eq!(sent[0].0, ALICE);
        assert!(sent[0].1.starts_with(&format!("SIP/2.0 {status}")));
        assert_eq!(sent[0].1.matches("Via:").count(), 1);
    }
    let route = header(&invite, HeaderName::RecordRoute);
    assert!(route.contains(";lr;c="), "{route}");
    let sent = bench.send(ALICE, &in_dialog("ACK", 1, "z9hG4bKack", &route));
    assert_eq!((sent.len(), &sent[0].0[..]), (1, BOB), "{sent:?}");
    assert!(!sent[0].1.contains("Route:"), "{sent:?}");
    let mut sent = bench.send(ALICE, &in_dialog("BYE", 2, "z9hG4bKbye", &route));
    let (to, bye) = sent.remove(0);
    assert_eq!((&to[..], sent.len()), (BOB, 0));
    let sent = bench.send(BOB, &answer(&bye, "200 OK", ""));
    assert!(sent[0].0 == ALICE && sent[0].1.starts_with("SIP/2.0 200"), "{sent:?}");
    bench
}

#[test]
fn a_call_goes_through_with_state_and_leaves_none_behind() {
    let mut bench = call_goes_through(Mode::Stateful);
    let mut out = Outbox::new();
    while let Some(at) = bench.node.poll_timeout() {
        bench.node.handle_timeout(at, &mut out);
    }
    assert!(bench.node.is_idle());
    assert!(out.is_empty());
}

#[test]
fn a_call_goes_through_without_state() {
    let bench = call_goes_through(Mode::Stateless);
    assert!(bench.node.is_idle());
}

#[test]
fn a_stranger_reaches_local_users_and_nobody_else() {
    let mut bench = bench(Mode::Stateful);
    let sent = bench.send(ALICE, &INVITE.replace("sip:bob@localhost SIP", "sip:bob@192.0.2.1 SIP"));
    assert!(sent.len() == 1 && sent[0].1.starts_with("SIP/2.0 403"), "{sent:?}");
    let forged = in_dialog("BYE", 2, "z9hG4bKf", "<sip:127.0.0.1:5060;lr;c=0123456789abcdef>");
    let sent = bench.send(ALICE, &forged);
    assert!(sent.len() == 1 && sent[0].1.starts_with("SIP/2.0 403"), "{sent:?}");
}
