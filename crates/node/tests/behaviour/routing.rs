//! RFC 3261 §16.4, §16.6 and §16.12: routes loose and strict, ours and others', Path, and IPv6.

use crate::common::{
    ALICE, Ask, BOB, Bench, Sent, US, all, config, header, invite, mode, register, requests,
};
use tandem_node::{Config, Domains, Listener, Listeners, Mode};
use tandem_sip::{HeaderName, Transport};

const FAR: &str = "127.0.0.1:5090";

/// What one request becomes.
fn routed(ask: &Ask) -> Vec<Sent> {
    let mut bench = Bench::open(mode(Mode::Stateless));
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    requests(&bench.send(ALICE, &ask.text()))
}

fn line(text: &str) -> &str {
    text.lines().next().unwrap()
}

#[test]
fn our_own_route_is_taken_off_and_the_next_one_followed() {
    for own in
        ["<sip:127.0.0.1:5060;lr>", "<sip:localhost;lr>", "<sip:LOCALHOST:5060;lr>", "<sip:127.0.0.1;lr>"]
    {
        let ask = invite().with(&format!("Route: {own}, <sip:127.0.0.1:5090;lr>\r\n"));
        let sent = routed(&ask);
        assert_eq!((sent.len(), &sent[0].0[..]), (1, FAR), "{own}");
        assert_eq!(line(&sent[0].1), "INVITE sip:bob@localhost SIP/2.0", "§16.6 step 6: untouched");
        assert_eq!(all(&sent[0].1, HeaderName::Route), ["<sip:127.0.0.1:5090;lr>"]);
        let sent = routed(&invite().with(&format!("Route: {own}\r\n")));
        assert_eq!(sent[0].0, BOB, "{own}");
        assert!(all(&sent[0].1, HeaderName::Route).is_empty());
    }
}

#[test]
fn a_strict_router_next_gets_the_request_uri_and_the_target_goes_last() {
    let sent = routed(&invite().with("Route: <sip:127.0.0.1:5090>, <sip:192.0.2.7;lr>\r\n"));
    assert_eq!(sent[0].0, FAR);
    assert_eq!(line(&sent[0].1), "INVITE sip:127.0.0.1:5090 SIP/2.0");
    assert_eq!(all(&sent[0].1, HeaderName::Route), ["<sip:192.0.2.7;lr>, <sip:bob@localhost>"]);
}

#[test]
fn behind_a_strict_router_the_last_route_is_the_target() {
    let mut bench = Bench::open(mode(Mode::Stateless));
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    let leg = requests(&bench.send(ALICE, &invite().text()))[0].1.clone();
    let own = header(&leg, HeaderName::RecordRoute);
    let uri = own.trim_matches(['<', '>']);
    for (route, target, kept) in [
        ("<sip:bob@127.0.0.1:5064>", BOB, vec![]),
        ("<sip:127.0.0.1:5090;lr>, <sip:bob@127.0.0.1:5064>", FAR, vec!["<sip:127.0.0.1:5090;lr>"]),
    ] {
        let bye = Ask::new("BYE", uri).to("<sip:bob@localhost>;tag=bob").with(&format!("Route: {route}\r\n"));
        let sent = requests(&bench.send(ALICE, &bye.text()));
        assert_eq!((sent.len(), &sent[0].0[..]), (1, target), "{route}");
        assert_eq!(line(&sent[0].1), "BYE sip:bob@127.0.0.1:5064 SIP/2.0");
        assert_eq!(all(&sent[0].1, HeaderName::Route), kept);
    }
}

