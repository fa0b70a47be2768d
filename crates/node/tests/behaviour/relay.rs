//! No open relay (THREATS 11 to 13): what strangers may reach, and that a dialog cannot be feigned.

use crate::common::{
    ALICE, Ask, BOB, Bench, PASSWORD, Sent, credentials, header, invite, requests, statuses,
};
use tandem_node::{Challenge, Config, Mode};
use tandem_sip::HeaderName;

const METHODS: [&str; 20] = [
    "INVITE",
    "BYE",
    "OPTIONS",
    "REGISTER",
    "MESSAGE",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "REFER",
    "INFO",
    "UPDATE",
    "PRACK",
    "ACK",
    "CANCEL",
    "invite",
    "SERVICE",
    "COPY",
    "GET",
    "X",
    "UNHEARDOF",
];

/// A node with bob registered that then asks everybody but bob's neighbour for credentials.
fn guarded(challenge: Challenge, change: impl FnOnce(&mut Config)) -> Bench {
    let mut bench = Bench::open(|_| {});
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    let mut config = crate::common::config(&["localhost"]);
    config.auth.challenge = challenge;
    change(&mut config);
    bench.command(&tandem_node::Command::Reconfigure(std::sync::Arc::new(config)));
    bench
}

fn refused(bench: &mut Bench, ask: &Ask) {
    let mut sent: Vec<Sent> = bench.send(ALICE, &ask.text());
    if sent.is_empty() {
        // A stranger's answer may take a second copy of the request to pay for it.
        sent = bench.send(ALICE, &ask.text());
    }
    assert!(requests(&sent).is_empty() && bench.event().is_none(), "{}\nleft as {sent:?}", ask.text());
    let is_mute = matches!(&ask.method[..], "ACK" | "CANCEL");
    let statuses = statuses(&sent, ALICE);
    assert_eq!(statuses.len(), usize::from(!is_mute), "{} {}: {sent:?}", ask.method, ask.uri);
    assert!(statuses.iter().all(|s| (400..500).contains(s)), "{} {}: {statuses:?}", ask.method, ask.uri);
}

#[test]
fn every_method_is_challenged_out_of_dialog_wherever_it_aims() {
    let mut bench = guarded(Challenge::Always, |_| {});
    for method in METHODS {
        for uri in ["sip:bob@localhost", "sip:bob@127.0.0.1:5060", "sip:x@192.0.2.1", "sip:x@far.example.net"]
        {
            for extra in ["", "Route: <sip:127.0.0.1:5060;lr>\r\n", "Route: <sip:192.0.2.1;lr>\r\n"] {
                // An ACK and a CANCEL cannot be challenged: they reach local users, and nobody else.
                if matches!(method, "ACK" | "CANCEL") && uri.contains("bob") && !extra.contains("192.0.2.1") {
                    continue;
                }
                // What nobody but the node itself answers may be asked by anyone, and reaches nobody.
                for to in ["<sip:bob@localhost>", "<sip:bob@localhost>;tag=feigned"] {
                    refused(&mut bench, &Ask::new(method, uri).to(to).with(extra));
                }
            }
        }
    }
}

#[test]
fn where_nobody_is_challenged_strangers_still_reach_nothing_but_local_users() {
    let mut bench = guarded(Challenge::Never, |_| {});
    let hosts = [
        "192.0.2.1",
        "far.example.net",
        "localhost.example.net",
        "127.0.0.1:5090",
        "localhost:5099",
        "[2001:db8::1]",
    ];
    let params = [
        "",
        ";maddr=127.0.0.1",
        ";transport=tcp",
        ";lr",
        ";maddr=192.0.2.1;transport=udp",
        "?Route=%3Csip:192.0.2.1%3E",
    ];
    let mut tried = 0;
    for host in hosts {
        for param in params {
            let uri = format!("sip:+15550100@{host}{param}");
            refused(&mut bench, &Ask::new("INVITE", &uri));
            refused(&mut bench, &Ask::new("INVITE", &uri).with("Route: <sip:localhost;lr>\r\n"));
            tried += 2;
        }
        refused(&mut bench, &invite().with(&format!("Route: <sip:{host};lr>\r\n")));
        refused(&mut bench, &invite().with(&format!("Route: <sip:127.0.0.1:5060;lr>,<sip:{host}>\r\n")));
        tried += 2;
    }
    for uri in ["tel:+15550100", "sips:x@192.0.2.1", "tel:+1;phone-context=localhost"] {
        refused(&mut bench, &Ask::new("INVITE", uri));
        refused(
            &mut bench,
            &Ask::new("MESSAGE", uri).with("Route: <sip:localhost;lr>, <sip:192.0.2.1;lr>\r\n"),
        );
        tried += 2;
    }
    assert!(tried >= 60);
}

