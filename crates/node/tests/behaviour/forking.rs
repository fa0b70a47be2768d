//! RFC 3261 §16.6 and §16.7: several targets, in what order, and what becomes of their answers.

use crate::common::{ALICE, Ask, Bench, answer, header, invite, requests, status, statuses};
use tandem_sip::HeaderName;

const PHONES: [&str; 3] = ["127.0.0.1:5071", "127.0.0.1:5072", "127.0.0.1:5073"];

fn fork(contacts: &[&str], change: impl FnOnce(&mut tandem_node::Config)) -> (Bench, Vec<(String, String)>) {
    let mut bench = Bench::open(change);
    bench.bind("bob", contacts);
    let sent = bench.send(ALICE, &invite().text());
    (bench, requests(&sent))
}

fn peers(sent: &[(String, String)]) -> Vec<&str> {
    sent.iter().map(|(peer, _)| &peer[..]).collect()
}

const TOGETHER: [&str; 3] = ["<sip:b@127.0.0.1:5071>", "<sip:b@127.0.0.1:5072>", "<sip:b@127.0.0.1:5073>"];

#[test]
fn contacts_of_equal_q_ring_together_and_the_first_2xx_cancels_the_others() {
    let (mut bench, legs) = fork(&TOGETHER, |_| {});
    assert_eq!(peers(&legs), PHONES);
    for (peer, leg) in &legs {
        assert_eq!(statuses(&bench.send(peer, &answer(leg, "180 Ringing", "")), ALICE), [180]);
    }
    let sent = bench.send(PHONES[1], &answer(&legs[1].1, "200 OK", ""));
    assert_eq!(statuses(&sent, ALICE), [200]);
    let cancels = requests(&sent);
    assert_eq!(peers(&cancels), [PHONES[0], PHONES[2]]);
    for (peer, cancel) in &cancels {
        let leg = legs.iter().find(|(p, _)| p == peer).unwrap();
        assert_eq!(
            header(cancel, HeaderName::Via),
            header(&leg.1, HeaderName::Via),
            "§9.1: the INVITE's branch"
        );
        let sent = bench.send(peer, &answer(&leg.1, "487 Request Terminated", ""));
        assert!(statuses(&sent, ALICE).is_empty() && sent[0].1.starts_with("ACK "), "{sent:?}");
    }
    bench.drain();
}

#[test]
fn a_second_2xx_goes_upstream_too() {
    let (mut bench, legs) = fork(&TOGETHER[..2], |_| {});
    assert_eq!(statuses(&bench.send(PHONES[0], &answer(&legs[0].1, "200 OK", "")), ALICE), [200]);
    assert_eq!(statuses(&bench.send(PHONES[1], &answer(&legs[1].1, "200 OK", "")), ALICE), [200]);
    let repeated = bench.send(PHONES[1], &answer(&legs[1].1, "200 OK", ""));
    assert_eq!(statuses(&repeated, ALICE), [200], "a repetition after the context is gone");
    bench.drain();
}

#[test]
fn a_lower_q_rings_when_the_higher_has_failed_and_the_best_failure_is_told() {
    let contacts =
        ["<sip:b@127.0.0.1:5071>;q=0.5", "<sip:b@127.0.0.1:5072>;q=0.9", "<sip:b@127.0.0.1:5073>;q=0.5"];
    let (mut bench, first) = fork(&contacts, |_| {});
    assert_eq!(peers(&first), [PHONES[1]]);
    let sent = bench.send(PHONES[1], &answer(&first[0].1, "486 Busy Here", ""));
    assert!(statuses(&sent, ALICE).is_empty());
    let second: Vec<_> = requests(&sent).into_iter().filter(|(_, text)| text.starts_with("INVITE")).collect();
    assert_eq!(peers(&second), [PHONES[0], PHONES[2]]);
    assert!(statuses(&bench.send(PHONES[0], &answer(&second[0].1, "404 Not Found", "")), ALICE).is_empty());
    let sent =
        bench.send(PHONES[2], &answer(&second[1].1, "302 Moved Temporarily", "Contact: <sip:c@x>\r\n"));
    assert_eq!(statuses(&sent, ALICE), [302], "the lowest class of 486, 404 and 302");
    bench.send(ALICE, &invite().follow("ACK", "<sip:bob@localhost>;tag=bob").text());
    bench.drain();
}

