//! Only the first request of a call is free (CHECKLIST A1).

use core::time::Duration;

use tandem_sip::HeaderName;

use super::bench::*;
use crate::calls::State;

/// Everything of a call but the first INVITE, each with its Route where a user agent has one by then.
fn rest_of_call(route: &str) -> Vec<String> {
    let routed = |method, cseq, branch: &str| {
        request(method, "c1", cseq, branch, &format!("Route: {route}\nin-dialog"))
    };
    vec![
        routed("PRACK", 2, "prack"),
        routed("ACK", 1, "ack"),
        routed("INVITE", 3, "reinvite"),
        routed("ACK", 3, "reinvite"),
        routed("UPDATE", 4, "update"),
        routed("INFO", 5, "info"),
        routed("BYE", 6, "bye"),
        routed("BYE", 6, "bye"),
    ]
}

/// Sets up call c1; what its destination got, and our Record-Route.
fn call(bench: &mut Bench) -> (Sent, String) {
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let to = invite.to.clone();
    for status in [100, 180, 200] {
        let response = bench.pass(&to, &invite.answer(status, ""));
        assert_eq!(response.to, CALLER);
        assert_eq!(response.values(HeaderName::Via).len(), 1);
    }
    let route = invite.values(HeaderName::RecordRoute).remove(0);
    (invite, route)
}

#[test]
fn every_message_of_a_call_reaches_the_destination_of_its_first() {
    let mut bench = Bench::new(8);
    let (invite, route) = call(&mut bench);
    for other in 0..50 {
        bench.pass(CALLER, &request("INVITE", &format!("other{other}"), 1, &format!("o{other}"), ""));
    }
    for text in rest_of_call(&route) {
        let forwarded = bench.pass(CALLER, &text);
        assert_eq!(forwarded.to, invite.to, "{text}");
        assert_eq!(forwarded.values(HeaderName::Route), Vec::<String>::new());
    }
    // Strays after the end, and a retransmission of the very first INVITE.
    let bye = bench.pass(CALLER, &rest_of_call(&route)[7]);
    bench.pass(&invite.to, &bye.answer(200, ""));
    assert_eq!(bench.balancer.whereabouts(b"c1").unwrap().2.state(), State::Bye200);
    for text in [request("INVITE", "c1", 1, "inv", ""), rest_of_call(&route)[1].clone()] {
        assert_eq!(bench.pass(CALLER, &text).to, invite.to);
    }
    assert_eq!(bench.balancer.counters().assigned, 51);
}

/// The same without any Route: peers that ignore Record-Route are still in the table.
#[test]
fn the_table_alone_keeps_a_call_on_its_destination() {
    let mut bench = Bench::new(8);
    let (invite, _) = call(&mut bench);
    for (method, cseq, branch) in [("ACK", 1, "ack"), ("INVITE", 2, "re"), ("BYE", 3, "bye")] {
        let text = request(method, "c1", cseq, branch, "in-dialog");
        assert_eq!(bench.pass(CALLER, &text).to, invite.to);
    }
}

/// The balancer dies between the 200 and the ACK, and after every later message: tokens and branches route it all.
#[test]
fn an_empty_table_routes_everything_of_a_call_in_both_directions() {
    let mut bench = Bench::new(8);
    let (invite, route) = call(&mut bench);
    for text in rest_of_call(&route) {
        bench.crash();
        let forwarded = bench.pass(CALLER, &text);
        assert_eq!(forwarded.to, invite.to, "{text}");
        if text.starts_with("ACK") {
            continue;
        }
        bench.crash();
        assert_eq!(bench.pass(&invite.to, &forwarded.answer(200, "")).to, CALLER);
    }
    for method in ["INVITE", "UPDATE", "BYE"] {
        bench.crash();
        let text = from_callee(method, "c1", 40, &invite.values(HeaderName::RecordRoute));
        let forwarded = bench.pass(&invite.to, &text);
        assert_eq!(forwarded.to, CALLER, "{text}");
        bench.crash();
        let answered = bench.pass(CALLER, &forwarded.answer(200, ""));
        assert_eq!(answered.to, invite.to.replace(invite.to.split(':').next().unwrap(), &invite.to[..11]));
    }
    assert_eq!(bench.balancer.counters().unknown, 0);
}

