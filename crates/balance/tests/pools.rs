//! What holds for every policy, and how a pool changes while it runs.

mod common;

use core::time::Duration;

use common::{Bench, count, equal, quiet, weighted};
use tandem_balance::{
    Admin, Board, Destination, Letters, Mistake, Outcome, POLICIES, PolicySettings, PoolSettings, Slot, State,
};
use tandem_base::Instant;
use tandem_sip::{Hop, ListenerId, Method};

fn in_tier(id: &str, tier: u8) -> Destination {
    Destination { tier, ..weighted(id, 1) }
}

/// Picks many times, for many calls and users.
fn picks(bench: &mut Bench) -> Vec<u64> {
    let pick = |n: u64| {
        let slot = bench.ask_one(&format!("{n}@h"), &format!("user{n}"));
        let work = bench.pool.request_began(slot, Method::Invite);
        bench.pool.request_ended(slot, Method::Invite, work, Some(Duration::from_millis(10 + n % 7)));
        slot
    };
    count((0..400).map(pick), 8)
}

/// DEMANDS: a backup of weight zero was never used elsewhere; here it is a tier, and weight 0 means no calls.
#[test]
fn under_every_policy_the_lowest_tier_with_an_eligible_destination_serves() {
    for policy in POLICIES {
        let destinations = vec![
            in_tier("backup", 1),
            in_tier("a", 0),
            in_tier("b", 0),
            weighted("out", 0),
            in_tier("last", 255),
        ];
        let mut bench = Bench::new(policy.name, destinations);
        let used = |bench: &mut Bench| {
            let counts = picks(bench);
            (0..5).filter(|&slot| counts[slot] > 0).collect::<Vec<_>>()
        };
        // For the user policies each of these is a cluster of its own, so tiers don't order them.
        if policy.name.starts_with("user") {
            assert_eq!(used(&mut bench), [0, 1, 2, 4], "{}", policy.name);
            continue;
        }
        assert_eq!(used(&mut bench), [1, 2], "{}", policy.name);
        bench.board.set_admin(Slot(1), Admin::Disabled, bench.now);
        assert_eq!(used(&mut bench), [2], "{}", policy.name);
        bench.board.set_admin(Slot(2), Admin::Draining, bench.now);
        assert_eq!(used(&mut bench), [0], "{}", policy.name);
        bench.pool.report(bench.now, Slot(0), Outcome::Unavailable(Some(Duration::from_secs(60))));
        assert_eq!(used(&mut bench), [4], "{}", policy.name);
    }
}

#[test]
fn under_every_policy_what_was_tried_is_not_tried_again_until_nobody_is_left() {
    for policy in POLICIES {
        let mut destinations = equal(4);
        destinations[3].tier = 1;
        let mut bench = Bench::new(policy.name, destinations);
        for call in 0..50 {
            let mut tried = Vec::new();
            while let Some(slot) = bench.ask(&format!("{call}"), None, &tried) {
                assert!(!tried.contains(&slot), "{}", policy.name);
                tried.push(slot);
            }
            assert_eq!(tried.len(), 4, "{}: {tried:?}", policy.name);
            if !policy.name.starts_with("user") {
                assert_eq!(tried[3], Slot(3), "{}: the backup comes last", policy.name);
            }
        }
    }
}

#[test]
fn when_nobody_is_eligible_the_caller_hears_at_once_when_to_come_back() {
    for policy in POLICIES {
        let mut bench = Bench::new(policy.name, equal(2));
        for slot in [0, 1] {
            bench.board.set_admin(Slot(slot), Admin::Draining, bench.now);
        }
        assert_eq!(bench.ask("x", None, &[]), None, "{}", policy.name);
    }
}

/// DEMANDS: a destination is an id, not an address: one host with two ports is two destinations (L10), and one
/// address in two places is too.
#[test]
fn host_port_pairs_and_equal_addresses_are_destinations_of_their_own() {
    let hop = |port| Hop::udp(ListenerId(0), ([192, 0, 2, 9], port).into());
    let at = |id: &str, port, weight| Destination { weight, ..Destination::new(id, hop(port)) };
    // The example of Kambourakis et al. §3.2: 60 %, 20 % and two ports of one host with 10 % each, and a backup.
    let backup = Destination { tier: 20, ..at("backup", 5060, 100) };
    let destinations = vec![
        at("big", 5060, 60),
        at("medium", 5060, 20),
        at("small", 5060, 10),
        at("small2", 5066, 10),
        backup,
    ];
    let mut bench = Bench::new("round-robin", destinations);
    let counts = count((0..1000).map(|_| bench.pick("x")), 5);
    assert_eq!(counts, [600, 200, 100, 100, 0]);
}

