//! What comes back: which response is passed on, and which is nobody's.

use crate::common::{ALICE, Ask, BOB, Bench, Sent, all, answer, header, invite, mode, requests, statuses};
use tandem_node::Mode;
use tandem_sip::HeaderName;

fn forwarded(how: Mode, ask: &Ask) -> (Bench, String) {
    let mut bench = Bench::open(mode(how));
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    let leg = requests(&bench.send(ALICE, &ask.text()))[0].1.clone();
    (bench, leg)
}

fn stray(bench: &mut Bench, text: &str) {
    let sent = bench.send(BOB, text);
    assert!(sent.is_empty(), "{text}\ngot {sent:?}");
}

#[test]
fn a_503_from_downstream_becomes_a_500_and_other_failures_pass_as_they_are() {
    for (status, told) in [("503 Service Unavailable", 500), ("404 Not Found", 404), ("603 Decline", 603)] {
        let (mut bench, leg) = forwarded(Mode::Stateful, &invite());
        let sent = bench.send(BOB, &answer(&leg, status, "Retry-After: 60\r\n"));
        assert_eq!(statuses(&sent, ALICE), [told]);
        let retry = sent.iter().find(|(p, _)| p == ALICE).map(|(_, m)| header(m, HeaderName::RetryAfter));
        assert_eq!(retry.unwrap().is_empty(), told == 500, "{sent:?}");
    }
}

#[test]
fn challenges_of_every_branch_reach_the_caller() {
    let mut bench = Bench::open(|_| {});
    bench.bind("bob", &["<sip:b@127.0.0.1:5071>", "<sip:b@127.0.0.1:5072>"]);
    let legs = requests(&bench.send(ALICE, &invite().text()));
    let challenge = |scheme: &str, realm: &str| {
        format!("{scheme}-Authenticate: Digest realm=\"{realm}\", nonce=\"1\"\r\n")
    };
    bench.send(
        &legs[0].0,
        &answer(&legs[0].1, "407 Proxy Authentication Required", &challenge("Proxy", "one")),
    );
    let sent = bench.send(&legs[1].0, &answer(&legs[1].1, "401 Unauthorized", &challenge("WWW", "two")));
    let (_, told) = sent.iter().find(|(peer, _)| peer == ALICE).unwrap();
    let lines =
        [HeaderName::ProxyAuthenticate, HeaderName::WwwAuthenticate].map(|name| all(told, name).join("|"));
    assert!(lines[0].contains("\"one\"") && lines[1].contains("\"two\""), "{told}");
    assert_eq!(lines.concat().matches("realm").count(), 2, "each once: {told}");
}

#[test]
fn no_408_is_said_to_another_request_than_invite() {
    let ask = Ask::new("MESSAGE", "sip:bob@localhost");
    let (mut bench, _) = forwarded(Mode::Stateful, &ask);
    assert!(statuses(&bench.pass(60), ALICE).is_empty(), "silence below is silence above (RFC 4320 §4.2)");
    bench.drain();
    let (mut bench, leg) = forwarded(Mode::Stateful, &ask);
    assert!(statuses(&bench.send(BOB, &answer(&leg, "408 Request Timeout", "")), ALICE).is_empty());
    bench.drain();
    let (mut bench, leg) = forwarded(Mode::Stateful, &ask);
    assert!(statuses(&bench.send(BOB, &answer(&leg, "183 Session Progress", "")), ALICE).is_empty(), "§4.1");
    assert_eq!(statuses(&bench.send(BOB, &answer(&leg, "200 OK", "")), ALICE), [200]);
    let (mut bench, _) = forwarded(Mode::Stateful, &invite());
    assert_eq!(statuses(&bench.pass(60), ALICE).first(), Some(&408), "an INVITE is told");
}

#[test]
fn only_an_invite_is_answered_by_100_and_a_100_goes_no_further() {
    for method in ["INVITE", "MESSAGE", "OPTIONS", "BYE", "UPDATE"] {
        let mut bench = Bench::open(mode(Mode::Stateful));
        bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
        let sent = bench.send(ALICE, &Ask::new(method, "sip:bob@localhost").text());
        assert_eq!(statuses(&sent, ALICE), if method == "INVITE" { vec![100] } else { vec![] });
        let leg = requests(&sent)[0].1.clone();
        assert!(bench.send(BOB, &answer(&leg, "100 Trying", "")).is_empty());
    }
}

