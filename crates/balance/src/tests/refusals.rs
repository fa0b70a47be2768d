//! What is refused, and said so.

use core::time::Duration;
use std::sync::Arc;

use tandem_sip::HeaderName;

use super::bench::*;
use crate::{Admin, Config, Health, Reason, Slot};

fn status(sent: &Sent) -> u16 {
    sent.with(|m| m.status())
}

/// THREATS 13: nobody becomes in-dialog by a To tag and a Route that looks like ours.
#[test]
fn forged_tokens_are_refused_and_counted() {
    let mut bench = Bench::new(4);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let route = invite.values(HeaderName::RecordRoute).remove(0);
    let token = route.split("t=").nth(1).unwrap().trim_end_matches('>').to_owned();
    let forged = [
        ("c2", route.clone()),                                        // another call's
        ("c1", route.replace(&token, "oaaaaaaaaaaaaaaaaaaaaaaaaaa")), // none
        ("c1", route.replace(&token, &token[..26])),                  // cut short
        ("c1", route.replace(&token, &format!("d{}", &token[1..]))),  // the other end's
    ];
    for (n, (call, route)) in forged.iter().enumerate() {
        let text = request("BYE", call, 2, "f", &format!("Route: {route}\nin-dialog"));
        let answer = bench.pass(CALLER, &text);
        assert_eq!((status(&answer), answer.to.as_str()), (403, CALLER), "{route}");
        assert_eq!(bench.balancer.counters().tokens_forged, n as u64 + 1);
        let ack = text.replace("BYE", "ACK");
        assert!(bench.receive(CALLER, &ack).is_empty());
        bench.balancer.counters.tokens_forged -= 1;
    }
}

#[test]
fn a_request_within_a_call_that_nobody_knows_gets_481_and_its_ack_nothing() {
    let mut bench = Bench::new(4);
    for method in ["BYE", "CANCEL", "PRACK", "UPDATE"] {
        assert_eq!(status(&bench.pass(CALLER, &request(method, "c9", 2, "u", "in-dialog"))), 481);
    }
    assert!(bench.receive(CALLER, &request("ACK", "c9", 2, "u", "in-dialog")).is_empty());
    assert!(bench.balancer.calls().is_empty());
}

#[test]
fn with_all_destinations_down_the_answer_is_503_at_once_with_retry_after() {
    let mut bench = Bench::new(2);
    for slot in 0..2 {
        bench.pool().board().set_health(Slot(slot), Health::Down, Reason::ProbesTimedOut, bench.now);
    }
    let answer = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    assert_eq!(status(&answer), 503);
    let wait: u64 = answer.values(HeaderName::RetryAfter)[0].parse().unwrap();
    assert!((5..=10).contains(&wait), "{wait}");
    assert_eq!(bench.balancer.counters().no_destination, 1);
}

#[test]
fn a_full_table_answers_503_and_calls_in_progress_go_on() {
    let mut config = Config::new(vec![pool_config("media", "tlwl", 2)]);
    config.entries_max = 3;
    let mut bench = Bench::of(config);
    let first = bench.pass(CALLER, &request("INVITE", "c0", 1, "c0", ""));
    for n in 1..3 {
        bench.pass(CALLER, &request("INVITE", &format!("c{n}"), 1, &format!("c{n}"), ""));
    }
    assert_eq!(status(&bench.pass(CALLER, &request("INVITE", "c3", 1, "c3", ""))), 503);
    assert_eq!(bench.pass(CALLER, &request("CANCEL", "c0", 1, "c0", "")).to, first.to);
    assert_eq!(bench.balancer.counters().table_full, 1);
}

/// DEMANDS 12, 18: OPTIONS tells those before us, new calls get 503, the others go on.
#[test]
fn a_draining_balancer_takes_no_new_calls_and_says_so_to_probes() {
    let mut bench = Bench::new(2);
    let options =
        request("OPTIONS", "o1", 1, "opt", "").replace("sip:bob@example.com SIP", &format!("sip:{US} SIP"));
    assert_eq!(status(&bench.pass(CALLER, &options)), 200);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    bench.balancer.set_draining(true);
    assert_eq!(status(&bench.pass(CALLER, &options)), 503);
    assert_eq!(status(&bench.pass(CALLER, &request("INVITE", "c2", 1, "inv2", ""))), 503);
    assert_eq!(bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", "")).to, invite.to);
}

#[test]
fn a_request_out_of_hops_gets_483_and_an_unknown_scheme_416() {
    let mut bench = Bench::new(2);
    let text = request("INVITE", "c1", 1, "inv", "");
    let answer = bench.pass(CALLER, &text.replace("Max-Forwards: 70", "Max-Forwards: 0"));
    assert_eq!(status(&answer), 483);
    assert_eq!(status(&bench.pass(CALLER, &text.replace("sip:bob@example.com SIP", "http://x SIP"))), 416);
    let passed = bench.pass(CALLER, &text);
    assert_eq!(passed.values(HeaderName::MaxForwards), ["69"]);
    let without = bench.pass(CALLER, &text.replace("Max-Forwards: 70\r\n", ""));
    assert_eq!(without.values(HeaderName::MaxForwards), ["70"]);
}

/// Responses have nothing but their Via: one that we did not sign for that very Via goes nowhere.
#[test]
fn a_response_with_a_forged_way_back_is_dropped_and_counted() {
    let mut bench = Bench::new(2);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let answer = invite.answer(200, "").replace("received=", "x=").replace(CALLER, "203.0.113.200:5070");
    assert!(bench.receive(&invite.to, &answer).is_empty());
    assert_eq!(bench.balancer.counters().responses_stray, 1);
}

/// A destination leaves the configuration: its call goes on, no new one comes.
#[test]
fn calls_of_a_destination_that_left_go_on() {
    let mut bench = Bench::new(2);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    bench.pass(&invite.to, &invite.answer(200, ""));
    let old = &bench.config.pools[0];
    let stays: Vec<_> =
        old.settings.iter().map(|(_, d)| d.clone()).filter(|d| d.hop.peer.to_string() != invite.to).collect();
    let next = old.settings.next(
        old.settings.policy().clone(),
        old.settings.health().clone(),
        stays,
        &old.board,
        bench.now,
    );
    let mut config = bench.config.clone();
    config.pools[0].settings = Arc::new(next.unwrap());
    bench.balancer.reconfigure(bench.now, Arc::new(config), listeners());
    for n in 0..10 {
        assert_ne!(
            bench.pass(CALLER, &request("INVITE", &format!("n{n}"), 1, &format!("n{n}"), "")).to,
            invite.to
        );
    }
    assert_eq!(bench.pass(CALLER, &request("BYE", "c1", 2, "bye", "in-dialog")).to, invite.to);
    bench.wait(Duration::from_secs(90));
    assert!(bench.booked().iter().all(|&booked| booked == (0, 0)));
}

#[test]
fn a_drained_destination_keeps_its_calls_and_gets_no_new_ones() {
    let mut bench = Bench::new(2);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let slot = bench.balancer.whereabouts(b"c1").unwrap().2.place().slot;
    bench.pool().board().set_admin(slot, Admin::Draining, bench.now);
    for n in 0..10 {
        assert_ne!(
            bench.pass(CALLER, &request("INVITE", &format!("n{n}"), 1, &format!("n{n}"), "")).to,
            invite.to
        );
    }
    assert_eq!(bench.pass(CALLER, &request("CANCEL", "c1", 1, "inv", "")).to, invite.to);
}