/// The response to what was forwarded before the crash makes the call known again, and its CANCEL finds it.
#[test]
fn a_provisional_response_teaches_an_empty_table_where_the_call_is() {
    let mut bench = Bench::new(8);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    bench.crash();
    bench.pass(&invite.to, &invite.answer(180, ""));
    assert_eq!(bench.balancer.counters().learned, 1);
    let cancel = bench.pass(CALLER, &request("CANCEL", "c1", 1, "inv", ""));
    assert_eq!((&cancel.to, cancel.branch()), (&invite.to, invite.branch()));
    bench.pass(&invite.to, &invite.answer(487, ""));
    let ack = bench.pass(CALLER, &request("ACK", "c1", 1, "inv", "in-dialog"));
    assert_eq!((&ack.to, ack.branch()), (&invite.to, invite.branch()));
    bench.wait(Duration::from_secs(80));
    assert!(bench.balancer.calls().is_empty());
}

/// A pool that chooses by hash needs neither table nor token: what has no token yet is found by choosing again.
#[test]
fn a_pool_by_hash_finds_a_cancel_again_with_an_empty_table() {
    for policy in ["rendezvous", "hash", "fnv", "user"] {
        let mut bench = Bench::of(crate::Config::new(vec![pool_config("media", policy, 8)]));
        for n in 0..20 {
            let (call, branch) = (format!("c{n}"), format!("b{n}"));
            let invite = bench.pass(CALLER, &request("INVITE", &call, 1, &branch, ""));
            bench.crash();
            for (method, extra) in [("CANCEL", ""), ("ACK", "in-dialog")] {
                let later = bench.pass(CALLER, &request(method, &call, 1, &branch, extra));
                assert_eq!((&later.to, later.branch()), (&invite.to, invite.branch()), "{policy}");
            }
        }
    }
}

#[test]
fn cancel_and_its_ack_follow_the_invite_on_its_branch() {
    let mut bench = Bench::new(8);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let cancel = bench.pass(CALLER, &request("CANCEL", "c1", 1, "inv", ""));
    assert_eq!((&cancel.to, cancel.branch()), (&invite.to, invite.branch()));
    let ok = bench.pass(&invite.to, &cancel.answer(200, ""));
    assert!(ok.start().contains("200") && ok.to == CALLER);
    bench.pass(&invite.to, &invite.answer(487, ""));
    let ack = bench.pass(CALLER, &request("ACK", "c1", 1, "inv", "in-dialog"));
    assert_eq!((&ack.to, ack.branch()), (&invite.to, invite.branch()));
    assert!(bench.booked().iter().all(|&booked| booked == (0, 0)));
}

#[test]
fn an_invite_after_a_challenge_goes_where_the_challenge_came_from() {
    for status in [401, 407] {
        let mut bench = Bench::new(8);
        let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
        bench.pass(&invite.to, &invite.answer(status, ""));
        bench.pass(CALLER, &request("ACK", "c1", 1, "inv", "in-dialog"));
        for other in 0..20 {
            bench.pass(CALLER, &request("INVITE", &format!("o{other}"), 1, &format!("o{other}"), ""));
        }
        let again = bench.pass(CALLER, &request("INVITE", "c1", 2, "inv2", "Authorization: Digest x"));
        assert_eq!(again.to, invite.to);
        assert_ne!(again.branch(), invite.branch());
        let register = bench.pass(CALLER, &request("REGISTER", "r1", 1, "reg", ""));
        bench.pass(&register.to, &register.answer(status, ""));
        assert_eq!(bench.pass(CALLER, &request("REGISTER", "r1", 2, "reg2", "")).to, register.to);
    }
}