#[test]
fn parameters_and_headers_of_a_local_uri_lead_nowhere_else() {
    for param in [
        ";maddr=192.0.2.1",
        ";transport=tcp",
        ";lr",
        ":5060;maddr=192.0.2.1",
        "?Route=%3Csip:192.0.2.1%3E",
        ";ttl=255;method=BYE",
    ] {
        let mut bench = guarded(Challenge::Never, |config| config.mode = Mode::Stateless);
        let sent = bench.send(ALICE, &Ask::new("INVITE", &format!("sip:bob@localhost{param}")).text());
        assert_eq!((sent.len(), &sent[0].0[..]), (1, BOB), "{param}");
        assert!(sent[0].1.starts_with("INVITE sip:bob@127.0.0.1:5064 SIP/2.0\r\n"), "{sent:?}");
    }
    let mut bench = Bench::open(|config| config.mode = Mode::Stateless);
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064?Route=%3Csip:192.0.2.1%3E&Subject=x>"]);
    let sent = bench.send(ALICE, &invite().text());
    assert!(sent[0].1.starts_with("INVITE sip:bob@127.0.0.1:5064 SIP/2.0\r\n"), "a contact's too: {sent:?}");
}

#[test]
fn a_dialog_is_known_by_the_cookie_of_its_own_call() {
    let mut bench = guarded(Challenge::Never, |_| {});
    let leg = requests(&bench.send(ALICE, &invite().text()))[0].1.clone();
    let own = header(&leg, HeaderName::RecordRoute);
    let bye = |call: &str, to: &str, route: &str| {
        Ask::new("BYE", "sip:bob@192.0.2.77")
            .call_id(call)
            .to(to)
            .with(&format!("Route: {route}\r\n"))
            .cseq(2)
    };
    let tagged = "<sip:bob@localhost>;tag=bob";
    let (head, digit) = own.trim_end_matches('>').split_at(own.len() - 2);
    let flipped = format!("{head}{}>", if digit == "0" { "1" } else { "0" });
    for (call, to, route) in [
        ("call-2", tagged, &own[..]),                    // another call's
        ("call-1", tagged, &flipped),                    // forged
        ("call-1", tagged, "<sip:127.0.0.1:5060;lr;c>"), // empty
        ("call-1", tagged, "<sip:127.0.0.1:5060;lr>"),   // none
        ("call-1", "<sip:bob@localhost>", &own),         // no dialog yet
    ] {
        refused(&mut bench, &bye(call, to, route));
    }
    let sent = bench.send(ALICE, &bye("call-1", tagged, &own).text());
    assert_eq!(sent[0].0, "192.0.2.77:5060", "the true one passes: {sent:?}");
    let behind = bye("call-1", tagged, &format!("<sip:127.0.0.1:5060;lr>, {own}"))
        .cseq(3)
        .via("SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK3");
    assert_eq!(
        bench.send(ALICE, &behind.text())[0].0,
        "192.0.2.77:5060",
        "behind an outbound proxy's bare route"
    );
}

/// A BYE of the call `call-1` by the route, from one tag to the other.
fn bye(from: &str, to: &str, route: &str) -> Ask {
    Ask::new("BYE", "sip:bob@192.0.2.77")
        .from(&format!("<sip:alice@localhost>;tag={from}"))
        .to(&format!("<sip:bob@localhost>;tag={to}"))
        .via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-{from}-{to}"))
        .with(&format!("Route: {route}\r\n"))
        .cseq(2)
}