#[test]
fn a_serial_fork_rings_one_after_the_other_and_a_6xx_ends_it() {
    let (mut bench, first) = fork(&TOGETHER, |config| config.proxy.fork = tandem_proxy::Fork::Serial);
    assert_eq!(peers(&first), PHONES[..1]);
    let sent = bench.send(PHONES[0], &answer(&first[0].1, "486 Busy Here", ""));
    let second: Vec<_> = requests(&sent).into_iter().filter(|(_, text)| text.starts_with("INVITE")).collect();
    assert_eq!(peers(&second), PHONES[1..2]);
    let sent = bench.send(PHONES[1], &answer(&second[0].1, "603 Decline", ""));
    assert_eq!(statuses(&sent, ALICE), [603]);
    assert!(!peers(&requests(&sent)).contains(&PHONES[2]), "{sent:?}");
}

#[test]
fn a_6xx_cancels_what_rings_and_a_2xx_that_crosses_it_still_wins() {
    let (mut bench, legs) = fork(&TOGETHER[..2], |_| {});
    bench.send(PHONES[0], &answer(&legs[0].1, "180 Ringing", ""));
    let sent = bench.send(PHONES[1], &answer(&legs[1].1, "600 Busy Everywhere", ""));
    assert!(statuses(&sent, ALICE).is_empty(), "not before the others are over (§16.7 step 5)");
    assert!(sent.iter().any(|(peer, text)| peer == PHONES[0] && text.starts_with("CANCEL")), "{sent:?}");
    assert_eq!(statuses(&bench.send(PHONES[0], &answer(&legs[0].1, "200 OK", "")), ALICE), [200]);
    bench.drain();
}

#[test]
fn max_breadth_is_shared_out_and_a_fork_beyond_it_is_refused() {
    let bound = |breadth: &str| {
        let mut bench = Bench::open(|_| {});
        bench.bind("bob", &TOGETHER);
        bench.send(ALICE, &invite().with(&format!("Max-Breadth: {breadth}\r\n")).text())
    };
    let sent = bound("7");
    let shares: Vec<String> =
        requests(&sent).iter().map(|(_, m)| header(m, HeaderName::MaxBreadth)).collect();
    assert_eq!(shares, ["2", "2", "2"]);
    for too_small in ["2", "0"] {
        let sent = bound(too_small);
        assert!(requests(&sent).is_empty());
        assert_eq!(statuses(&sent, ALICE).last(), Some(&440));
    }
}

#[test]
fn a_later_group_beyond_max_breadth_is_tried_in_portions() {
    let contacts =
        ["<sip:b@127.0.0.1:5071>;q=1", "<sip:b@127.0.0.1:5072>;q=0.5", "<sip:b@127.0.0.1:5073>;q=0.5"];
    let mut bench = Bench::open(|_| {});
    bench.bind("bob", &contacts);
    let mut legs = requests(&bench.send(ALICE, &invite().with("Max-Breadth: 1\r\n").text()));
    for peer in PHONES {
        assert_eq!(peers(&legs), [peer]);
        let sent = bench.send(peer, &answer(&legs[0].1, "404 Not Found", ""));
        legs = requests(&sent).into_iter().filter(|(_, text)| text.starts_with("INVITE")).collect();
        let over = peer == PHONES[2];
        assert_eq!(statuses(&sent, ALICE), if over { vec![404] } else { vec![] });
    }
}

