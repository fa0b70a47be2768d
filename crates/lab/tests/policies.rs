//! The papers' order of policies, scaled down: a few thousand calls each, the same on every machine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tandem_balance::PolicySettings;
use tandem_lab::figures::Figures;
use tandem_lab::model::{Callees, Controls, Hold, Model, Profile, Run, Server, Stalls};
use tandem_lab::world::simulate;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Servers that stand still every ten seconds instead of every thirty, so that a short run sees some of it.
fn run(policy: &str, speeds: &[f64], rate: f64) -> Run {
    let stalls = Stalls { every: secs(10), ..Stalls::default() };
    Run {
        seed: 1,
        model: Model { stalls: Some(stalls), ..Model::default() },
        servers: speeds.iter().map(|&speed| Server { speed, ..Server::default() }).collect(),
        policy: PolicySettings::new(policy),
        balancers: 1,
        profile: Profile {
            rate,
            ramp: secs(1),
            warm_up: secs(5),
            judged: secs(20),
            hold: Hold { mean: secs(2), deviation: secs(1) },
            singles: 0.0,
            callees: Callees::Service,
        },
        controls: Controls::default(),
        failures_max: None,
    }
}

/// Every message of a call reached its server, and no balancer's books are wrong.
fn done(run: &Run) -> Figures {
    let figures = simulate(run).unwrap();
    assert_eq!((figures.strayed, figures.wrong), (0, 0), "{}", run.policy.name);
    assert!(figures.invites.asked > 1000 && figures.byes.answered > 1000, "{figures:?}");
    figures
}

/// CHECKLIST A11: about 2 ms where the policy sees that a server stands still, about 15 ms where it doesn't look.
#[test]
fn tlwl_and_tjsq_answer_several_times_as_fast_as_those_that_do_not_look() {
    let mean = |policy| done(&run(policy, &[1.0; 4], 100.0)).invite_times.mean_ms();
    let fast = mean("tlwl").max(mean("tjsq"));
    for slow in ["round-robin", "hash", "fnv"] {
        let slow_ms = mean(slow);
        assert!(slow_ms > 4.0 * fast, "{slow}: {slow_ms} ms, {fast} ms");
    }
}

/// CHECKLIST A12, at half load: with TLWL nine calls in ten find fewer than two requests ahead; with Hash one in
/// twenty finds five or more.
#[test]
fn a_call_finds_few_ahead_of_it_with_tlwl_and_many_with_hash() {
    let tlwl = done(&run("tlwl", &[1.0; 4], 400.0));
    let hash = done(&run("hash", &[1.0; 4], 400.0));
    assert!(tlwl.share_below(2) > 0.9 && tlwl.ahead_max() <= 20, "{}", tlwl.ahead_max());
    assert!(hash.share_below(5) < 0.95, "{}", hash.share_below(5));
}

/// CHECKLIST A13: servers of 300 and 150 calls/s. TLWL and TJSQ carry 380 without knowing that; round robin gives the
/// slower one 190, and its callers give up.
#[test]
fn a_slow_server_gets_what_it_can_carry_from_tlwl_and_tjsq_and_too_much_from_round_robin() {
    let success = |policy: &str| {
        let mut run = run(policy, &[1.0, 0.5], 380.0);
        (run.model.stalls, run.model.give_up) = (None, secs(4));
        done(&run).success()
    };
    assert!(success("tlwl") > 0.9999 && success("tjsq") > 0.9999);
    assert!(success("round-robin") < 0.99);
}

/// CHECKLIST A8: told the capacities as weights, round robin carries it too.
#[test]
fn told_the_weights_round_robin_spares_the_slow_server() {
    let mut run = run("round-robin", &[1.0, 0.5], 380.0);
    run.model.stalls = None;
    run.servers[0].weight = 2;
    assert!(done(&run).success() > 0.9999);
}

