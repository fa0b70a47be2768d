//! Retransmission storms: a network that repeats everything, and a burst of calls on top.

use tandem_node::{Challenge, Mode};
use tandem_sim::{World, millis, secs, sweep};
use tandem_ua::{Answer, Event};

/// Every datagram arrives twice and out of order, and round trips of a second make everyone repeat himself: each phone
/// still rings once per call, and each call is answered once.
#[test]
fn a_storm_of_repetitions_rings_each_phone_once() {
    sweep(0..256, |seed| {
        let mut world = World::new(seed);
        world.network.link.duplicate = 1.0;
        world.network.link.delay = millis(200 + world.rng.below(300));
        world.network.link.jitter = millis(400);
        let proxy = world.node("p1", |config| {
            config.mode = Mode::Stateful;
            config.auth.challenge = Challenge::Never;
        });
        let phones: Vec<_> = (0..6).map(|n| world.phone(&format!("user{n}"), proxy)).collect();
        for &phone in &phones {
            world.set(phone, |settings| settings.answer = Answer::with(200, secs(2)));
        }
        world.register_all(&phones);
        let calls: Vec<_> = (0..3).map(|n| (phones[n], world.call(phones[n], phones[n + 3]))).collect();
        for &(caller, call) in &calls {
            assert!(world.run_until(secs(60), |world| world.status(caller, call).is_some()));
            assert_eq!(world.status(caller, call), Some(200));
        }
        for &callee in phones.iter().skip(3) {
            let rings = world.events(callee).filter(|event| matches!(event, Event::Incoming { .. })).count();
            assert_eq!(rings, 1);
        }
        assert!(world.shards(proxy)[0].counters().retransmissions > 0);
        for &(caller, call) in &calls {
            let dialog = world.dialog(caller, call).unwrap();
            world.hang_up(caller, dialog).unwrap();
        }
        world.finish();
    });
}

/// The table of transactions holds eight: of thirty calls at once the rest get 503 with Retry-After, none is lost, and
/// afterwards a call goes through.
#[test]
fn a_full_table_refuses_newcomers_and_recovers() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| {
            config.mode = Mode::Stateful;
            config.auth.challenge = Challenge::Never;
            config.transaction.servers_max = 8;
        });
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.register_all(&[alice, bob]);
        let calls: Vec<_> = (0..30).map(|_| world.call(alice, bob)).collect();
        for &call in &calls {
            assert!(world.run_until(secs(60), |world| world.status(alice, call).is_some()));
            assert!(matches!(world.status(alice, call), Some(200 | 503)));
        }
        let refused = calls.iter().filter(|&&call| world.status(alice, call) == Some(503)).count();
        assert!(refused >= 10, "{refused}");
        let dialogs: Vec<_> = world.ua(alice).live_dialogs().collect();
        for dialog in dialogs {
            world.hang_up(alice, dialog).unwrap();
            world.run_for(secs(5));
        }
        world.settle();
        // A BYE that was lost until its sender gave up leaves the callee's side, which ends by its own.
        let left: Vec<_> = world.ua(bob).live_dialogs().collect();
        for dialog in left {
            world.hang_up(bob, dialog).unwrap();
            world.run_for(secs(40));
        }
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call) == Some(200)));
        let dialog = world.dialog(alice, call).unwrap();
        world.hang_up(alice, dialog).unwrap();
        world.finish();
    });
}