/// CHECKLIST A9: outside calls each request is free, its retransmission is not.
#[test]
fn requests_outside_calls_are_spread_one_by_one() {
    let mut bench = Bench::of(crate::Config::new(vec![pool_config("media", "round-robin", 4)]));
    let mut seen = std::collections::BTreeSet::new();
    for cseq in 1..=8 {
        let text = request("MESSAGE", "m1", cseq, &format!("m{cseq}"), "");
        let first = bench.pass(CALLER, &text);
        assert_eq!(bench.pass(CALLER, &text), first);
        assert_eq!(bench.booked().iter().map(|booked| booked.1).sum::<u32>(), 1);
        bench.pass(&first.to, &first.answer(200, ""));
        assert_eq!(bench.booked().iter().map(|booked| booked.1).sum::<u32>(), 0);
        seen.insert(first.to);
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn a_subscription_stays_with_its_destination_and_its_notify_goes_back() {
    let mut bench = Bench::new(8);
    let subscribe = bench.pass(CALLER, &request("SUBSCRIBE", "s1", 1, "sub", ""));
    let routes = subscribe.values(HeaderName::RecordRoute);
    bench.pass(&subscribe.to, &subscribe.answer(200, ""));
    bench.wait(Duration::from_secs(600));
    assert!(bench.balancer.calls().is_empty());
    let notify = bench.pass(&subscribe.to, &from_callee("NOTIFY", "s1", 1, &routes));
    assert_eq!(notify.to, CALLER);
    assert_eq!(notify.values(HeaderName::RecordRoute), routes);
    let refresh = request("SUBSCRIBE", "s1", 2, "sub2", &format!("Route: {}\nin-dialog", routes[0]));
    assert_eq!(bench.pass(CALLER, &refresh).to, subscribe.to);
}

/// Two Record-Route values in the other's order, a preloaded Route of ours, and the Route of a proxy behind us.
#[test]
fn routes_behind_ours_stay_in_the_request() {
    let mut bench = Bench::new(8);
    let (invite, route) = call(&mut bench);
    let text = request("BYE", "c1", 2, "bye", &format!("Route: {route}, <sip:203.0.113.50;lr>\nin-dialog"));
    let bye = bench.pass(CALLER, &text);
    assert_eq!(
        (&bye.to, bye.values(HeaderName::Route)),
        (&invite.to, vec!["<sip:203.0.113.50;lr>".to_owned()])
    );
    // Towards the caller's side the next Route leads.
    let text = from_callee("BYE", "c1", 9, &[route, "<sip:198.51.100.200:5090;lr>".to_owned()]);
    assert_eq!(bench.pass("203.0.113.99:5060", &text).to, "198.51.100.200:5090");
    let preloaded = request("INVITE", "c2", 1, "pre", &format!("Route: <sip:{US};lr>"));
    assert_eq!(bench.pass(CALLER, &preloaded).values(HeaderName::Route), Vec::<String>::new());
}

#[test]
fn a_contact_with_a_name_waits_for_its_address() {
    let mut bench = Bench::new(2);
    let (invite, route) = call(&mut bench);
    let text = from_callee("BYE", "c1", 9, &[route])
        .replace(&format!("sip:alice@{CALLER} "), "sip:alice@phone.example.org:5099 ");
    assert!(bench.receive(&invite.to, &text).is_empty());
    let Some(crate::Event::Resolve { ticket, host, port, .. }) = bench.balancer.poll_event() else {
        panic!()
    };
    assert_eq!((&host[..], port), (&b"phone.example.org"[..], Some(5099)));
    let mut out = tandem_sip::Outbox::new();
    bench.balancer.resolved(bench.now, ticket, &["198.51.100.9:5099".parse().unwrap()], &mut out);
    assert_eq!(sent(&out)[0].to, "198.51.100.9:5099");
    assert!(bench.balancer.is_idle() || bench.balancer.calls().calls() == 1);
}

/// A destination that calls out by us, and the answer's way back in.
#[test]
fn a_call_that_a_destination_starts_goes_out_and_stays_with_it() {
    let mut bench = Bench::new(4);
    let from = destination(2);
    let out =
        request("INVITE", "x1", 1, "out", "").replace("sip:bob@example.com SIP", "sip:+49@198.51.100.80 SIP");
    let invite = bench.pass(&from, &out);
    assert_eq!(invite.to, "198.51.100.80:5060");
    assert!(bench.balancer.calls().is_empty());
    let routes = invite.values(HeaderName::RecordRoute);
    bench.pass(&invite.to, &invite.answer(200, ""));
    let bye = bench.pass(&invite.to, &from_callee("BYE", "x1", 1, &routes));
    assert_eq!(bye.to, from);
}

/// A destination that is a proxy sends the same call on by us: same Call-ID, same tags, another Request-URI.
#[test]
fn a_call_that_its_destination_sends_on_by_us_is_no_loop() {
    let mut bench = Bench::new(4);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let on = invite.text.replace("sip:bob@example.com SIP", "sip:bob@198.51.100.80 SIP").replacen(
        "Via: ",
        &format!("Via: SIP/2.0/UDP {};branch=z9hG4bKon\r\nVia: ", invite.to),
        1,
    );
    let on = bench.pass(&invite.to, &on);
    assert_eq!(on.to, "198.51.100.80:5060");
    let back = bench.pass(&on.to, &on.answer(200, ""));
    assert_eq!(back.to, invite.to);
    assert_eq!(bench.balancer.whereabouts(b"c1").unwrap().2.state(), State::Inv);
}
