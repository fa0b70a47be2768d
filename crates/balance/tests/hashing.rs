//! The policies that go by a hash, and round robin: shares, who moves when, and bounds.

mod common;

use common::{Bench, chi_square, count, equal, weighted};
use proptest::prelude::*;
use tandem_balance::{Admin, Destination, Letters, PolicySettings, Slot, core_hash};

/// Call-IDs as SIPp makes them.
fn sipp(call: u64) -> String {
    format!("{call}-4242@192.0.2.17")
}

/// A7: (M + 1) mod N.
#[test]
fn round_robin_goes_around() {
    let mut bench = Bench::new("round-robin", equal(5));
    let order: Vec<u16> = (0..12).map(|_| bench.pick("x").0).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
    // One that is out is left out; back again, it gets its turn and not all those it missed.
    bench.board.set_admin(Slot(3), Admin::Draining, bench.now);
    assert!((0..50).all(|_| bench.pick("x") != Slot(3)));
    bench.board.set_admin(Slot(3), Admin::Active, bench.now);
    let counts = count((0..100).map(|_| bench.pick("x")), 5);
    assert!(counts.iter().all(|&n| n.abs_diff(20) <= 1), "{counts:?}");
}

proptest! {
    /// After k rounds everyone had k · weight, and at no moment is anyone more than one and a half turns off.
    #[test]
    fn smooth_round_robin_keeps_every_share_at_every_moment(weights in prop::collection::vec(0u16..50, 1..30)) {
        prop_assume!(weights.iter().any(|&weight| weight > 0));
        let destinations =
            weights.iter().enumerate().map(|(i, &weight)| weighted(&format!("d{i}"), weight)).collect();
        let mut bench = Bench::new("round-robin", destinations);
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let mut counts = vec![0u64; weights.len()];
        for turn in 1..=3 * total {
            counts[bench.pick("x").index()] += 1;
            for (&count, &weight) in counts.iter().zip(&weights) {
                let due = turn as f64 * f64::from(weight) / total as f64;
                prop_assert!((count as f64 - due).abs() < 1.5 + f64::from(weight) * weights.len() as f64 / total as f64);
            }
        }
        for (&count, &weight) in counts.iter().zip(&weights) {
            prop_assert!(count.abs_diff(3 * u64::from(weight)) <= 1, "{counts:?} {weights:?}");
        }
    }
}

/// `hash` and `fnv` are the number mod N, as Jiang et al. 2009 §III have it.
#[test]
fn hash_is_the_number_modulo_n() {
    let mut hash = Bench::new("hash", equal(7));
    let mut fnv = Bench::new("fnv", equal(7));
    for call in 0..500 {
        let call_id = sipp(call);
        let modulo = |hash: u32| Slot(u16::try_from(hash % 7).unwrap());
        assert_eq!(hash.pick(&call_id), modulo(core_hash(call_id.as_bytes())));
        assert_eq!(fnv.pick(&call_id), modulo(tandem_balance::fnv1(call_id.as_bytes())));
    }
}

/// DEMANDS: one of six destinations dies, and its share must not fall on a neighbour (2,022 calls against 990). Each
/// of the five others gets a fifth of it; all calls of the others stay. χ² with 4 degrees of freedom: 23.5.
#[test]
fn the_share_of_a_dead_destination_spreads_over_all_others_and_nobody_else_moves() {
    for policy in ["hash", "fnv", "rendezvous", "user", "user-bernstein", "user-sha1"] {
        let mut bench = Bench::new(policy, equal(6));
        let names: Vec<String> = (0..24_000).map(sipp).collect();
        let before: Vec<Slot> = names.iter().map(|name| bench.pick(name)).collect();
        bench.board.set_admin(Slot(2), Admin::Disabled, bench.now);
        let after: Vec<Slot> = names.iter().map(|name| bench.pick(name)).collect();
        let moved: Vec<Slot> = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after)
            .map(|(_, &after)| after)
            .collect();
        assert!(
            before.iter().zip(&after).all(|(before, after)| before == after || *before == Slot(2)),
            "{policy}"
        );
        let mut heirs = count(moved, 6);
        heirs.remove(2);
        assert!(chi_square(&heirs, &[1; 5]) < 23.5, "{policy}: {heirs:?}");
        // With a second one dead, both their shares spread over the four that are left: 4 and 6 have a common factor,
        // so a second `mod` of the same number would miss half of them. χ² with 3 degrees of freedom: 21.1.
        bench.board.set_admin(Slot(4), Admin::Disabled, bench.now);
        let orphans = names.iter().zip(&before).filter(|(_, before)| [Slot(2), Slot(4)].contains(before));
        let mut heirs = count(orphans.map(|(name, _)| bench.pick(name)), 6);
        heirs.retain(|&calls| calls > 0);
        assert!(heirs.len() == 4 && chi_square(&heirs, &[1; 4]) < 21.1, "{policy}: {heirs:?}");
        bench.board.set_admin(Slot(4), Admin::Active, bench.now);
        bench.board.set_admin(Slot(2), Admin::Active, bench.now);
        assert!(names.iter().zip(&before).all(|(name, &before)| bench.pick(name) == before), "{policy}");
    }
}

