//! A balancer in front of four destinations, each a telephone that answers: affinity and load, whatever the network and
//! the crashes do. The checkers look at every datagram, `Affinity` among them.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use tandem_balance::{
    Board, Config as Balance, Destination, HealthSettings, Path, PolicySettings, PoolConfig, PoolSettings,
};
use tandem_sim::{Link, NodeId, PhoneId, World, millis, secs, sweep};
use tandem_sip::{Hop, ListenerId, Method};
use tandem_ua::{Answer, RequestId};

const DESTINATIONS: usize = 4;

/// Calls that balancers gave to a destination since their last start, in all worlds; `--nocapture` shows it.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// A node that is nothing but a balancer, and the telephones behind it: 10.0.1.1 to 10.0.1.4.
fn balanced(
    world: &mut World,
    policy: &'static str,
    change: impl FnOnce(&mut PoolConfig),
) -> (NodeId, Vec<PhoneId>) {
    let destination = |n: usize| {
        let address = std::net::SocketAddr::from(([10, 0, 1, u8::try_from(n + 1).expect("few")], 5060));
        Destination::new(&format!("d{n}"), Hop::udp(ListenerId(0), address))
    };
    // Without probes the world comes to rest.
    let health = HealthSettings { interval: None, ..HealthSettings::default() };
    let policy = PolicySettings { bound_percent: 0, ..PolicySettings::new(policy) };
    let all = (0..DESTINATIONS).map(destination).collect();
    let settings = PoolSettings::new("media", policy, health, all).expect("a sound pool");
    let mut pool = PoolConfig::new(Arc::new(settings), Arc::new(Board::new(16, 1)));
    change(&mut pool);
    let balance = Balance { entries_max: 4096, ..Balance::new(vec![pool]) };
    let node = world.node("lb", |config| {
        config.registrar = None;
        config.balance = Some(Arc::new(balance));
    });
    let phones = (0..DESTINATIONS).map(|n| world.phone(&format!("d{n}"), node)).collect();
    (node, phones)
}

fn answer(world: &mut World) -> Answer {
    Answer {
        ring_after: Some(millis(world.rng.below(800))),
        after: Some(if world.rng.chance(0.9) { millis(world.rng.below(4000)) } else { secs(100) }),
        status: [200, 200, 200, 200, 486, 503, 603][world.rng.index(7)],
        contacts: Vec::new(),
        hang_up_after: world.rng.chance(0.4).then(|| millis(world.rng.below(9000))),
        is_deaf_to_ack: false,
    }
}

/// Calls of two callers with everything that calls do: re-INVITE, INFO, CANCEL, hanging up by either side.
fn talk(world: &mut World, callers: &[PhoneId], calls: &mut Vec<(PhoneId, RequestId)>, steps: usize) {
    for _ in 0..steps {
        let caller = callers[world.rng.index(callers.len())];
        let live: Vec<_> = world.ua(caller).live_dialogs().collect();
        let dialog = live.get(world.rng.index(live.len())).copied();
        match (world.rng.below(8), dialog) {
            (0..3, _) => {
                let call = world.act(caller, |ua, now, out| ua.call(now, "sip:service@example.com", out));
                calls.push((caller, call));
            }
            (3, _) if !calls.is_empty() => {
                let (caller, call) = calls[world.rng.index(calls.len())];
                world.act(caller, |ua, now, out| ua.cancel(now, call, out));
            }
            (4, Some(dialog)) => {
                world.hang_up(caller, dialog);
            }
            (5, Some(dialog)) => {
                world.act(caller, |ua, now, out| ua.request_in(now, dialog, Method::Info, out));
            }
            (6, Some(dialog)) => {
                world.act(caller, |ua, now, out| ua.request_in(now, dialog, Method::Invite, out));
            }
            _ => {}
        }
        let pause = millis(world.rng.below(2500));
        world.run_for(pause);
    }
}

