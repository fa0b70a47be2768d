//! A store that is slow, full or dead: 503 with Retry-After, and nothing that was acknowledged is lost.

use tandem_node::Durability;
use tandem_sim::{StoreMode, World, millis, secs, sweep};
use tandem_sip::{HeaderName, Index, Limits, Message};
use tandem_ua::Wish;

/// The disk fills up: the REGISTER is answered 503 with Retry-After, never 200. When there is room again it works, and
/// after a crash exactly what was acknowledged is there.
#[test]
fn a_failing_store_is_a_503_and_never_a_200() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| config.durability = Durability::Commit);
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.register_all(&[alice]);
        world.store(proxy).mode = StoreMode::Fails;
        let refused = world.register(bob);
        assert!(world.run_until(secs(60), |world| world.status(bob, refused).is_some()));
        let mut index = Index::new();
        let answer = world.answer(bob, refused).unwrap();
        let answer = Message::parse(answer, &mut index, &Limits::default()).unwrap();
        assert_eq!(answer.status(), 503);
        assert!(answer.number(HeaderName::RetryAfter).unwrap().is_some_and(|secs| secs >= 5));
        world.crash(proxy);
        world.restart(proxy);
        assert_eq!(world.locations(proxy).bindings(), 1, "alice alone is on disk");
        world.store(proxy).mode = StoreMode::Works;
        world.register_all(&[bob]);
        world.crash(proxy);
        world.restart(proxy);
        assert_eq!(world.locations(proxy).bindings(), 2);
        world.finish();
    });
}

/// A batch takes ten seconds: the phone's REGISTER is repeated meanwhile and answered once, when it is on disk.
#[test]
fn a_slow_store_delays_the_200_and_repetitions_ask_it_nothing() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| config.durability = Durability::Commit);
        let alice = world.phone("alice", proxy);
        world.store(proxy).delay = secs(10);
        let start = world.now();
        let request = world.register(alice);
        assert!(world.run_until(secs(60), |world| world.status(alice, request).is_some()));
        assert_eq!(world.status(alice, request), Some(200));
        assert!(world.now() >= start + secs(10));
        assert!(world.shards(proxy)[0].counters().retransmissions > 0);
        assert_eq!(world.shards(proxy)[0].counters().registered, 1);
        world.finish();
    });
}

/// The store hangs and its queue of eight fills: the ninth phone and all after it get 503 at once. Once it works
/// again, the eight are answered or have asked again.
#[test]
fn a_hanging_store_fills_a_bounded_queue() {
    sweep(0..256, |seed| {
        let mut world = World::new(seed);
        let durability = [Durability::Commit, Durability::Async][world.rng.index(2)];
        let proxy = world.node("p1", |config| {
            config.durability = durability;
            config.persist_in_flight_max = 8;
        });
        world.network.link.jitter = millis(5);
        let phones: Vec<_> = (0..20).map(|n| world.phone(&format!("user{n}"), proxy)).collect();
        world.store(proxy).mode = StoreMode::Hangs;
        let requests: Vec<_> = phones.iter().map(|&phone| (phone, world.register(phone))).collect();
        world.run_for(secs(2));
        let refused = requests.iter().filter(|(p, r)| world.status(*p, *r) == Some(503)).count();
        assert_eq!(refused, 12);
        assert_eq!(world.shards(proxy)[0].counters().store_full, 12);
        let granted = requests.iter().filter(|(p, r)| world.status(*p, *r) == Some(200)).count();
        assert_eq!(granted, if durability == Durability::Commit { 0 } else { 8 });
        world.store(proxy).mode = StoreMode::Works;
        world.wake_store(proxy);
        world.run_for(secs(10));
        let granted = requests.iter().filter(|(p, r)| world.status(*p, *r) == Some(200)).count();
        assert_eq!(granted, 8);
        for &phone in &phones {
            let again = world.act(phone, |ua, now, out| ua.register(now, Wish::Bind(600), out));
            assert!(world.run_until(secs(30), |world| world.status(phone, again) == Some(200)));
        }
        world.finish();
    });
}