/// DEMANDS: percent tables break above 25 hosts. 40 destinations of weights 1 to 40: χ² with 39 degrees of freedom
/// passes 84 once in 25,000 times.
#[test]
fn rendezvous_gives_each_of_forty_destinations_exactly_its_weight() {
    let weights: Vec<u16> = (1..=40).collect();
    let destinations: Vec<Destination> =
        weights.iter().map(|&weight| weighted(&format!("host{weight}"), weight)).collect();
    for policy in ["rendezvous", "user"] {
        let mut bench = Bench::new(policy, destinations.clone());
        let counts = count((0..100_000).map(|call| bench.pick(&sipp(call))), 40);
        assert!(chi_square(&counts, &weights) < 84.0, "{policy}: {counts:?}");
    }
}

/// Anyone can compute OpenSER's hash and aim: all calls hit one destination. Under the pool's key they spread.
/// χ² with 7 degrees of freedom: 29.9.
#[test]
fn callers_can_aim_at_a_destination_through_hash_but_not_through_rendezvous() {
    let aimed: Vec<String> =
        (0..).map(sipp).filter(|id| core_hash(id.as_bytes()) % 8 == 5).take(8000).collect();
    let mut hash = Bench::new("hash", equal(8));
    assert!(aimed.iter().all(|call_id| hash.pick(call_id) == Slot(5)));
    let mut keyed = Bench::new("rendezvous", equal(8));
    let counts = count(aimed.iter().map(|call_id| keyed.pick(call_id)), 8);
    assert!(chi_square(&counts, &[1; 8]) < 29.9, "{counts:?}");
}

proptest! {
    /// Mirrokni et al. 2018: nobody ever gets a call beyond ceil(bound · fair share), however calls come and end.
    #[test]
    fn bounded_load_is_never_exceeded(
        bound in 101u32..200,
        weights in prop::collection::vec(1u16..6, 2..12),
        ends in prop::collection::vec(any::<Option<u16>>(), 1..400),
    ) {
        let destinations =
            weights.iter().enumerate().map(|(i, &weight)| weighted(&format!("d{i}"), weight)).collect();
        let policy = PolicySettings { bound_percent: bound, ..PolicySettings::new("rendezvous") };
        let mut bench = Bench::with(policy, destinations);
        let total_weight: u64 = weights.iter().copied().map(u64::from).sum();
        let mut calls: Vec<Slot> = Vec::new();
        for (number, end) in ends.into_iter().enumerate() {
            match end {
                Some(index) if !calls.is_empty() => {
                    let slot = calls.swap_remove(usize::from(index) % calls.len());
                    bench.pool.call_ended(slot);
                }
                _ => {
                    let slot = bench.pick(&format!("{number}"));
                    bench.pool.call_began(slot);
                    calls.push(slot);
                    let share = u64::from(weights[slot.index()]);
                    let most = (u64::from(bound) * calls.len() as u64 * share).div_ceil(100 * total_weight);
                    prop_assert!(u64::from(bench.pool.own_load(slot).calls) <= most);
                }
            }
        }
    }
}