#[test]
fn path_leads_to_the_phone_loose_or_strict() {
    for (path, peer, uri, route) in [
        ("<sip:127.0.0.1:5090;lr>", FAR, "sip:bob@127.0.0.1:5064", "<sip:127.0.0.1:5090;lr>"),
        (
            "<sip:127.0.0.1:5090;lr>, <sip:192.0.2.7;lr>",
            FAR,
            "sip:bob@127.0.0.1:5064",
            "<sip:127.0.0.1:5090;lr>,<sip:192.0.2.7;lr>",
        ),
        ("<sip:127.0.0.1:5090>", FAR, "sip:127.0.0.1:5090", "<sip:bob@127.0.0.1:5064>"),
    ] {
        let mut bench = Bench::open(mode(Mode::Stateless));
        let bob = register("bob", "<sip:bob@127.0.0.1:5064>");
        bench.send(BOB, &bob.with(&format!("Path: {path}\r\nSupported: path\r\nRequire: path\r\n")).text());
        let sent = requests(&bench.send(ALICE, &invite().with("Route: <sip:127.0.0.1:5060;lr>\r\n").text()));
        assert_eq!((sent.len(), &sent[0].0[..]), (1, peer), "{path}");
        assert_eq!(line(&sent[0].1), format!("INVITE {uri} SIP/2.0"));
        assert_eq!(all(&sent[0].1, HeaderName::Route).join(",").replace(", ", ","), route);
    }
}

#[test]
fn record_route_stands_where_a_dialog_is_made_and_nowhere_else() {
    for (method, kept) in [
        ("INVITE", true),
        ("SUBSCRIBE", true),
        ("REFER", true),
        ("NOTIFY", true),
        ("MESSAGE", false),
        ("OPTIONS", false),
        ("PUBLISH", false),
        ("UNHEARDOF", false),
    ] {
        let sent = routed(&Ask::new(method, "sip:bob@localhost"));
        assert_eq!(all(&sent[0].1, HeaderName::RecordRoute).len(), usize::from(kept), "{method}");
    }
    let mut bench = Bench::open(|config| config.proxy.record_route = false);
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    let sent = requests(&bench.send(ALICE, &invite().text()));
    assert!(all(&sent[0].1, HeaderName::RecordRoute).is_empty());
}

fn two_families() -> Config {
    let listeners = ["127.0.0.1:5060", "[::1]:5060"]
        .map(|at| Listener::new(Transport::Udp, at.parse().unwrap(), None).unwrap());
    let mut both = Config::new(Domains::new(&["localhost"]).unwrap(), Listeners::new(listeners.into()));
    both.auth = config(&["localhost"]).auth;
    both
}

#[test]
fn between_ipv4_and_ipv6_both_sides_see_an_address_of_their_own() {
    let mut bench = Bench::open(|config| {
        let auth = config.auth.clone();
        *config = Config { mode: Mode::Stateless, auth, ..two_families() };
    });
    bench.bind("bob", &["<sip:bob@[::1]:5064>"]);
    let sent = requests(&bench.send(ALICE, &invite().text()));
    let (peer, leg) = &sent[0];
    assert_eq!(peer, "[::1]:5064");
    assert!(header(leg, HeaderName::Via).starts_with("SIP/2.0/UDP [::1]:5060;branch="), "{leg}");
    let routes = all(leg, HeaderName::RecordRoute);
    assert!(routes.len() == 2 && routes[0].starts_with("<sip:[::1]:5060;lr;c="), "{routes:?}");
    assert!(routes[1].starts_with("<sip:127.0.0.1:5060;lr;c="), "RFC 5658 §3: {routes:?}");
    // The callee hangs up: its route set is the Record-Route as it stands, and both values are ours.
    let bye = Ask::new("BYE", &format!("sip:alice@{ALICE}"))
        .via("SIP/2.0/UDP [::1]:5064;branch=z9hG4bKb;rport")
        .from("<sip:bob@localhost>;tag=bob")
        .to("<sip:alice@localhost>;tag=a")
        .with(&format!("Route: {}\r\nRoute: {}\r\n", routes[0], routes[1]));
    bench.listener = 1;
    let sent = requests(&bench.send("[::1]:5064", &bye.text()));
    assert_eq!(sent[0].0, ALICE);
    assert!(header(&sent[0].1, HeaderName::Via).starts_with(&format!("SIP/2.0/UDP {US};")), "{sent:?}");
    assert_eq!(
        all(&sent[0].1, HeaderName::Via)[1],
        "SIP/2.0/UDP [::1]:5064;branch=z9hG4bKb;received=::1;rport=5064"
    );
    assert!(all(&sent[0].1, HeaderName::Route).is_empty());
}