/// CHECKLIST A9, B3: requests outside calls are assigned one by one.
#[test]
fn single_requests_avoid_a_server_that_stands_still_with_tlwl() {
    let mean = |policy: &str| {
        let mut run = run(policy, &[1.0; 4], 100.0);
        run.profile.singles = 200.0;
        let figures = done(&run);
        assert!(figures.singles.answered > 2000, "{figures:?}");
        figures.single_times.mean_ms()
    };
    let (tlwl, round_robin) = (mean("tlwl"), mean("round-robin"));
    assert!(round_robin > 4.0 * tlwl, "{round_robin} {tlwl}");
}

/// CHECKLIST B10: what balancers do not know of each other costs, but less than not looking.
#[test]
fn four_balancers_that_know_nothing_of_each_other_are_worse_than_one_and_better_than_round_robin() {
    let mean = |policy: &str, balancers| {
        let mut run = run(policy, &[1.0; 4], 300.0);
        run.balancers = balancers;
        done(&run).invite_times.mean_ms()
    };
    let (one, four, blind) = (mean("tlwl", 1), mean("tlwl", 4), mean("round-robin", 1));
    assert!(one < four && four < blind, "{one} {four} {blind}");
}

#[test]
fn a_seed_is_a_run() {
    let figures = |seed| {
        let mut run = run("tlwl", &[1.0; 2], 100.0);
        run.seed = seed;
        let figures = simulate(&run).unwrap();
        (figures.answers, figures.repeated)
    };
    let first = figures(7);
    assert_eq!(first, figures(7));
    assert_ne!(first, figures(8));
}

/// CHECKLIST B9: an INVITE costs one BYE, four or ten, and the balancer begins with 1.75. Of a response time nothing is
/// waiting here, and nothing is the wire. The default bound is 4.
#[test]
fn learned_weights_come_near_the_true_ratio_where_nothing_waits_and_stay_within_their_bound() {
    let weight = |cost: f64, bound: u32| {
        let mut run = run("tlwl-learned", &[1.0; 4], 100.0);
        run.model.one_way = Duration::ZERO;
        (run.model.stalls, run.model.costs.invite_to_bye, run.policy.learned_bound) = (None, cost, bound);
        done(&run).invite_to_bye
    };
    let (one, four) = (weight(1.0, 16), weight(4.0, 16));
    assert!((0.8..1.25).contains(&one) && (3.2..5.0).contains(&four), "{one} {four}");
    assert_eq!(weight(10.0, 4), 4.0);
    assert_eq!(done(&run("tlwl", &[1.0; 2], 100.0)).invite_to_bye, 1.75);
}

/// A control experiment: BYEs past the balancer reach their server, are answered, and leave the call counted.
#[test]
fn a_leaking_count_costs_no_call_and_a_count_that_only_grows_is_round_robin() {
    let figures = |policy: &str, leak: f64| {
        let mut run = run(policy, &[1.0; 4], 100.0);
        run.controls.leak = leak;
        let figures = done(&run);
        assert_eq!((figures.invites.failed, figures.byes.failed), (0, 0));
        let calls = figures.servers.iter().map(|server| server.calls);
        (figures.invite_times.mean_ms(), calls.clone().max().unwrap() - calls.min().unwrap())
    };
    let ((sound, _), (leaking, spread)) = (figures("cjsq", 0.0), figures("cjsq", 1.0));
    assert!(leaking > 2.0 * sound && spread <= 60, "{sound} {leaking} {spread}");
}

/// A control experiment: CJSQ sees that a server stands still by the BYEs that it doesn't answer.
#[test]
fn cjsq_does_not_notice_a_stall_if_byes_are_answered_during_it() {
    let mean = |has_instant_byes| {
        let mut run = run("cjsq", &[1.0; 4], 100.0);
        run.controls.has_instant_byes = has_instant_byes;
        done(&run).invite_times.mean_ms()
    };
    let (sees, blind) = (mean(false), mean(true));
    assert!(blind > 2.0 * sees, "{sees} {blind}");
}
