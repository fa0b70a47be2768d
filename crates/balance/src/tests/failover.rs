//! The first request goes on to the next destination, and nothing else does (DEMANDS 17).

use core::time::Duration;

use tandem_sip::{HeaderName, Outbox};

use super::bench::*;
use crate::board::{Health, Reason};
use crate::calls::Cause;
use crate::{Config, Slot};

#[test]
fn a_503_goes_to_the_next_destination_and_the_caller_never_sees_it() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let all = bench.receive(&invite.to, &invite.answer(503, "Retry-After: 7\r\n"));
    assert_eq!(all.len(), 2, "{all:#?}");
    let (ack, again) = (&all[0], &all[1]);
    assert_eq!((&ack.to, ack.branch()), (&invite.to, invite.branch()));
    assert!(ack.start().starts_with("ACK sip:bob@example.com ") && ack.text.contains(";tag=callee\r\n"));
    assert!(again.to != invite.to && again.start() == invite.start() && again.branch() != invite.branch());
    // What the caller repeats, and what comes after, goes to the new one.
    assert_eq!(bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", "")), *again);
    assert_eq!(bench.balancer.whereabouts(b"c1").unwrap().2.cause(), Cause::Failover);
    assert_eq!(bench.booked().iter().filter(|&&booked| booked == (1, 1)).count(), 1);
    let ok = bench.pass(&again.to, &again.answer(200, ""));
    assert_eq!(ok.to, CALLER);
    let route = again.values(HeaderName::RecordRoute).remove(0);
    let ack = bench.pass(CALLER, &request("ACK", "c1", 1, "ack", &format!("Route: {route}\nin-dialog")));
    assert_eq!(ack.to, again.to);
    // Its Retry-After holds the first one off.
    for n in 0..10 {
        assert_ne!(
            bench.pass(CALLER, &request("INVITE", &format!("n{n}"), 1, &format!("n{n}"), "")).to,
            invite.to
        );
    }
    assert_eq!((bench.balancer.copies(), bench.balancer.counters().failovers), (10, 1));
}

#[test]
fn busy_and_declined_are_the_callees_word_and_final() {
    for status in [486, 600, 603, 404, 480, 408] {
        let mut bench = Bench::new(3);
        let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
        assert_eq!(bench.pass(&invite.to, &invite.answer(status, "")).to, CALLER);
        assert_eq!(bench.balancer.copies(), 0);
    }
}

#[test]
fn a_silent_destination_is_left_after_the_timeout() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    assert!(bench.wait(Duration::from_millis(1_500)).is_empty());
    let again = bench.wait(Duration::from_secs(1));
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].to, invite.to);
    // Once the first says at last that it rings, it is told to stop, and its 487 is ours to acknowledge.
    let cancel = bench.pass(&invite.to, &invite.answer(180, ""));
    assert!(
        cancel.start().starts_with("CANCEL ") && cancel.to == invite.to && cancel.branch() == invite.branch()
    );
    assert!(
        bench.receive(&invite.to, &cancel.answer(200, "").replacen(&second_via(&cancel), "", 1)).is_empty()
    );
    let ack = bench.pass(&invite.to, &invite.answer(487, ""));
    assert!(ack.start().starts_with("ACK ") && ack.to == invite.to);
    // But if someone answered there, the caller must know.
    let both = bench.receive(&invite.to, &invite.answer(200, ""));
    assert_eq!(both.last().map(|sent| sent.to.as_str()), Some(CALLER));
}

fn second_via(sent: &Sent) -> String {
    sent.text
        .lines()
        .filter(|line| line.starts_with("Via: "))
        .nth(1)
        .map_or(String::new(), |l| format!("{l}\r\n"))
}