/// L9: when the N-th cluster joins, 1/N of the users move, all of them to it; when it leaves, they go back. By mod N
/// most would move. 20,000 users: three deviations of a share of 1/N are below 9 % of it.
#[test]
fn a_cluster_that_joins_gets_one_nth_of_the_users_and_nobody_moves_between_the_others() {
    let users: Vec<String> = (0..20_000).map(|user| format!("user{user}")).collect();
    for n in [2, 3, 5, 10] {
        let mut bench = Bench::new("user", equal(n - 1));
        let before: Vec<Slot> = users.iter().map(|user| bench.pick_user(user)).collect();
        bench.reconfigure(equal(n));
        let after: Vec<Slot> = users.iter().map(|user| bench.pick_user(user)).collect();
        let newcomer = Slot(u16::try_from(n - 1).unwrap());
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *after == newcomer));
        let fair = users.len() as f64 / n as f64;
        assert!((moved as f64) < fair * 1.09 && moved as f64 > fair * 0.91, "{n}: {moved}");
        bench.reconfigure(equal(n - 1));
        assert!(users.iter().zip(&before).all(|(user, &before)| bench.pick_user(user) == before));
    }
    let mut modulo = Bench::new("user-sha1", equal(9));
    let before: Vec<Slot> = users.iter().map(|user| modulo.pick_user(user)).collect();
    modulo.reconfigure(equal(10));
    let moved = users.iter().zip(&before).filter(|(user, before)| modulo.pick_user(user) != **before).count();
    assert!(moved > users.len() / 2, "the test sees movement: {moved}");
}

/// The order in which a balancer learned of its destinations doesn't matter: two balancers agree.
#[test]
fn balancers_with_different_histories_send_a_user_to_the_same_cluster() {
    let mut one = Bench::new("user", equal(6));
    let mut reversed = equal(6);
    reversed.reverse();
    let mut other = Bench::new("user", vec![weighted("gone", 1), reversed[0].clone()]);
    other.reconfigure(reversed);
    let id = |bench: &Bench, slot| bench.pool.settings().destination(slot).unwrap().id.clone();
    for user in 0..1000 {
        let user = format!("user{user}");
        let (a, b) = (one.pick_user(&user), other.pick_user(&user));
        assert_eq!(id(&one, a), id(&other, b));
    }
}

fn member(id: &str, cluster: &str, tier: u8) -> Destination {
    Destination { tier, cluster: Some(cluster.into()), ..weighted(id, 1) }
}

/// S2P2 of Singh and Schulzrinne: clusters with a primary and a backup.
fn clusters() -> Vec<Destination> {
    vec![member("p1", "s1", 0), member("b1", "s1", 1), member("p2", "s2", 0), member("b2", "s2", 1)]
}

/// Singh §4.2, figure 11: a–h, i–q, r–z; here two clusters. The primary serves, its backup when it is down, and the
/// other cluster only when both are; users of the other cluster never move.
#[test]
fn a_backup_takes_its_clusters_users_and_another_cluster_only_when_both_are_down() {
    let letters = |from, to, cluster: &str| Letters { from, to, cluster: cluster.into() };
    let by_letter = PolicySettings {
        letters: vec![letters(b'a', b'm', "s1"), letters(b'n', b'z', "s2")],
        ..PolicySettings::new("user-letter")
    };
    let mut bench = Bench::with(by_letter, clusters());
    assert_eq!(["alice", "Mike", "nina", "%7Aed"].map(|user| bench.pick_user(user).0), [0, 0, 2, 2]);
    // Digits are in no range: they are spread by hash.
    let others = count((0..200).map(|user| bench.pick_user(&format!("{user}"))), 4);
    assert!(others[0] > 50 && others[2] > 50 && others[1] + others[3] == 0, "{others:?}");

    for policy in ["user", "user-bernstein", "user-sha1"] {
        let mut bench = Bench::new(policy, clusters());
        let users: Vec<String> = (0..400).map(|user| format!("user{user}")).collect();
        let first: Vec<Slot> = users.iter().map(|user| bench.pick_user(user)).collect();
        assert!(first.contains(&Slot(0)) && first.contains(&Slot(2)));
        bench.board.set_admin(Slot(0), Admin::Disabled, bench.now);
        for (user, &before) in users.iter().zip(&first) {
            assert_eq!(bench.pick_user(user), if before == Slot(0) { Slot(1) } else { before });
        }
        bench.board.set_admin(Slot(1), Admin::Disabled, bench.now);
        assert!(users.iter().all(|user| bench.pick_user(user) == Slot(2)));
    }
}

/// L9: Bernstein's hash mod 2 on names as a load tool makes them is close to even; weights skew it to 60:40.
#[test]
fn user_hashes_are_even_and_weights_skew_them() {
    for policy in ["user", "user-bernstein", "user-sha1"] {
        let share = |weights: [u16; 2]| {
            let mut bench = Bench::new(policy, vec![weighted("s1", weights[0]), weighted("s2", weights[1])]);
            count((0..10_000).map(|user| bench.pick_user(&format!("user{user:05}"))), 2)[0]
        };
        assert!(share([1, 1]).abs_diff(5000) < 300, "{policy}");
        assert!(share([60, 40]).abs_diff(6000) < 300, "{policy}");
    }
}