/// DEMANDS: removal is a drain, an id keeps its figures through any change, and a place is used again only after its
/// calls have ended.
#[test]
fn a_removed_destination_keeps_its_calls_and_its_place_until_they_end() {
    let mut bench = Bench::new("cjsq", equal(3));
    for slot in [0, 1, 1, 2] {
        bench.pool.call_began(Slot(slot));
    }
    let without_d1 = || vec![weighted("d2", 5), weighted("d0", 1), weighted("new", 1)];
    assert_eq!(bench.reconfigure(without_d1()), []);
    let settings = bench.pool.settings().clone();
    assert_eq!(settings.generation(), 2);
    assert_eq!(
        [settings.slot_of("d0"), settings.slot_of("d2"), settings.slot_of("new")]
            .map(Option::unwrap)
            .map(|s| s.0),
        [0, 2, 3]
    );
    let view: Vec<_> = bench.pool.view(bench.now).collect();
    assert_eq!((view[1].state, view[1].leaving, view[1].load.calls), (State::Draining, true, 2));
    assert_eq!((view[2].weight, view[2].load.calls), (5, 1));
    assert!((0..50).all(|_| bench.pick("x") != Slot(1)));
    bench.pool.call_ended(Slot(1));
    assert_eq!(bench.reconfigure(without_d1()), []);
    bench.pool.call_ended(Slot(1));
    assert_eq!(bench.reconfigure(without_d1()), [Slot(1)]);
    assert_eq!(bench.pool.settings().destination(Slot(1)), None);
    assert_eq!(bench.pool.underflows(), 0);
    // It comes back as it was, before its place is given away.
    bench.reconfigure(equal(3));
    assert_eq!(bench.pool.loads().map(|(_, load)| load.calls).sum::<u32>(), 2);
}

#[test]
fn a_destination_that_leaves_and_returns_while_it_has_calls_is_the_same_one() {
    let mut bench = Bench::new("cjsq", equal(2));
    bench.pool.call_began(Slot(1));
    bench.reconfigure(equal(1));
    assert!((0..20).all(|_| bench.pick("x") == Slot(0)));
    bench.reconfigure(equal(2));
    assert_eq!(bench.pool.own_load(Slot(1)).calls, 1);
    bench.pool.call_began(Slot(0));
    bench.pool.call_began(Slot(0));
    assert_eq!(bench.pick("x"), Slot(1));
}

#[test]
fn a_full_board_uses_the_longest_free_place_and_then_refuses_whole() {
    let board = Board::new(3, 1);
    let make = |ids: &[&str]| ids.iter().map(|id| weighted(id, 1)).collect::<Vec<_>>();
    let policy = || PolicySettings::new("tlwl");
    let now = Instant::from_secs(1);
    let first = PoolSettings::new("p", policy(), quiet(), make(&["a", "b", "c"])).unwrap();
    let next = |from: &PoolSettings, ids: &[&str]| from.next(policy(), quiet(), make(ids), &board, now);
    assert_eq!(next(&first, &["a", "b", "c", "d"]).unwrap_err(), Mistake::TooMany(4, 3));
    let leaving = next(&first, &["a"]).unwrap();
    assert!(leaving.is_leaving(Slot(1)) && leaving.is_leaving(Slot(2)));
    let gone = next(&leaving, &["a"]).unwrap();
    let filled = next(&gone, &["a", "d", "e"]).unwrap();
    assert_eq!((filled.slot_of("d"), filled.slot_of("e")), (Some(Slot(1)), Some(Slot(2))));
}

#[test]
fn mistakes_are_told_with_their_remedy() {
    let make = |policy: PolicySettings, destinations| {
        PoolSettings::new("p", policy, quiet(), destinations).unwrap_err().to_string()
    };
    let tlwl = || PolicySettings::new("tlwl");
    assert!(make(PolicySettings::new("fastest"), equal(2)).contains("`fastest`; there are tlwl, tjsq, cjsq"));
    assert!(make(tlwl(), vec![weighted("a", 1), weighted("b", 1), weighted("a", 2)]).contains("the id `a`"));
    assert!(make(tlwl(), vec![]).contains("add one"));
    assert!(make(tlwl(), vec![weighted("a", 0), weighted("b", 0)]).contains("give one a weight"));
    let bound = PolicySettings { bound_percent: 100, ..PolicySettings::new("rendezvous") };
    assert!(make(bound, equal(2)).contains("more than 100"));
    let letters = vec![Letters { from: b'a', to: b'z', cluster: "s9".into() }];
    assert!(
        make(PolicySettings { letters, ..PolicySettings::new("user-letter") }, equal(2)).contains("`s9`")
    );
}

#[test]
fn a_call_without_a_beginning_cannot_end_and_is_counted() {
    let mut bench = Bench::new("cjsq", equal(2));
    bench.pool.call_ended(Slot(0));
    bench.pool.request_ended(Slot(1), Method::Bye, tandem_balance::Work::ONE, None);
    bench.pool.call_ended(Slot(900));
    assert_eq!(bench.pool.underflows(), 3);
    assert!(bench.pool.loads().all(|(_, load)| load.is_idle()));
}

#[test]
fn why_tells_in_a_sentence_who_was_chosen_and_from_what() {
    let mut bench = Bench::new("tlwl", equal(3));
    bench.board.set_admin(Slot(0), Admin::Draining, bench.now);
    bench.pool.request_began(Slot(1), Method::Invite);
    let slot = bench.ask("call-1", None, &[Slot(1)]).unwrap();
    assert_eq!(slot, Slot(2));
    for call in 0..4095 {
        bench.pick(&format!("other-{call}"));
    }
    let why = bench.pool.why(b"call-1").unwrap();
    let sentence = why.to_string();
    assert!(sentence.starts_with("d2 was chosen by tlwl for the INVITE at 1."), "{sentence}");
    assert!(sentence.contains("from 2 that were eligible; tier 0, 0 calls and 0 unanswered"), "{sentence}");
    assert!(sentence.ends_with("1 others had failed the request before"), "{sentence}");
    bench.pick("one-more");
    assert_eq!(bench.pool.why(b"call-1"), None, "it is one of the last 4,096 no more");
}
