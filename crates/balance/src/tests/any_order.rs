//! Messages of many calls, lost, doubled, late and in any order.

use core::time::Duration;

use tandem_base::Rng;
use tandem_sip::HeaderName;

use super::bench::*;

/// One call as its two ends make it: what the caller sends, with the token once it has one.
fn script(call: &str, route: &str, rng: &mut Rng) -> Vec<String> {
    let routed = |method, cseq, branch: &str| {
        request(method, call, cseq, &format!("{call}{branch}"), &format!("Route: {route}\nin-dialog"))
    };
    let invite = request("INVITE", call, 1, &format!("{call}inv"), "");
    let mut all = vec![invite];
    if rng.chance(0.3) {
        all.push(request("CANCEL", call, 1, &format!("{call}inv"), ""));
        all.push(request("ACK", call, 1, &format!("{call}inv"), "in-dialog"));
    }
    all.extend([
        routed("ACK", 1, "ack"),
        routed("INVITE", 2, "re"),
        routed("ACK", 2, "re"),
        routed("UPDATE", 3, "up"),
        routed("BYE", 4, "bye"),
    ]);
    all
}

/// CHECKLIST A1. 256 seeds of 12 calls: no message of a call reaches another destination than its first, the audit
/// finds nothing, and when nothing comes any more table and load are zero. The balancer crashes now and then: then
/// tokens alone must lead.
#[test]
fn affinity_holds_in_any_order_and_everything_drains() {
    for seed in 0..256 {
        let mut rng = Rng::from_seed(seed);
        let mut bench = Bench::new(5);
        let (mut homes, mut flight) = (Vec::new(), Vec::new());
        for n in 0..12 {
            let call = format!("call{n}");
            let first = bench.pass(CALLER, &request("INVITE", &call, 1, &format!("{call}inv"), ""));
            let route = first.values(HeaderName::RecordRoute).remove(0);
            for text in script(&call, &route, &mut rng) {
                for _ in 0..rng.below(4) {
                    flight.push((CALLER.to_owned(), text.clone()));
                }
            }
            // The destination lives: it answers at least once, so that a crash finds the call again.
            bench.pass(&first.to, &first.answer(180, ""));
            homes.push(first.to);
        }
        rng.shuffle(&mut flight);
        let mut crashed = false;
        while let Some((from, text)) = flight.pop() {
            if rng.chance(0.02) {
                bench.crash();
                crashed = true;
            }
            if rng.chance(0.1) {
                // All within the 32 s that a retransmission may be old.
                bench.wait(Duration::from_millis(rng.below(600)));
            }
            let has_token = text.contains("\r\nRoute: ");
            for sent in bench.receive(&from, &text) {
                if sent.start().starts_with("SIP/2.0") {
                    assert!(
                        sent.to == CALLER || sent.to.starts_with("203.0.113.99"),
                        "seed {seed}: {sent:?}"
                    );
                    continue;
                }
                let call = sent.with(|m| String::from_utf8(m.call_id().to_vec()).unwrap());
                let home = &homes[call[4..].parse::<usize>().unwrap()];
                // Without a token, a message that outlived the table by a crash may only be refused.
                if has_token || !crashed {
                    assert_eq!(&sent.to, home, "seed {seed}: {text}");
                }
                if sent.start().starts_with("ACK") || rng.chance(0.1) {
                    continue;
                }
                let method = sent.with(|m| m.method());
                let statuses: &[u16] = if method == tandem_sip::Method::Invite {
                    &[100, 180, 200, 200, 486, 487, 407]
                } else if method == tandem_sip::Method::Bye {
                    &[200, 481]
                } else {
                    &[200]
                };
                for _ in 0..rng.below(3) {
                    let status = statuses[rng.index(statuses.len())];
                    flight.insert(rng.index(flight.len() + 1), (sent.to.clone(), sent.answer(status, "")));
                }
            }
        }
        assert_eq!(bench.balancer.calls().audit_difference(), 0, "seed {seed}");
        assert_eq!(bench.pool().underflows(), 0, "seed {seed}");
        for _ in 0..4 {
            bench.now += Duration::from_secs(13 * 3600);
            bench.wait(Duration::from_secs(1));
        }
        assert!(bench.balancer.calls().is_empty() && bench.balancer.copies() == 0, "seed {seed}");
        assert!(bench.booked().iter().all(|&booked| booked == (0, 0)), "seed {seed}: {:?}", bench.booked());
    }
}

/// THREATS 18. Call-IDs that differ in a prefix only, so that sums, first letters and CRCs of the tail collide, spread
/// under a policy that hashes with our key.
#[test]
fn colliding_call_ids_skew_no_destination() {
    let mut config = crate::Config::new(vec![pool_config("media", "rendezvous", 4)]);
    config.copies_max = 0;
    let mut bench = Bench::of(config);
    for n in 0..20_000_u32 {
        bench.pass(CALLER, &request("INVITE", &format!("{n}@aaaaaaaa"), 1, &format!("b{n}"), ""));
    }
    let booked = bench.booked();
    // 5,000 each; the bounded load of the policy and six deviations of 61 are both within 25 %.
    assert!(booked.iter().all(|&(calls, _)| calls.abs_diff(5_000) < 400), "{booked:?}");
}
