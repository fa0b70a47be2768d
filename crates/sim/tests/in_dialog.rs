//! Inside a dialog: RFC 3665 §3.7 (re-INVITE), RFC 3261 §12.2, §13.2.2.4, §14, §15, along Record-Route.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use tandem_node::{Challenge, Mode};
use tandem_sim::{Link, PhoneId, World, secs, sweep};
use tandem_sip::Method;
use tandem_ua::{DialogId, Event, RequestId};

fn established(seed: u64) -> (World, PhoneId, PhoneId, RequestId, DialogId, DialogId) {
    let mut world = World::poor(seed);
    let mode = [Mode::Stateful, Mode::Stateless, Mode::Auto][world.rng.index(3)];
    let proxy = world.node("p1", |config| config.mode = mode);
    let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
    world.register_all(&[alice, bob]);
    let call = world.call(alice, bob);
    assert!(world.run_until(secs(60), |world| world.status(alice, call) == Some(200)));
    assert!(world.run_until(secs(40), |world| world.saw(bob, |e| matches!(e, Event::Confirmed { .. }))));
    let here = world.dialog(alice, call).unwrap();
    let there = world.ua(bob).live_dialogs().next().unwrap();
    assert_eq!(world.ua(alice).route_len(here), Some(1));
    assert_eq!(world.ua(bob).route_len(there), Some(1));
    (world, alice, bob, call, here, there)
}

/// Both sides renegotiate, ask and are answered through the proxy without being challenged; the callee hangs up.
#[test]
fn both_sides_reinvite_and_the_callee_hangs_up() {
    sweep(0..256, |seed| {
        let (mut world, alice, bob, _, here, there) = established(seed);
        let challenges = world.shards(world.node_id(0))[0].counters().challenges;
        for (phone, dialog) in [(alice, here), (bob, there), (bob, there), (alice, here)] {
            let invite = world
                .act(phone, |ua, now, out| ua.request_in(now, dialog, Method::Invite, out))
                .expect("the dialog lives");
            assert!(world.run_until(secs(60), |world| world.status(phone, invite).is_some()));
            assert_eq!(world.status(phone, invite), Some(200));
            world.run_for(secs(33));
            let info = world
                .act(phone, |ua, now, out| ua.request_in(now, dialog, Method::Info, out))
                .expect("the dialog lives");
            assert!(world.run_until(secs(60), |world| world.status(phone, info).is_some()));
            assert_eq!(world.status(phone, info), Some(200));
        }
        let bye = world.hang_up(bob, there).unwrap();
        assert!(world.run_until(secs(40), |world| world.status(bob, bye) == Some(200)));
        assert_eq!(world.ua(alice).live_dialogs().count(), 0);
        assert_eq!(world.shards(world.node_id(0))[0].counters().challenges, challenges);
        world.finish();
    });
}

/// Both re-INVITE at once: 491 for each (§14.2), and the dialog stays as it was.
#[test]
fn re_invites_that_meet_are_refused_and_the_call_goes_on() {
    sweep(0..256, |seed| {
        let (mut world, alice, bob, _, here, there) = established(seed);
        let reinvite = |world: &mut World, phone, dialog| {
            world.act(phone, |ua, now, out| ua.request_in(now, dialog, Method::Invite, out)).unwrap()
        };
        let (first, second) = (reinvite(&mut world, alice, here), reinvite(&mut world, bob, there));
        assert!(world.run_until(secs(60), |world| {
            world.status(alice, first).is_some() && world.status(bob, second).is_some()
        }));
        assert!(matches!(world.status(alice, first), Some(491 | 200)));
        assert!(matches!(world.status(bob, second), Some(491 | 200)));
        world.run_for(secs(33));
        world.hang_up(alice, here).unwrap();
        world.finish();
    });
}

/// §13.3.1.4, §13.2.2.4: ACKs are lost for five seconds; each repeated 2xx brings the ACK again, and the call stays.
#[test]
fn a_lost_ack_is_sent_again_for_each_repeated_2xx() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let mode = [Mode::Stateful, Mode::Stateless][world.rng.index(2)];
        let proxy = world.node("p1", |config| {
            config.mode = mode;
            config.auth.challenge = Challenge::Never;
        });
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call) == Some(200)));
        let (from, to) = (world.phone_address(alice), world.node_address(proxy));
        let link = world.network.link;
        world.network.set(from, to, Link { is_cut: true, ..link });
        world.run_for(secs(5));
        world.network.set(from, to, link);
        assert!(world.run_until(secs(30), |world| world.saw(bob, |e| matches!(e, Event::Confirmed { .. }))));
        assert!(!world.saw(bob, |event| matches!(event, Event::Unacknowledged { .. })));
        world.run_for(secs(40));
        let dialog = world.dialog(alice, call).unwrap();
        world.hang_up(alice, dialog).unwrap();
        world.finish();
    });
}

/// The callee never hears an ACK: after 64·T1 it hangs up, and both sides know.
#[test]
fn a_callee_without_ack_hangs_up_after_64_t1() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |_| {});
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.set(bob, |settings| settings.answer.is_deaf_to_ack = true);
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call) == Some(200)));
        world.settle();
        assert!(world.saw(bob, |event| matches!(event, Event::Unacknowledged { .. })));
        assert!(world.saw(alice, |event| matches!(event, Event::Ended { by_peer: true, .. })));
        world.finish();
    });
}