/// RFC 3261 §16.7 step 10. Answered where it was left: the call is there, and the next destination is told to stop; its
/// 487 is nobody's but ours.
#[test]
fn a_call_answered_where_it_was_left_stays_there_and_the_other_is_cancelled() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let again = bench.wait(Duration::from_secs(3)).remove(0);
    assert_eq!(bench.pass(&again.to, &again.answer(180, "")).to, CALLER);
    let both = bench.receive(&invite.to, &invite.answer(200, ""));
    assert_eq!(both.len(), 2, "{both:#?}");
    assert!(both[0].start().starts_with("CANCEL ") && both[0].to == again.to);
    assert!(both[1].start().contains("200") && both[1].to == CALLER);
    let ack = bench.pass(&again.to, &again.answer(487, ""));
    assert!(ack.start().starts_with("ACK ") && ack.to == again.to);
    let bye = bench.pass(CALLER, &request("BYE", "c1", 2, "bye", "in-dialog"));
    assert_eq!(bye.to, invite.to);
    bench.pass(&bye.to, &bye.answer(200, ""));
    assert!(bench.booked().iter().all(|&booked| booked == (0, 0)));
    bench.wait(Duration::from_secs(240));
    assert!(bench.balancer.calls().is_empty() && bench.balancer.copies() == 0);
}

/// The caller was told 486 by the second; when someone answers at the first, nobody but us can end that call.
#[test]
fn a_call_answered_after_its_failure_was_told_is_ended_by_us() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let again = bench.wait(Duration::from_secs(3)).remove(0);
    assert_eq!(bench.pass(&again.to, &again.answer(486, "")).to, CALLER);
    bench.wait(Duration::from_secs(60));
    let both = bench.receive(&invite.to, &invite.answer(200, ""));
    let starts: Vec<&str> = both.iter().map(|sent| sent.start().split(' ').next().unwrap()).collect();
    assert_eq!(starts, ["ACK", "BYE"]);
    assert!(both.iter().all(|sent| sent.to == invite.to));
    // Timers E and F: 0.5, 1, 2 s, then every 4 s, and after 32 s no more.
    let repeated = bench.wait(Duration::from_secs(240));
    assert!(repeated.len() == 10 && repeated.iter().all(|again| *again == both[1]), "{repeated:#?}");
    assert!(bench.balancer.calls().is_empty() && bench.balancer.copies() + bench.balancer.byes() == 0);
}

#[test]
fn a_bye_of_our_own_is_repeated_until_it_is_answered() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let again = bench.wait(Duration::from_secs(3)).remove(0);
    bench.pass(&again.to, &again.answer(486, ""));
    // The 200 comes again, because the ACK was lost: acknowledged again, and one BYE is repeated.
    bench.receive(&invite.to, &invite.answer(200, ""));
    let bye = bench.receive(&invite.to, &invite.answer(200, "")).remove(1);
    assert_eq!((bench.wait(Duration::from_millis(600)), bench.balancer.byes()), (vec![bye.clone()], 1));
    let other = bye.answer(200, "").replace(&bye.branch(), &again.branch());
    for (answer, left) in [(other, 1), (bye.answer(100, ""), 1), (bye.answer(481, ""), 0)] {
        bench.receive(&invite.to, &answer.replacen(&second_via(&bye), "", 1));
        assert_eq!(bench.balancer.byes(), left, "{answer}");
    }
    assert!(bench.wait(Duration::from_secs(60)).is_empty());
}

/// RFC 3261 §17.1.1.3: it repeats its 503 while our ACK does not get there, and the call has long gone on.
#[test]
fn what_a_left_destination_repeats_never_reaches_a_caller_who_was_answered() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let again = bench.receive(&invite.to, &invite.answer(503, "")).remove(1);
    bench.pass(&again.to, &again.answer(200, ""));
    let route = again.values(HeaderName::RecordRoute).remove(0);
    let in_dialog = format!("Route: {route}\nin-dialog");
    for (method, cseq) in [("ACK", 1), ("INVITE", 2)] {
        assert_eq!(bench.pass(CALLER, &request(method, "c1", cseq, method, &in_dialog)).to, again.to);
        let late = bench.receive(&invite.to, &invite.answer(503, ""));
        assert!(late.iter().all(|sent| sent.to != CALLER), "{late:#?}");
    }
}

