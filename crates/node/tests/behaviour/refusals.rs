//! Every status that the node gives of its own accord, and why.

use crate::common::{ALICE, Ask, BOB, Bench, header, invite, mode, register, requests, status, statuses};
use tandem_node::{Command, Mode};
use tandem_sip::HeaderName;

/// The last status that a fresh node with bob registered answers a request of alice's by, and that answer.
fn told(ask: &Ask) -> (u16, String) {
    let mut bench = Bench::open(mode(Mode::Stateful));
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    let sent = bench.send(ALICE, &ask.text());
    let (peer, text) = sent.last().cloned().unwrap_or_default();
    assert_eq!(peer, ALICE, "{sent:?}");
    (status(&text).unwrap_or(0), text)
}

fn ask(method: &str, uri: &str) -> Ask {
    Ask::new(method, uri)
}

#[test]
fn each_refusal_has_the_status_of_its_reason() {
    let bob = "sip:bob@localhost";
    for (ask, status) in [
        (ask("INVITE", "sip:"), 400),
        (ask("INVITE", bob).hops("Max-Forwards: x\r\n"), 400),
        (ask("INVITE", bob).hops("Max-Forwards: 256\r\n"), 400),
        (ask("INVITE", bob).from("<sip:alice@localhost"), 400),
        (ask("INVITE", bob).to("<>"), 400),
        (ask("REGISTER", "sip:localhost").to("<tel:+15550100>"), 400),
        (ask("INVITE", "sip:nobody@localhost"), 404),
        (ask("REGISTER", "sip:localhost").to("<sip:x@elsewhere.example>"), 404),
        (ask("INVITE", "sip:localhost"), 405),
        (ask("MESSAGE", "sip:127.0.0.1:5060"), 405),
        (ask("INVITE", "http://localhost/"), 416),
        (ask("INVITE", "tel:+15550100"), 416),
        (ask("INVITE", bob).with("Proxy-Require: foo\r\n"), 420),
        (ask("INVITE", bob).with("Max-Breadth: 0\r\n"), 440),
        (ask("INVITE", "sip:alice@localhost"), 480),
        (ask("INVITE", bob).hops("Max-Forwards: 0\r\n"), 483),
        (ask("OPTIONS", bob).hops("Max-Forwards: 0\r\n"), 483),
    ] {
        let (got, text) = told(&ask);
        assert_eq!(got, status, "{}", ask.text());
        assert!(header(&text, HeaderName::To).contains(";tag="), "{text}");
    }
    let old = ask("INVITE", bob).text().replace("SIP/2.0\r\nVia", "SIP/3.0\r\nVia");
    let mut bench = Bench::open(|_| {});
    assert_eq!(statuses(&bench.send(ALICE, &old), ALICE), [505]);
}

#[test]
fn a_405_says_what_is_allowed_and_a_420_what_is_not_known() {
    let (_, text) = told(&ask("INVITE", "sip:localhost"));
    assert_eq!(header(&text, HeaderName::Allow), "OPTIONS, REGISTER");
    let (_, text) =
        told(&ask("INVITE", "sip:bob@localhost").with("Proxy-Require: one, two\r\nRequire: three\r\n"));
    let unsupported = crate::common::all(&text, HeaderName::Unsupported).join(",");
    assert_eq!(unsupported, "one,two");
    for ask in [ask("OPTIONS", "sip:localhost"), register("bob", "<sip:b@127.0.0.1:5064>")] {
        let mut bench = Bench::open(|_| {});
        let sent = bench.send(ALICE, &ask.with("Require: path, gruu\r\nRequire: outbound\r\n").text());
        assert_eq!(status(&sent[0].1), Some(420), "{sent:?}");
        let unsupported = crate::common::all(&sent[0].1, HeaderName::Unsupported).join(",");
        assert_eq!(unsupported, "gruu,outbound", "only what is unknown");
    }
}

#[test]
fn what_is_for_the_node_itself_needs_no_hops_left() {
    for ask in [ask("OPTIONS", "sip:localhost"), register("bob", "<sip:b@127.0.0.1:5064>")] {
        let mut bench = Bench::open(|_| {});
        let via = ask.via.clone();
        let text = ask.hops("Max-Forwards: 0\r\n").via(&via.replace(BOB, ALICE)).text();
        assert_eq!(statuses(&bench.send(ALICE, &text), ALICE), [200], "{text}");
    }
}

#[test]
fn the_ack_of_a_refusal_ends_here_and_the_refusal_needs_no_state() {
    let mut bench = Bench::open(mode(Mode::Stateful));
    let ask = Ask::new("INVITE", "sip:nobody@localhost");
    let sent = bench.send(ALICE, &ask.text());
    assert_eq!(statuses(&sent, ALICE), [404]);
    assert!(bench.node.is_idle());
    let to = header(&sent[0].1, HeaderName::To);
    assert!(bench.send(ALICE, &ask.follow("ACK", &to).text()).is_empty());
    assert_eq!(bench.send(ALICE, &ask.text()), sent, "the same answer to a repetition");
}

