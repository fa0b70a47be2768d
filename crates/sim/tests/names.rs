//! Host names: RFC 3263 §4.3 through the resolver's answers, slow, empty or with a dead address first.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tandem_node::{Challenge, Mode, Network};
use tandem_sim::{Link, PhoneId, World, millis, secs, sweep};

fn two_domains(seed: u64, mode: Mode) -> (World, PhoneId, PhoneId) {
    let mut world = World::poor(seed);
    let trusted = Network { address: "10.0.0.0".parse().unwrap(), prefix: 24 };
    let mut node = |domain: &str| {
        world.node_of(domain, domain, 1, |config| {
            config.mode = mode;
            config.auth.trusted = vec![trusted];
            config.auth.challenge = Challenge::Outside;
        })
    };
    let (atlanta, biloxi) = (node("atlanta.example"), node("biloxi.example"));
    let (alice, bob) = (world.phone("alice", atlanta), world.phone("bob", biloxi));
    world.register_all(&[alice, bob]);
    (world, alice, bob)
}

/// The first address of the name is dead: after 64·T1, or at once where ICMP says so, the next one is tried, and the
/// call goes through.
#[test]
fn a_dead_address_is_followed_by_the_next() {
    sweep(0..256, |seed| {
        let (mut world, alice, bob) = two_domains(seed, Mode::Stateful);
        world.icmp = seed.is_multiple_of(2);
        let live = world.dns["biloxi.example"][0];
        world.dns.insert("biloxi.example".to_owned(), vec!["10.0.0.99:5060".parse().unwrap(), live]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(100), |world| world.status(alice, call).is_some()));
        assert_eq!(world.status(alice, call), Some(200));
        let dialog = world.dialog(alice, call).unwrap();
        world.hang_up(alice, dialog).unwrap();
        world.finish();
    });
}

/// The name does not exist, or the resolver takes ten seconds: 5xx, or a call that takes ten seconds longer; a caller
/// who gives up meanwhile is told 487 and the callee's phone stays quiet.
#[test]
fn a_name_without_addresses_is_refused_and_a_slow_one_waited_for() {
    sweep(0..256, |seed| {
        let mode = if seed.is_multiple_of(2) { Mode::Stateful } else { Mode::Auto };
        let (mut world, alice, bob) = two_domains(seed, mode);
        world.dns_delay = secs(10);
        let cancelled = world.call(alice, bob);
        world.run_for(secs(2) + millis(seed));
        world.act(alice, |ua, now, out| ua.cancel(now, cancelled, out));
        assert!(world.run_until(secs(100), |world| world.status(alice, cancelled).is_some()));
        // 407: the challenge was still under way.
        let status = world.status(alice, cancelled);
        assert!(matches!(status, Some(487 | 408 | 407)), "{status:?}");
        world.run_for(secs(20));
        assert!(world.events(bob).count() <= 1, "the cancelled call reached the callee");
        let slow = world.call(alice, bob);
        assert!(world.run_until(secs(100), |world| world.status(alice, slow).is_some()));
        assert_eq!(world.status(alice, slow), Some(200));
        let dialog = world.dialog(alice, slow).unwrap();
        world.hang_up(alice, dialog).unwrap();
        world.dns.remove("biloxi.example");
        let nowhere = world.call(alice, bob);
        assert!(world.run_until(secs(100), |world| world.status(alice, nowhere).is_some()));
        assert!(matches!(world.status(alice, nowhere), Some(500..600)));
        world.finish();
    });
}

/// The network between the two proxies is cut for a while in mid-call: what is sent meanwhile is repeated until it
/// heals, and the call ends on both sides.
#[test]
fn a_partition_between_proxies_heals_without_a_lost_dialog() {
    sweep(0..256, |seed| {
        let (mut world, alice, bob) = two_domains(seed, Mode::Stateful);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call) == Some(200)));
        world.run_for(secs(10));
        let (a, b) = (world.node_address(world.node_id(0)), world.node_address(world.node_id(1)));
        let link = world.network.link;
        for (from, to) in [(a, b), (b, a)] {
            world.network.set(from, to, Link { is_cut: true, ..link });
        }
        let dialog = world.dialog(alice, call).unwrap();
        let bye = world.hang_up(alice, dialog).unwrap();
        let outage = millis(world.rng.below(15_000));
        world.run_for(outage);
        for (from, to) in [(a, b), (b, a)] {
            world.network.set(from, to, link);
        }
        assert!(world.run_until(secs(60), |world| world.status(alice, bye).is_some()));
        assert_eq!(world.status(alice, bye), Some(200));
        assert_eq!(world.ua(bob).live_dialogs().count(), 0);
        world.finish();
    });
}