/// Everyone hangs up, all timers end, and nothing is left: no entry, no load, no copy, and the audit agrees.
fn drains(mut world: World, balancer: NodeId, phones: &[PhoneId]) {
    world.network.link = Link::default();
    world.run_for(secs(60));
    for &phone in phones {
        let live: Vec<_> = world.ua(phone).live_dialogs().collect();
        for dialog in live {
            world.hang_up(phone, dialog);
        }
    }
    world.settle();
    let node = &world.shards(balancer)[0];
    let balancer = node.balancer().expect("a balancer");
    assert!(balancer.calls().is_empty(), "{balancer:?}");
    assert_eq!((balancer.copies(), balancer.byes(), balancer.in_progress()), (0, 0, 0));
    let pool = balancer.pool("media").expect("the pool");
    assert!(pool.settings().iter().all(|(slot, _)| pool.own_load(slot).is_idle()));
    assert_eq!((pool.underflows(), balancer.calls().audit_difference()), (0, 0));
    assert_eq!(balancer.counters().tokens_forged, 0);
    let calls = balancer.counters().assigned;
    if CALLS.fetch_add(calls, Relaxed) / 100_000 != (CALLS.load(Relaxed)) / 100_000 {
        println!("{} calls", CALLS.load(Relaxed));
    }
    world.finish();
}

/// CHECKLIST A1. Faults: up to 10 % loss, 5 % duplicates, reordering, busy and failing destinations.
#[test]
fn calls_keep_their_destination_whatever_the_network_does() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let (node, mut phones) = balanced(&mut world, "tlwl", |_| {});
        for &phone in &phones {
            let answer = answer(&mut world);
            world.set(phone, |settings| settings.answer = answer);
        }
        let callers = [world.phone("alice", node), world.phone("carol", node)];
        talk(&mut world, &callers, &mut Vec::new(), 20);
        phones.extend(callers);
        drains(world, node, &phones);
    });
}

/// The balancer dies and starts again with an empty table, in the middle of calls: tokens and branches route them.
/// A destination by hash is chosen alike before and after, so that an INVITE repeated over the crash rings once.
#[test]
fn calls_outlive_a_balancer_that_loses_its_table() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let (node, mut phones) = balanced(&mut world, "rendezvous", |pool| pool.failover.tries_max = 1);
        for &phone in &phones {
            let mut answer = answer(&mut world);
            answer.status = 200;
            world.set(phone, |settings| settings.answer = answer);
        }
        let callers = [world.phone("alice", node), world.phone("carol", node)];
        let mut calls = Vec::new();
        for _ in 0..4 {
            talk(&mut world, &callers, &mut calls, 4);
            world.crash(node);
            let pause = millis(world.rng.below(1500));
            world.run_for(pause);
            world.restart(node);
        }
        phones.extend(callers);
        drains(world, node, &phones);
    });
}

/// A destination is unreachable for some seconds, and comes back with whatever it had: the first requests go on to
/// another one, and what it says late does no harm.
#[test]
fn calls_of_a_destination_that_is_cut_off_go_elsewhere_or_go_on() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let (node, mut phones) = balanced(&mut world, "tlwl", |_| {});
        for &phone in &phones {
            let answer = answer(&mut world);
            world.set(phone, |settings| settings.answer = answer);
        }
        let callers = [world.phone("alice", node), world.phone("carol", node)];
        let mut calls = Vec::new();
        for _ in 0..3 {
            let victim = phones[world.rng.index(DESTINATIONS)];
            let victim = world.phone_address(victim);
            let lb = world.node_address(node);
            let usual = world.network.link;
            let cut = Link { is_cut: true, ..usual };
            let one_way = world.rng.chance(0.3);
            world.network.set(victim, lb, cut);
            if !one_way {
                world.network.set(lb, victim, cut);
            }
            talk(&mut world, &callers, &mut calls, 5);
            world.network.set(victim, lb, usual);
            world.network.set(lb, victim, usual);
            talk(&mut world, &callers, &mut calls, 3);
        }
        phones.extend(callers);
        drains(world, node, &phones);
    });
}

/// CHECKLIST L15: callers are told where to go, and go there.
#[test]
fn redirected_calls_reach_their_destination_past_the_balancer() {
    sweep(0..64, |seed| {
        let mut world = World::poor(seed);
        let (node, mut phones) = balanced(&mut world, "round-robin", |pool| pool.path = Path::Redirect);
        let alice = world.phone("alice", node);
        world.set(alice, |settings| settings.follows_redirects = true);
        let call = world.act(alice, |ua, now, out| ua.call(now, "sip:service@example.com", out));
        assert!(world.run_until(secs(80), |world| world.status(alice, call).is_some()));
        assert_eq!(world.status(alice, call), Some(200));
        phones.push(alice);
        drains(world, node, &phones);
    });
}
