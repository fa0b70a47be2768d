//! A seed is a run: the same datagrams at the same moments.

use tandem_node::{Durability, Mode};
use tandem_sim::{World, secs, sweep};

fn digest(seed: u64) -> u64 {
    let mut world = World::poor(seed);
    let proxy = world.node_of("p1", "example.com", 2, |config| {
        config.mode = Mode::Stateful;
        config.durability = Durability::Commit;
    });
    let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
    world.register_all(&[alice, bob]);
    world.call(alice, bob);
    world.run_for(secs(2));
    world.crash(proxy);
    world.restart(proxy);
    world.run_for(secs(60));
    world.digest()
}

#[test]
fn one_seed_gives_one_run_and_two_seeds_two() {
    sweep(0..256, |seed| {
        assert_eq!(digest(seed), digest(seed));
        assert_ne!(digest(seed), digest(seed + 1));
    });
}