#[test]
fn a_cookie_is_good_for_the_tags_of_its_dialog_from_either_side() {
    let mut bench = guarded(Challenge::Never, |_| {});
    let leg = requests(&bench.send(ALICE, &invite().text()))[0].1.clone();
    let route = header(&leg, HeaderName::RecordRoute);
    refused(&mut bench, &bye("x", "y", &route));
    assert_eq!(bench.node.counters().cookies_forged, 1, "tags of no party");
    for (from, to) in [("a", "bob"), ("bob", "a")] {
        assert_eq!(bench.send(ALICE, &bye(from, to, &route).text())[0].0, "192.0.2.77:5060", "{from} {to}");
    }
    // The callee's re-INVITE gets a cookie under the callee's tag, and that is as good.
    let mut again = bye("bob", "a", &route).cseq(3);
    again.method = "INVITE".into();
    let leg = requests(&bench.send(ALICE, &again.text()))[0].1.clone();
    let second = header(&leg, HeaderName::RecordRoute);
    assert_ne!(second, route);
    let sent =
        bench.send(ALICE, &bye("a", "bob", &second).via("SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bKx").text());
    assert_eq!(sent[0].0, "192.0.2.77:5060");
}

#[test]
fn a_cookie_serves_its_time_and_an_older_call_is_challenged_and_goes_on() {
    let mut bench = guarded(Challenge::Always, |config| {
        config.proxy.dialog_lifetime = core::time::Duration::from_secs(3 * 3600);
    });
    let uri = "sip:bob@localhost";
    let challenged = bench.send(ALICE, &invite().text()).pop().unwrap().1;
    let line = credentials(&challenged, "INVITE", uri, "alice", PASSWORD, 1);
    let call = invite().with(&line).via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-call"));
    let leg = requests(&bench.send(ALICE, &call.text()))[0].1.clone();
    let route = header(&leg, HeaderName::RecordRoute);
    bench.pass(3 * 3600);
    assert_eq!(requests(&bench.send(ALICE, &bye("a", "bob", &route).text())).len(), 1, "just in time");
    bench.pass(2 * 3600);
    let late = bye("a", "bob", &route).cseq(3);
    refused(&mut bench, &late);
    assert_eq!(bench.node.counters().cookies_expired, 1);
    let ack = late.follow("ACK", &late.to).with(&format!("Route: {route}\r\n"));
    assert_eq!(bench.send(ALICE, &ack.text())[0].0, "192.0.2.77:5060", "an ACK can't be challenged");
    let challenged = bench.send(ALICE, &late.text()).pop().unwrap().1;
    let line = credentials(&challenged, "BYE", &late.uri, "alice", PASSWORD, 1);
    let proved = late.with(&line).via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-late"));
    assert_eq!(requests(&bench.send(ALICE, &proved.text()))[0].0, "192.0.2.77:5060", "the call can end");
}

#[test]
fn nothing_is_sent_to_everyone_or_to_port_0() {
    let mut bench = Bench::open(|_| {});
    for host in ["255.255.255.255", "224.0.1.75", "0.0.0.0", "192.0.2.1:0", "[ff02::1]", "[::]"] {
        let sent = bench.send(
            ALICE,
            &Ask::new("INVITE", &format!("sip:x@{host}"))
                .call_id(host)
                .via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK{}", host.len()))
                .text(),
        );
        assert!(requests(&sent).is_empty(), "{sent:?}");
        bench.pass(60);
    }
    bench.bind("bob", &["<sip:bob@255.255.255.255:5064>"]);
    assert!(requests(&bench.send(ALICE, &invite().text())).is_empty());
}

#[test]
fn sips_is_not_downgraded() {
    let mut bench = Bench::open(|_| {});
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    let sent = bench.send(ALICE, &Ask::new("INVITE", "sips:bob@localhost").text());
    assert_eq!((statuses(&sent, ALICE), requests(&sent).len()), (vec![480], 0));
}