#[test]
fn a_register_routed_to_us_by_its_outbound_proxy_is_ours() {
    let mut bench = Bench::open(|_| {});
    let ask = register("bob", "<sip:bob@127.0.0.1:5064>").with("Route: <sip:localhost;lr>\r\n");
    assert_eq!(bench.send(BOB, &ask.text()).len(), 1);
    assert_eq!(bench.contacts("bob").len(), 1);
}

#[test]
fn without_state_requests_of_rfc_2543_get_a_branch_each_and_their_repetition_the_same() {
    let mut bench = Bench::open(mode(Mode::Stateless));
    bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
    let mut branch = |ask: Ask| {
        let via = format!("SIP/2.0/UDP {ALICE}");
        header(&bench.send(ALICE, &ask.via(&via).text())[0].1, HeaderName::Via)
    };
    let first = branch(invite());
    assert_eq!(branch(invite()), first, "a repetition");
    assert_eq!(branch(invite().follow("ACK", "<sip:bob@localhost>;tag=bob")), first, "its ACK");
    assert_eq!(branch(invite().follow("CANCEL", "<sip:bob@localhost>")), first, "its CANCEL");
    for other in [invite().call_id("call-2"), invite().cseq(2), invite().from("<sip:alice@localhost>;tag=b")]
    {
        assert_ne!(branch(other.clone()), first, "{}", other.text());
    }
}

#[test]
fn each_side_of_a_call_keeps_the_listener_that_it_came_by() {
    let mut bench = Bench::open(|config| {
        let listeners = ["127.0.0.1:5060", "127.0.0.2:5060"]
            .map(|at| Listener::new(Transport::Udp, at.parse().unwrap(), None).unwrap());
        config.listeners = Listeners::new(listeners.into());
        config.mode = Mode::Stateless;
    });
    // Behind a NAT the way that the REGISTER came by is the only one back.
    bench.listener = 1;
    let ask =
        register("bob", "<sip:bob@10.0.0.5:5064>").via("SIP/2.0/UDP 10.0.0.5:5064;branch=z9hG4bKn;rport");
    bench.send(BOB, &ask.text());
    bench.listener = 0;
    let (peer, leg) = requests(&bench.send(ALICE, &invite().text())).remove(0);
    assert_eq!(peer, BOB);
    assert!(header(&leg, HeaderName::Via).starts_with("SIP/2.0/UDP 127.0.0.2:5060;"), "{leg}");
    let routes = all(&leg, HeaderName::RecordRoute);
    let bye = Ask::new("BYE", &format!("sip:alice@{ALICE}"))
        .via("SIP/2.0/UDP 10.0.0.5:5064;branch=z9hG4bKb;rport")
        .from("<sip:bob@localhost>;tag=bob")
        .to("<sip:alice@localhost>;tag=a")
        .with(&format!("Route: {}, {}\r\n", routes[0], routes[1]));
    bench.listener = 1;
    let (peer, bye) = requests(&bench.send(BOB, &bye.text())).remove(0);
    assert_eq!(peer, ALICE);
    assert!(header(&bye, HeaderName::Via).starts_with("SIP/2.0/UDP 127.0.0.1:5060;"), "RFC 5658 §3: {bye}");
}

#[test]
fn max_forwards_falls_by_one_and_is_added_where_it_is_missing() {
    for (line, left) in [("Max-Forwards: 1\r\n", "0"), ("Max-Forwards: 70\r\n", "69"), ("", "70")] {
        assert_eq!(header(&routed(&invite().hops(line))[0].1, HeaderName::MaxForwards), left, "{line}");
    }
}

#[test]
fn what_the_proxy_need_not_know_passes_unchanged() {
    let odd = "X-Odd: \"a\\\"b\";c=<d>\r\nSubject: fünf\r\nRequire: unheard-of\r\nUser-Agent: x\r\n";
    let sent = routed(&Ask::new("UNHEARDOF", "sip:bob@localhost").with(odd));
    assert!(sent[0].1.contains(odd), "{sent:?}");
}