#[test]
fn a_hundred_trying_stops_the_timeout_and_a_ringing_phone_ends_all_failover() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    bench.pass(&invite.to, &invite.answer(100, ""));
    assert!(bench.wait(Duration::from_secs(30)).is_empty());
    bench.pass(&invite.to, &invite.answer(180, ""));
    assert_eq!(bench.balancer.copies(), 0);
    assert_eq!(bench.pass(&invite.to, &invite.answer(503, "")).to, CALLER);
}

#[test]
fn an_unreachable_destination_is_left_at_once() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let mut out = Outbox::new();
    assert!(bench.balancer.handle_undeliverable(bench.now, invite.text.as_bytes(), &mut out));
    let again = sent(&out);
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].to, invite.to);
    let forged = invite.text.replace("CSeq: 1", "CSeq: 2");
    assert!(!bench.balancer.handle_undeliverable(bench.now, forged.as_bytes(), &mut out));
}

#[test]
fn a_cancelled_call_fails_over_nowhere() {
    let mut bench = Bench::new(3);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    bench.pass(CALLER, &request("CANCEL", "c1", 1, "inv", ""));
    assert_eq!(bench.pass(&invite.to, &invite.answer(503, "")).to, CALLER);
}

/// Three tries at most, then the last answer is the caller's.
#[test]
fn the_last_failure_is_the_callers() {
    let mut bench = Bench::new(8);
    let mut invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    for _ in 0..2 {
        invite = bench.receive(&invite.to, &invite.answer(500, "")).remove(1);
    }
    let last = bench.pass(&invite.to, &invite.answer(500, ""));
    assert_eq!((last.to.as_str(), bench.balancer.copies()), (CALLER, 0));
    assert!(bench.booked().iter().all(|&booked| booked == (0, 0)));
}

/// DEMANDS 43: of a pool that fails altogether, 20 % more requests come and not three times as many.
#[test]
fn second_tries_have_a_budget() {
    let mut bench = Bench::new(8);
    let mut tries = 0;
    for n in 0..1_000 {
        let mut invite = bench.pass(CALLER, &request("INVITE", &format!("c{n}"), 1, &format!("b{n}"), ""));
        loop {
            let mut all = bench.receive(&invite.to, &invite.answer(500, ""));
            if all.len() == 1 {
                break;
            }
            tries += 1;
            invite = all.remove(1);
        }
    }
    assert_eq!(tries, 10 + 200);
    assert!(bench.balancer.counters().failovers_refused > 0);
}

#[test]
fn failover_that_is_off_keeps_no_copy() {
    let mut config = Config::new(vec![pool_config("media", "tlwl", 3)]);
    config.pools[0].failover.tries_max = 1;
    let mut bench = Bench::of(config);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    assert_eq!(bench.balancer.copies(), 0);
    assert_eq!(bench.pass(&invite.to, &invite.answer(503, "")).to, CALLER);
}

#[test]
fn a_request_outside_calls_fails_over_without_an_ack() {
    let mut bench = Bench::new(3);
    let message = bench.pass(CALLER, &request("MESSAGE", "m1", 1, "msg", ""));
    let again = bench.pass(&message.to, &message.answer(503, ""));
    assert!(again.start().starts_with("MESSAGE ") && again.to != message.to);
}

/// Killed while it rings, and back a moment later: the call may ring for minutes yet, and nobody works on it.
#[test]
fn a_destination_that_died_while_it_rang_is_not_busy_when_it_is_back() {
    let mut bench = Bench::new(1);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    bench.pass(&invite.to, &invite.answer(180, ""));
    bench.wait(Duration::from_millis(100));
    assert_eq!(bench.booked(), [(1, 1)]);
    for health in [Health::Down, Health::Up] {
        bench.pool().board().set_health(Slot(0), health, Reason::ProbesTimedOut, bench.now);
        bench.wait(Duration::from_millis(100));
        assert_eq!(bench.booked(), [(1, 0)]);
    }
    // If it lives after all, its answer passes, and the call goes on.
    assert_eq!(bench.pass(&invite.to, &invite.answer(200, "")).to, CALLER);
    bench.wait(Duration::from_secs(10));
    assert_eq!((bench.booked(), bench.balancer.calls().audit_difference()), (vec![(1, 0)], 0));
}
