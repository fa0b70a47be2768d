//! Broken messages: every datagram may have bits flipped. Nothing panics, nothing is answered twice, nothing stays.

use tandem_node::{Challenge, Durability, Mode};
use tandem_sim::{World, millis, secs, sweep};
use tandem_ua::Answer;

/// One datagram in five has one to nine of its bits flipped, in every direction.
#[test]
fn flipped_bits_never_panic_and_leave_nothing_behind() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        world.without_message_checks();
        let mode = [Mode::Stateful, Mode::Stateless, Mode::Auto][world.rng.index(3)];
        let challenge = [Challenge::Always, Challenge::Never][world.rng.index(2)];
        let proxy = world.node_of("p1", "example.com", 2, |config| {
            config.mode = mode;
            config.auth.challenge = challenge;
            config.durability = Durability::Commit;
            config.proxy.timer_c = secs(20);
            config.proxy.recurse_redirects = true;
        });
        let alice = world.phone("alice", proxy);
        let bobs = [world.phone("bob", proxy), world.phone("bob", proxy)];
        world.register_all(&[alice]);
        world.register_all(&bobs);
        world.set(bobs[1], |settings| settings.answer = Answer::with(486, millis(700)));
        world.network.link.flip = 0.2;
        let mut calls = Vec::new();
        for n in 0..6 {
            world.register(bobs[n % 2]);
            let call = world.call(alice, bobs[n % 2]);
            calls.push(call);
            let pause = millis(world.rng.below(2500));
            world.run_for(pause);
            if n % 3 == 2 {
                world.act(alice, |ua, now, out| ua.cancel(now, call, out));
            }
            let dialogs: Vec<_> = world.ua(alice).live_dialogs().collect();
            for dialog in dialogs {
                world.hang_up(alice, dialog);
            }
        }
        // An answer whose name was broken each time leaves a caller waiting, who gives up.
        world.run_for(secs(60));
        for call in calls {
            world.act(alice, |ua, now, out| ua.cancel(now, call, out));
        }
        world.finish();
    });
}