#[test]
fn a_contact_that_is_a_user_of_ours_is_looked_up_and_not_sent_to() {
    let mut bench = Bench::closed(|config| config.auth.challenge = tandem_node::Challenge::Never);
    bench.bind(
        "bob",
        &["<sip:alice@localhost>", "<sip:carol@127.0.0.1:5060>;q=0.5", "<sip:x@127.0.0.1:5073>;q=0.7"],
    );
    bench.bind("alice", &["<sip:a@127.0.0.1:5071>;q=0.1", "<sip:bob@localhost>"]);
    bench.bind("carol", &["<sip:c@127.0.0.1:5072>", "<sip:nobody@localhost>"]);
    let mut legs = requests(&bench.send(ALICE, &invite().text()));
    // alice's phone at the q of the contact that led there, and so carol's; the circle back to bob leads nowhere.
    for peer in ["127.0.0.1:5071", "127.0.0.1:5073", "127.0.0.1:5072"] {
        assert_eq!(peers(&legs), [peer]);
        assert!(legs[0].1.starts_with("INVITE sip:") && !legs[0].1.starts_with("INVITE sip:alice@"));
        let sent = bench.send(peer, &answer(&legs[0].1, "404 Not Found", ""));
        legs = requests(&sent).into_iter().filter(|(_, text)| text.starts_with("INVITE")).collect();
    }
    assert!(legs.is_empty() && bench.event().is_none(), "nothing goes out by name");
}

#[test]
fn a_contact_of_a_3xx_that_is_a_user_of_ours_is_looked_up() {
    let (mut bench, legs) = fork(&TOGETHER[..1], |config| config.proxy.recurse_redirects = true);
    bench.bind("carol", &["<sip:c@127.0.0.1:5072>"]);
    let moved = answer(&legs[0].1, "302 Moved Temporarily", "Contact: <sip:carol@localhost>\r\n");
    let sent = bench.send(PHONES[0], &moved);
    let further: Vec<_> = requests(&sent).into_iter().filter(|(_, m)| m.starts_with("INVITE")).collect();
    assert_eq!(peers(&further), ["127.0.0.1:5072"]);
    assert!(further[0].1.starts_with("INVITE sip:c@127.0.0.1:5072 SIP/2.0\r\n") && bench.event().is_none());
}

#[test]
fn two_users_bound_to_each_other_and_to_nobody_else_are_a_482_at_once() {
    let mut bench = Bench::open(|_| {});
    bench.bind("alice", &["<sip:bob@localhost>"]);
    bench.bind("bob", &["<sip:alice@127.0.0.1:5060>", "<sip:bob@localhost;x=1>"]);
    let sent = bench.send(ALICE, &invite().text());
    assert_eq!((sent.len(), statuses(&sent, ALICE)), (1, vec![482]), "{sent:?}");
}

/// Contacts without a user name us and no user: they come round by the network.
#[test]
fn requests_that_come_round_end_in_482_after_few_branches() {
    let mut bench = Bench::open(|config| {
        let listener = tandem_node::Listener::new(
            tandem_sip::Transport::Udp,
            "127.0.0.1:5060".parse().unwrap(),
            Some("elsewhere.example.net:5060"),
        );
        config.listeners = tandem_node::Listeners::new(vec![listener.unwrap()]);
    });
    for (user, other) in [("alice", "bob"), ("bob", "alice")] {
        let contacts = [format!("<sip:{other}@127.0.0.1:5060>"), format!("<sip:{other}@127.0.0.1:5060;x=1>")];
        bench.bind(user, &[&contacts[0], &contacts[1]]);
    }
    let mut inbox = bench.send(ALICE, &invite().text());
    let (mut branches, mut told) = (0, Vec::new());
    while let Some((peer, text)) = inbox.pop() {
        if peer == ALICE {
            told.extend(status(&text).filter(|&s| s >= 200));
            continue;
        }
        branches += usize::from(text.starts_with("INVITE"));
        assert!(branches <= 60, "it explodes");
        inbox.extend(bench.send("127.0.0.1:5060", &text));
    }
    assert!(matches!(told[..], [482 | 440]), "{told:?}");
}