#[test]
fn a_response_with_one_via_is_nobodys_and_does_not_end_the_call() {
    for how in [Mode::Stateful, Mode::Stateless] {
        for ask in [invite(), Ask::new("MESSAGE", "sip:bob@localhost")] {
            let (mut bench, leg) = forwarded(how, &ask);
            let good = answer(&leg, "200 OK", "");
            let below = format!("Via: {}\r\n", all(&good, HeaderName::Via)[1]);
            stray(&mut bench, &good.replace(&below, ""));
            assert_eq!(statuses(&bench.send(BOB, &good), ALICE), [200]);
            bench.drain();
        }
    }
}

/// THREATS 14: what a phone may write into the Via below ours.
const FORGED: [(&str, &str); 7] = [
    ("127.0.0.1:5062", "192.0.2.9:5062"),
    ("127.0.0.1:5062", "255.255.255.255:5062"),
    ("127.0.0.1:5062", "127.0.0.1:9"),
    ("branch=z9hG4bK-INVITE-1", "branch=z9hG4bK-INVITE-1;received=192.0.2.9"),
    ("branch=z9hG4bK-INVITE-1", "branch=z9hG4bK-INVITE-1;rport=9"),
    ("branch=z9hG4bK-INVITE-1", "branch=z9hG4bK-INVITE-2"),
    ("SIP/2.0/UDP 127.0.0.1:5062", "SIP/2.0/UDP 224.0.1.75:5062"),
];

#[test]
fn without_state_a_forged_via_below_ours_sends_nothing() {
    let (mut bench, leg) = forwarded(Mode::Stateless, &invite());
    let good = answer(&leg, "200 OK", "");
    for (was, forged) in FORGED {
        assert!(good.contains(was));
        stray(&mut bench, &good.replace(was, forged));
    }
    let via = header(&leg, HeaderName::Via);
    let at = via.find("z9hG4bKS").unwrap() + 8;
    let mut other = via.clone();
    other.replace_range(at + 6..at + 7, if &via[at + 6..at + 7] == "0" { "1" } else { "0" });
    stray(&mut bench, &good.replace(&via, &other));
    assert_eq!(statuses(&bench.send(BOB, &good), ALICE), [200], "the true one passes");
}

#[test]
fn with_state_a_forged_via_below_ours_changes_nothing_about_where_it_goes() {
    for (was, forged) in FORGED {
        let (mut bench, leg) = forwarded(Mode::Stateful, &invite());
        let sent: Vec<Sent> = bench.send(BOB, &answer(&leg, "180 Ringing", "").replace(was, forged));
        assert!(sent.iter().all(|(peer, _)| peer == ALICE), "{sent:?}");
        let good = answer(&leg, "200 OK", "");
        assert_eq!(statuses(&bench.send(BOB, &good), ALICE), [200]);
        // The context is gone: a repetition has only its Via.
        stray(&mut bench, &good.replace(was, forged));
        assert_eq!(statuses(&bench.send(BOB, &good), ALICE), [200]);
    }
}

#[test]
fn a_response_nobody_asked_for_goes_nowhere() {
    let mut bench = Bench::open(|_| {});
    for branch in
        ["z9hG4bK1", "z9hG4bKS", "z9hG4bKS00000123456789abcdef0123456789abcdef.0123456789abcdef", ""]
    {
        stray(
            &mut bench,
            &format!(
                "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch={branch}\r\n\
                 Via: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:b@b>;tag=2\r\n\
                 Call-ID: 1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
            ),
        );
    }
}

#[test]
fn answers_go_where_the_request_came_from_if_it_asks_so_else_to_its_sent_by() {
    let natted = "198.51.100.7:40000";
    for how in [Mode::Stateful, Mode::Stateless] {
        for (via, to) in [
            ("SIP/2.0/UDP 10.0.0.5:5062;branch=z9hG4bKv;rport", natted),
            ("SIP/2.0/UDP 10.0.0.5:5062;branch=z9hG4bKv", "198.51.100.7:5062"),
            ("SIP/2.0/UDP phone.example;branch=z9hG4bKv", "198.51.100.7:5060"),
            ("SIP/2.0/UDP 10.0.0.5:5062;branch=z9hG4bKv;received=192.0.2.9;rport=9", natted),
        ] {
            let mut bench = Bench::open(mode(how));
            bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
            let leg = requests(&bench.send(natted, &invite().via(via).text()))[0].1.clone();
            let sent = bench.send(BOB, &answer(&leg, "200 OK", ""));
            assert_eq!(statuses(&sent, to), [200], "{via}: {sent:?}");
        }
    }
}
