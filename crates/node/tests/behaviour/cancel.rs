//! RFC 3261 §9 and §16.10: CANCEL at every moment of a call.

use crate::common::{ALICE, Ask, BOB, Bench, answer, header, invite, mode, requests, statuses};
use tandem_node::{Command, Event, Mode};
use tandem_sip::HeaderName;

const CONTACT: [&str; 1] = ["<sip:bob@127.0.0.1:5064>"];

fn calling(how: Mode) -> (Bench, String) {
    let mut bench = Bench::open(mode(how));
    bench.bind("bob", &CONTACT);
    let sent = bench.send(ALICE, &invite().text());
    (bench, requests(&sent)[0].1.clone())
}

fn cancel() -> String {
    invite().follow("CANCEL", "<sip:bob@localhost>").text()
}

#[test]
fn a_cancel_while_it_rings_stops_the_phone_and_the_caller_gets_487() {
    let (mut bench, leg) = calling(Mode::Stateful);
    bench.send(BOB, &answer(&leg, "180 Ringing", ""));
    let sent = bench.send(ALICE, &cancel());
    assert_eq!(statuses(&sent, ALICE), [200]);
    let cancels = requests(&sent);
    assert!(cancels[0].0 == BOB && cancels[0].1.starts_with("CANCEL sip:bob@127.0.0.1:5064 "), "{sent:?}");
    bench.send(BOB, &answer(&cancels[0].1, "200 OK", ""));
    let sent = bench.send(BOB, &answer(&leg, "487 Request Terminated", ""));
    assert_eq!(statuses(&sent, ALICE), [487]);
    bench.send(ALICE, &invite().follow("ACK", "<sip:bob@localhost>;tag=bob").text());
    bench.drain();
}

#[test]
fn a_cancel_before_any_answer_waits_for_a_provisional_one() {
    let (mut bench, leg) = calling(Mode::Stateful);
    let sent = bench.send(ALICE, &cancel());
    assert_eq!((statuses(&sent, ALICE), requests(&sent).len()), (vec![200], 0));
    let sent = bench.send(BOB, &answer(&leg, "100 Trying", ""));
    assert!(requests(&sent)[0].1.starts_with("CANCEL "), "{sent:?}");
}

#[test]
fn a_cancelled_call_to_a_silent_phone_ends_all_the_same() {
    let (mut bench, leg) = calling(Mode::Stateful);
    bench.send(BOB, &answer(&leg, "180 Ringing", ""));
    bench.send(ALICE, &cancel());
    let told = statuses(&bench.pass(60), ALICE);
    assert_eq!(told.first(), Some(&408), "64·T1 after the CANCEL");
    bench.drain();
}

#[test]
fn a_200_that_crosses_the_cancel_wins() {
    let (mut bench, leg) = calling(Mode::Stateful);
    bench.send(BOB, &answer(&leg, "180 Ringing", ""));
    bench.send(ALICE, &cancel());
    assert_eq!(statuses(&bench.send(BOB, &answer(&leg, "200 OK", "")), ALICE), [200]);
    let late = bench.send(ALICE, &cancel());
    assert_eq!((statuses(&late, ALICE), requests(&late).len()), (vec![200], 0), "nothing left to cancel");
    bench.drain();
}

#[test]
fn a_cancel_while_the_name_is_looked_up_ends_the_call_with_487_and_nothing_leaves() {
    let mut bench = Bench::open(|_| {});
    let ask = Ask::new("INVITE", "sip:bob@far.example.net");
    bench.send(ALICE, &ask.text());
    let Some(Event::Resolve { ticket, .. }) = bench.event() else { panic!("no question") };
    let sent = bench.send(ALICE, &ask.follow("CANCEL", "<sip:bob@localhost>").text());
    assert_eq!(statuses(&sent, ALICE), [200, 487]);
    let late = bench.command(&Command::Resolved { ticket, addresses: [BOB.parse().unwrap()].into() });
    assert!(late.is_empty(), "{late:?}");
    bench.drain();
}

#[test]
fn a_cancel_stops_a_serial_fork() {
    let mut bench = Bench::open(|config| config.proxy.fork = tandem_proxy::Fork::Serial);
    bench.bind("bob", &["<sip:b@127.0.0.1:5071>", "<sip:b@127.0.0.1:5072>"]);
    let leg = requests(&bench.send(ALICE, &invite().text()))[0].clone();
    bench.send(&leg.0, &answer(&leg.1, "180 Ringing", ""));
    bench.send(ALICE, &cancel());
    let sent = bench.send(&leg.0, &answer(&leg.1, "487 Request Terminated", ""));
    assert_eq!(statuses(&sent, ALICE), [487]);
    assert!(!requests(&sent).iter().any(|(_, text)| text.starts_with("INVITE")), "{sent:?}");
}

#[test]
fn without_state_cancel_and_ack_follow_their_invite_with_its_branch() {
    let (mut bench, leg) = calling(Mode::Stateless);
    let branch = header(&leg, HeaderName::Via);
    for (method, to) in [("CANCEL", "<sip:bob@localhost>"), ("ACK", "<sip:bob@localhost>;tag=bob")] {
        let sent = bench.send(ALICE, &invite().follow(method, to).text());
        assert_eq!((sent.len(), &sent[0].0[..]), (1, BOB), "{sent:?}");
        assert!(sent[0].1.starts_with(&format!("{method} sip:bob@127.0.0.1:5064 ")), "{sent:?}");
        assert_eq!(
            header(&sent[0].1, HeaderName::Via),
            branch,
            "§16.11: or the phone does not know its INVITE"
        );
    }
    let again = bench.send(ALICE, &invite().text());
    assert_eq!(header(&again[0].1, HeaderName::Via), branch, "a retransmission");
    assert!(bench.node.is_idle());
}

#[test]
fn timer_c_cancels_a_phone_that_rings_too_long() {
    let (mut bench, leg) = calling(Mode::Stateful);
    bench.send(BOB, &answer(&leg, "180 Ringing", ""));
    bench.pass(100);
    bench.send(BOB, &answer(&leg, "180 Ringing", ""));
    let sent = bench.pass(184);
    assert!(requests(&sent).is_empty(), "every 1xx starts it anew (§16.7 step 2): {sent:?}");
    let sent = bench.pass(2);
    assert!(requests(&sent)[0].1.starts_with("CANCEL "), "{sent:?}");
    assert_eq!(statuses(&bench.send(BOB, &answer(&leg, "487 Request Terminated", "")), ALICE), [487]);
}