#[test]
fn contacts_of_a_3xx_are_tried_where_the_operator_chose_so() {
    for recurse in [false, true] {
        let (mut bench, legs) = fork(&TOGETHER[..1], |config| {
            config.proxy.recurse_redirects = recurse;
            config.mode = tandem_node::Mode::Stateful;
        });
        let moved = answer(
            &legs[0].1,
            "302 Moved Temporarily",
            "Contact: <sip:c@127.0.0.1:5072?Route=%3Csip:x%3E>\r\n",
        );
        let sent = bench.send(PHONES[0], &moved);
        let further: Vec<_> = requests(&sent).into_iter().filter(|(_, m)| m.starts_with("INVITE")).collect();
        if recurse {
            assert!(statuses(&sent, ALICE).is_empty());
            assert!(further[0].1.starts_with("INVITE sip:c@127.0.0.1:5072 SIP/2.0\r\n"), "{further:?}");
        } else {
            assert_eq!(statuses(&sent, ALICE), [302]);
            assert!(further.is_empty());
        }
    }
}

#[test]
fn a_3xx_leads_nowhere_less_secure_than_what_was_asked_for() {
    let mut bench = Bench::open(|config| config.proxy.recurse_redirects = true);
    let ask = Ask::new("INVITE", "sips:bob@far.example.net").with("Route: <sip:127.0.0.1:5090;lr>\r\n");
    let legs = requests(&bench.send(ALICE, &ask.text()));
    // The route goes by UDP, which is its own business; the 3xx's contact would be ours.
    let moved = answer(&legs[0].1, "302 Moved Temporarily", "Contact: <sip:c@127.0.0.1:5072>\r\n");
    let mut told = bench.send("127.0.0.1:5090", &moved);
    told.retain(|(peer, _)| peer == ALICE || peer == PHONES[1]);
    assert_eq!((told.len(), statuses(&told, ALICE)), (1, vec![302]));
}

#[test]
fn a_redirect_server_names_the_contacts_best_first_and_forwards_nothing() {
    let mut bench = Bench::open(crate::common::mode(tandem_node::Mode::Redirect));
    bench.bind("bob", &["<sip:b@127.0.0.1:5071>;q=0.2", "<sip:b@127.0.0.1:5072>"]);
    let sent = bench.send(ALICE, &invite().text());
    assert_eq!((sent.len(), statuses(&sent, ALICE)), (1, vec![302]));
    assert_eq!(
        header(&sent[0].1, HeaderName::Contact),
        "<sip:b@127.0.0.1:5072>;q=1, <sip:b@127.0.0.1:5071>;q=0.200"
    );
    let circle = bench.send(ALICE, &Ask::new("INVITE", "sip:x@192.0.2.1").call_id("elsewhere").text());
    assert_eq!(statuses(&circle, ALICE), [404], "§8.3: never to the URI that was asked for");
}

#[test]
fn the_next_address_of_a_name_is_tried_when_one_fails() {
    let mut bench = Bench::open(|_| {});
    let sent = bench.send(ALICE, &Ask::new("INVITE", "sip:bob@far.example.net").text());
    assert_eq!(statuses(&sent, ALICE), [100]);
    let Some(tandem_node::Event::Resolve { ticket, host, .. }) = bench.event() else { panic!("no question") };
    assert_eq!(&host[..], b"far.example.net");
    let addresses = PHONES.map(|a| a.parse().unwrap());
    let legs = bench.command(&tandem_node::Command::Resolved { ticket, addresses: addresses.into() });
    assert_eq!(peers(&legs), [PHONES[0]]);
    let sent = bench.send(PHONES[0], &answer(&legs[0].1, "503 Service Unavailable", ""));
    let second: Vec<_> = requests(&sent).into_iter().filter(|(_, m)| m.starts_with("INVITE")).collect();
    assert_eq!(peers(&second), [PHONES[1]], "a 503 (RFC 3263 §4.3)");
    let sent = bench.pass(33);
    let third: Vec<_> = sent.into_iter().filter(|(peer, _)| peer == PHONES[2]).collect();
    assert!(!third.is_empty(), "silence");
    let undeliverable = tandem_node::Command::Undeliverable { message: third[0].1.as_bytes().into() };
    assert_eq!(statuses(&bench.command(&undeliverable), ALICE), [500], "nobody left");
}
