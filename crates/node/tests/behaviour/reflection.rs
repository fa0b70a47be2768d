//! THREATS 16: a source that proves nothing is sent no more octets than came from it, but for a first few answers.

use crate::common::{ALICE, Ask, Bench, PASSWORD, credentials, invite, register, status};
use tandem_node::STRANGER_CREDIT;

const METHODS: [&str; 12] = [
    "INVITE",
    "BYE",
    "REGISTER",
    "OPTIONS",
    "MESSAGE",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "INFO",
    "CANCEL",
    "ACK",
    "X",
];

/// The shortest requests that are answered, of every method, to every kind of target, thousands of them.
#[test]
fn strangers_get_no_more_octets_than_they_sent_but_for_their_credit() {
    let mut bench = Bench::closed(|_| {});
    let (mut asked, mut answered, mut answers) = (0, 0, 0);
    for n in 0..6000 {
        let method = METHODS[n % METHODS.len()];
        let uri = ["sip:localhost", "sip:a@localhost", "sip:1", "x:", "sip:a@1;maddr=2"][n % 5];
        let text = format!(
            "{method} {uri} SIP/2.0\r\nv:SIP/2.0/UDP a;rport;branch=z9hG4bK{n}\r\nf:<sip:a@b>;tag=1\r\n\
             t:<sip:a@localhost>\r\ni:{n}\r\nCSeq:1 {method}\r\n\r\n"
        );
        let sent = bench.send("192.0.2.1:9", &text);
        asked += text.len();
        answered += sent.iter().map(|(_, answer)| answer.len()).sum::<usize>();
        answers += sent.len();
        assert!(answered <= asked + STRANGER_CREDIT as usize, "after {n}: {answered} for {asked}");
        assert!(sent.iter().all(|(to, _)| to == "192.0.2.1:9"));
    }
    assert!(answers > 1500, "{answers} answers");
    assert!(bench.node.counters().answers_withheld > 1000);
    let sent = bench.send("192.0.2.2:9", &Ask::new("OPTIONS", "sip:1").text());
    assert_eq!(sent.len(), 1, "another source has its own credit");
}

/// Behind an address whose credit is gone, two copies of a request bring the whole challenge, and the password makes
/// the source known.
#[test]
fn whoever_repeats_a_request_is_answered_and_whoever_proves_a_password_owes_nothing() {
    let mut bench = Bench::closed(|_| {});
    let short = |n: usize| register("bob", "").call_id(&format!("{n}")).hops("").text();
    let exhaust = |bench: &mut Bench| {
        let withheld = bench.node.counters().answers_withheld;
        (0..10_000).find(|&n| {
            bench.send(ALICE, &short(n));
            bench.node.counters().answers_withheld > withheld
        })
    };
    assert!(exhaust(&mut bench).is_some());
    let ask = register("bob", "").hops("").call_id("patient");
    let first = bench.send(ALICE, &ask.text());
    let sent = if first.is_empty() { bench.send(ALICE, &ask.text()) } else { first };
    assert_eq!(status(&sent[0].1), Some(401));
    let line = credentials(&sent[0].1, "REGISTER", &ask.uri, "bob", PASSWORD, 1);
    let proved =
        bench.send(ALICE, &ask.cseq(2).via("SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK-p").with(&line).text());
    assert_eq!(status(&proved[0].1), Some(200));
    let withheld = bench.node.counters().answers_withheld;
    assert_eq!(bench.send(ALICE, &short(20_000)).len(), 1);
    assert_eq!(bench.node.counters().answers_withheld, withheld);
    // A neighbour that the operator trusts is no stranger.
    let mut open = Bench::open(|_| {});
    let missing = invite().hops("");
    for n in 0..1000 {
        let ask = Ask { uri: "sip:n@localhost".into(), ..missing.clone() }.call_id(&format!("{n}"));
        assert_eq!(open.send(ALICE, &ask.text()).len(), 1);
    }
}
