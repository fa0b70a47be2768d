//! Calls that fail: RFC 3665 §3.8 (busy), §3.9 to §3.11, RFC 3261 §16.7, §16.8.

use tandem_node::{Challenge, Mode};
use tandem_sim::{World, millis, secs, sweep};
use tandem_ua::{Answer, Event};

/// RFC 3665 §3.10: the callee is busy. RFC 3261 §17.1.1.2, §17.2.1: the 486 is repeated until its ACK gets through.
#[test]
fn a_busy_callee_is_told_once_however_many_acks_are_lost() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let mode = [Mode::Stateful, Mode::Stateless][world.rng.index(2)];
        let proxy = world.node("p1", |config| config.mode = mode);
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.set(bob, |settings| settings.answer = Answer::with(486, millis(200)));
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(40), |w| w.saw(bob, |e| matches!(e, Event::Incoming { .. }))));
        // From now on a third of all datagrams from the phones are lost, ACKs among them.
        for phone in [alice, bob] {
            let link = tandem_sim::Link { loss: 0.33, ..world.network.link };
            world.network.set(world.phone_address(phone), world.node_address(proxy), link);
        }
        assert!(world.run_until(secs(80), |world| world.status(alice, call).is_some()));
        assert_eq!(world.status(alice, call), Some(486));
        assert!(!world.saw(alice, |event| matches!(event, Event::Established { .. })));
        world.finish();
    });
}

/// The callee never rings, never answers: every INVITE is lost. 64·T1 = 32 s later the caller is told 408.
#[test]
fn a_silent_callee_is_a_408() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let mode = [Mode::Stateful, Mode::Stateless][world.rng.index(2)];
        let proxy = world.node("p1", |config| config.mode = mode);
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.register_all(&[alice, bob]);
        let cut = tandem_sim::Link { is_cut: true, ..world.network.link };
        world.network.set(world.node_address(proxy), world.phone_address(bob), cut);
        let start = world.now();
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(80), |world| world.status(alice, call).is_some()));
        assert_eq!(world.status(alice, call), Some(408));
        assert!(world.now() >= start + secs(32));
        assert!(!world.saw(bob, |event| matches!(event, Event::Incoming { .. })));
        world.finish();
    });
}

/// RFC 3261 §16.8: the callee rings for longer than timer C; the proxy cancels and the caller gets the callee's 487.
#[test]
fn a_call_that_rings_past_timer_c_is_cancelled() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| {
            config.mode = Mode::Stateful;
            config.proxy.timer_c = secs(5);
        });
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.set(bob, |settings| settings.answer = Answer::never());
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call).is_some()));
        assert!(matches!(world.status(alice, call), Some(487 | 408)), "{:?}", world.status(alice, call));
        assert!(world.run_until(secs(40), |world| world.saw(bob, |e| matches!(e, Event::Cancelled { .. }))));
        world.finish();
    });
}

/// Nobody is registered: 480 for a user that exists, 404 for one that does not, once and the same for repetitions.
#[test]
fn a_call_to_nobody_is_refused_at_once_and_once() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let challenge = [Challenge::Always, Challenge::Never][world.rng.index(2)];
        let proxy = world.node("p1", |config| config.auth.challenge = challenge);
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.register_all(&[alice]);
        let offline = world.call(alice, bob);
        assert!(world.run_until(secs(40), |world| world.status(alice, offline).is_some()));
        assert_eq!(world.status(alice, offline), Some(480));
        let nobody = world.act(alice, |ua, now, out| ua.call(now, "sip:nobody@example.com", out));
        assert!(world.run_until(secs(40), |world| world.status(alice, nobody).is_some()));
        let expected = if challenge == Challenge::Always { 404 } else { 480 };
        assert_eq!(world.status(alice, nobody), Some(expected));
        world.finish();
    });
}
