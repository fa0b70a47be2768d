//! Two shards answer as one does: a call lives in the shard that owns its Call-ID, and all see the same bindings.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use tandem_node::Mode;
use tandem_sim::{World, millis, secs, sweep};
use tandem_ua::{Answer, Event};

/// The events at each phone, without their times and tags.
fn run(seed: u64, shards: usize) -> Vec<Vec<String>> {
    // No loss: the two runs must meet the same network.
    let mut world = World::new(seed);
    let mode = [Mode::Stateful, Mode::Stateless, Mode::Auto][world.rng.index(3)];
    let proxy = world.node_of("p1", "example.com", shards, |config| config.mode = mode);
    let phones: Vec<_> = (0..4).map(|n| world.phone(&format!("user{n}"), proxy)).collect();
    let busy = world.rng.index(4);
    for (n, &phone) in phones.iter().enumerate() {
        world.set(phone, |settings| {
            settings.answer = Answer::with(if n == busy { 486 } else { 200 }, millis(500));
        });
    }
    world.register_all(&phones);
    for n in 0..8 {
        let (caller, callee) = (phones[n % 4], phones[(n + 1 + n / 4) % 4]);
        if caller == callee {
            continue;
        }
        let call = world.call(caller, callee);
        if n == 5 {
            world.run_for(millis(200));
            world.act(caller, |ua, now, out| ua.cancel(now, call, out));
        }
        assert!(world.run_until(secs(60), |world| world.status(caller, call).is_some()));
        world.run_for(secs(1));
        if let Some(dialog) = world.dialog(caller, call) {
            world.hang_up(caller, dialog).unwrap();
        }
        world.run_for(secs(1));
    }
    if shards > 1 {
        let busy = world.shards(proxy).iter().filter(|shard| shard.counters().challenges > 0).count();
        assert!(busy > 1, "one shard did all the work");
    }
    let seen = phones
        .iter()
        .map(|&phone| {
            let brief = |event: &Event| {
                if let Event::Answered { request, status, .. } = event {
                    return format!("{request:?} {status}");
                }
                // The name of the event; what follows it holds random names.
                format!("{event:?}").split(' ').next().unwrap_or_default().to_owned()
            };
            world.events(phone).map(brief).collect()
        })
        .collect();
    world.finish();
    seen
}

#[test]
fn two_shards_do_what_one_does() {
    sweep(0..256, |seed| assert_eq!(run(seed, 1), run(seed, 2)));
}

/// Over a poor network, with four shards: every checker holds.
#[test]
fn calls_complete_over_four_shards() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node_of("p1", "example.com", 4, |config| config.mode = Mode::Stateful);
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.register_all(&[alice, bob]);
        for _ in 0..3 {
            let call = world.call(alice, bob);
            assert!(world.run_until(secs(60), |world| world.status(alice, call) == Some(200)));
            let dialog = world.dialog(alice, call).unwrap();
            world.hang_up(alice, dialog).unwrap();
            world.run_for(secs(1));
        }
        world.finish();
    });
}