#[test]
fn an_ack_is_never_answered_whatever_is_wrong_with_it() {
    let mut bench = Bench::closed(|_| {});
    for ask in [
        ask("ACK", "sip:nobody@localhost"),
        ask("ACK", "http://localhost/"),
        ask("ACK", "sip:x@192.0.2.1"),
        ask("ACK", "sip:bob@localhost").hops("Max-Forwards: 0\r\n"),
        ask("ACK", "sip:localhost"),
        ask("ACK", "sip:bob@localhost").from("<sip:alice"),
    ] {
        assert!(bench.send(ALICE, &ask.text()).is_empty(), "{}", ask.text());
    }
}

/// The answer is 503 with a Retry-After.
fn is_busy(sent: &[(String, String)]) -> bool {
    let last = sent.last().map(|(_, text)| text.clone()).unwrap_or_default();
    status(&last) == Some(503) && !header(&last, HeaderName::RetryAfter).is_empty()
}

#[test]
fn a_full_table_is_told_as_503_with_retry_after_and_serves_again_when_there_is_room() {
    for full in ["servers", "clients", "contexts"] {
        let mut bench = Bench::open(|config| {
            config.mode = Mode::Stateful;
            match full {
                "servers" => config.transaction.servers_max = 1,
                "clients" => config.transaction.clients_max = 1,
                _ => config.proxy.contexts_max = 1,
            }
        });
        bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
        let call = |n: u32| {
            invite().call_id(&format!("c{n}")).via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK{n}")).text()
        };
        assert_eq!(requests(&bench.send(ALICE, &call(1))).len(), 1);
        let sent = bench.send(ALICE, &call(2));
        assert!(is_busy(&sent) && requests(&sent).is_empty(), "{full}: {sent:?}");
        bench.pass(300);
        assert_eq!(requests(&bench.send(ALICE, &call(3))).len(), 1, "{full}");
    }
}

#[test]
fn a_call_that_is_up_can_end_whatever_table_is_full() {
    for full in ["servers", "clients", "contexts"] {
        let mut bench = Bench::open(|config| {
            config.mode = Mode::Stateful;
            match full {
                "servers" => config.transaction.servers_max = 1,
                "clients" => config.transaction.clients_max = 1,
                _ => config.proxy.contexts_max = 1,
            }
        });
        bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
        let leg = requests(&bench.send(ALICE, &invite().text()))[0].1.clone();
        let sent = bench
            .send(ALICE, &invite().call_id("c2").via("SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK2").text());
        assert!(is_busy(&sent), "{full}: {sent:?}");
        let route = header(&leg, HeaderName::RecordRoute);
        let bye = Ask::new("BYE", "sip:bob@127.0.0.1:5064")
            .to("<sip:bob@localhost>;tag=bob")
            .with(&format!("Route: {route}\r\n"))
            .cseq(2);
        let sent = requests(&bench.send(ALICE, &bye.text()));
        assert!(sent.len() == 1 && sent[0].0 == BOB, "{full}: {sent:?}");
        let over = bench.send(BOB, &crate::common::answer(&sent[0].1, "200 OK", ""));
        assert_eq!(statuses(&over, ALICE), [200], "{full}");
    }
}

#[test]
fn a_draining_node_takes_no_new_work_and_finishes_what_it_has() {
    let mut bench = Bench::open(mode(Mode::Stateful));
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    let leg = requests(&bench.send(ALICE, &invite().text()))[0].1.clone();
    bench.command(&Command::Drain(true));
    let other = |method, uri| {
        Ask::new(method, uri).call_id("other").via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-o-{method}"))
    };
    for ask in [
        other("INVITE", "sip:bob@localhost"),
        other("OPTIONS", "sip:localhost"),
        other("MESSAGE", "sip:bob@localhost"),
    ] {
        assert!(is_busy(&bench.send(ALICE, &ask.text())), "{}", ask.method);
    }
    assert!(is_busy(&bench.send(BOB, &register("bob", "").text())));
    assert_eq!(statuses(&bench.send(BOB, &crate::common::answer(&leg, "200 OK", "")), ALICE), [200]);
    let route = header(&leg, HeaderName::RecordRoute);
    let bye = Ask::new("BYE", "sip:bob@127.0.0.1:5064")
        .to("<sip:bob@localhost>;tag=bob")
        .with(&format!("Route: {route}\r\n"));
    assert_eq!(requests(&bench.send(ALICE, &bye.text()))[0].0, BOB, "a call that is up may end");
    bench.command(&Command::Drain(false));
    assert_eq!(statuses(&bench.send(ALICE, &other("OPTIONS", "sip:localhost").text()), ALICE), [200]);
}

#[test]
fn what_is_no_sip_is_dropped_and_counted() {
    let mut bench = Bench::open(|_| {});
    for junk in
        ["", "\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\0\0\0", "SIP/2.0\r\n\r\n", "INVITE\r\n\r\n"]
    {
        assert!(bench.send(ALICE, junk).is_empty(), "{junk:?}");
    }
    assert!(bench.node.is_idle());
}
