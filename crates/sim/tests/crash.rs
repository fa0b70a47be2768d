//! A node dies and starts again: dialogs go on by the signed Record-Route, bindings by the store.

use tandem_node::{Challenge, Durability, Mode};
use tandem_sim::{World, millis, secs, sweep};
use tandem_sip::Method;
use tandem_ua::{Answer, Event, Wish};

/// RFC 3261 §12.2, §16.4. The node crashes in mid-call and has forgotten everything but its cluster's secret:
/// requests inside the dialog pass all the same, unchallenged, and the callee can be called again.
#[test]
fn a_crash_in_mid_call_costs_neither_the_dialog_nor_the_bindings() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let mode = [Mode::Stateful, Mode::Stateless, Mode::Auto][world.rng.index(3)];
        let proxy = world.node("p1", |config| {
            config.mode = mode;
            config.durability = Durability::Commit;
        });
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call) == Some(200)));
        assert!(world.run_until(secs(40), |world| world.saw(bob, |e| matches!(e, Event::Confirmed { .. }))));
        let pause = millis(world.rng.below(5000));
        world.run_for(pause);
        world.crash(proxy);
        let pause = millis(world.rng.below(3000));
        world.run_for(pause);
        world.restart(proxy);
        let (here, there) =
            (world.dialog(alice, call).unwrap(), world.ua(bob).live_dialogs().next().unwrap());
        for (phone, dialog) in [(alice, here), (bob, there)] {
            let info =
                world.act(phone, |ua, now, out| ua.request_in(now, dialog, Method::Info, out)).unwrap();
            assert!(world.run_until(secs(60), |world| world.status(phone, info).is_some()));
            assert_eq!(world.status(phone, info), Some(200));
        }
        world.hang_up(bob, there).unwrap();
        assert!(world.run_until(secs(60), |world| world.ua(alice).live_dialogs().count() == 0));
        assert_eq!(world.shards(proxy)[0].counters().challenges, 0, "nothing was challenged since the start");
        let again = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, again) == Some(200)));
        let dialog = world.dialog(alice, again).unwrap();
        world.hang_up(alice, dialog).unwrap();
        world.finish();
    });
}

/// The node crashes at any moment between the INVITE and the end of the call; whatever became of the call, both sides
/// agree on it, and nothing stays behind.
#[test]
fn a_crash_at_any_moment_of_a_call_leaves_no_half_call() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let mode = [Mode::Stateful, Mode::Stateless, Mode::Auto][world.rng.index(3)];
        let proxy = world.node("p1", |config| {
            config.mode = mode;
            config.durability = Durability::Commit;
            config.auth.challenge = Challenge::Never;
        });
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.set(bob, |settings| settings.answer = Answer::with(200, millis(400)));
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        let pause = millis(world.rng.below(1200));
        world.run_for(pause);
        world.crash(proxy);
        let pause = millis(world.rng.below(2000));
        world.run_for(pause);
        world.restart(proxy);
        // A caller whose 100 came from the dead process may hear nothing more, and gives up.
        if !world.run_until(secs(60), |world| world.status(alice, call).is_some()) {
            world.act(alice, |ua, now, out| ua.cancel(now, call, out));
        }
        assert!(world.run_until(secs(100), |world| world.status(alice, call).is_some()));
        world.settle();
        let dialog = world.dialog(alice, call);
        if let Some(dialog) = dialog.filter(|_| world.ua(alice).live_dialogs().count() == 1) {
            world.hang_up(alice, dialog).unwrap();
        }
        world.settle();
        world.finish();
    });
}

/// §16.7, §17.1.1. The node dies after its 100, when the caller does not repeat the INVITE any more, and starts again:
/// the callee's responses carry what they need to reach the caller, who gets the answer and, of a 200, the call.
#[test]
fn a_restart_between_the_100_and_the_answer_loses_neither() {
    sweep(0..256, |seed| {
        let mut world = World::new(seed);
        let mode = [Mode::Stateful, Mode::Auto][world.rng.index(2)];
        let proxy = world.node("p1", |config| {
            config.mode = mode;
            config.durability = Durability::Commit;
            config.auth.challenge = Challenge::Always;
        });
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        let expected = [200, 486][world.rng.index(2)];
        world.set(bob, |settings| settings.answer = Answer::with(expected, millis(5000)));
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(4), |world| world.saw(bob, |e| matches!(e, Event::Incoming { .. }))));
        let pause = millis(1000 + world.rng.below(2000));
        world.run_for(pause);
        world.crash(proxy);
        let pause = millis(world.rng.below(1000));
        world.run_for(pause);
        assert_eq!(world.status(alice, call), None);
        world.restart(proxy);
        assert!(world.run_until(secs(40), |world| world.status(alice, call).is_some()), "no answer");
        assert_eq!(world.status(alice, call), Some(expected));
        if let Some(dialog) = world.dialog(alice, call) {
            world.hang_up(alice, dialog).unwrap();
            assert!(world.run_until(secs(10), |world| world.ua(bob).live_dialogs().count() == 0));
        }
        world.settle();
        world.finish();
    });
}

/// The node crashes while it registers twenty phones, at any moment: whoever was told 200 is bound afterwards.
#[test]
fn what_commit_acknowledged_survives_a_crash_at_any_moment() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| config.durability = Durability::Commit);
        world.store(proxy).delay = millis(1 + seed % 40);
        let phones: Vec<_> = (0..20).map(|n| world.phone(&format!("user{n}"), proxy)).collect();
        for _ in 0..2 {
            for &phone in &phones {
                world.register(phone);
                let gap = millis(world.rng.below(8));
                world.run_for(gap);
            }
            let pause = millis(world.rng.below(120));
            world.run_for(pause);
            world.crash(proxy);
            let pause = millis(world.rng.below(1000));
            world.run_for(pause);
            world.restart(proxy);
            world.run_for(secs(40));
        }
        for &phone in phones.iter().take(5) {
            let gone = world.act(phone, |ua, now, out| ua.register(now, Wish::Bind(0), out));
            world.run_until(secs(5), |world| world.status(phone, gone).is_some());
        }
        world.crash(proxy);
        world.restart(proxy);
        world.finish();
    });
}
