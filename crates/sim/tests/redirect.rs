//! Redirection: RFC 3261 §8.1.3.4, §8.3, §16.7 step 4, RFC 3665 §3.6.

use tandem_node::{Challenge, Mode};
use tandem_sim::{World, millis, secs, sweep};
use tandem_ua::{Answer, Event};

/// The node answers 302 with the contact; the caller calls it straight.
#[test]
fn a_redirecting_node_sends_callers_to_the_contact() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let challenge = [Challenge::Always, Challenge::Never][world.rng.index(2)];
        let proxy = world.node("p1", |config| {
            config.mode = Mode::Redirect;
            config.auth.challenge = challenge;
        });
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.set(alice, |settings| settings.follows_redirects = true);
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call).is_some()));
        assert_eq!(world.status(alice, call), Some(200));
        let dialog = world.dialog(alice, call).unwrap();
        assert_eq!(world.ua(alice).route_len(dialog), Some(0), "the node is out of the path");
        world.run_for(secs(2));
        world.hang_up(alice, dialog).unwrap();
        world.finish();
    });
}

/// The callee forwards her calls by 302; the proxy follows it and the caller hears nothing of it.
#[test]
fn a_302_is_followed_by_the_proxy_where_it_may() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| {
            config.mode = Mode::Stateful;
            config.proxy.recurse_redirects = true;
        });
        let alice = world.phone("alice", proxy);
        let (bob, carol) = (world.phone("bob", proxy), world.phone("carol", proxy));
        let contact = world.ua(carol).settings().contact();
        world.set(bob, |settings| {
            settings.answer = Answer { contacts: vec![contact], ..Answer::with(302, millis(300)) };
        });
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call).is_some()));
        assert_eq!(world.status(alice, call), Some(200));
        assert_eq!(world.ua(carol).live_dialogs().count(), 1);
        let dialog = world.dialog(alice, call).unwrap();
        world.run_for(secs(2));
        world.hang_up(alice, dialog).unwrap();
        world.finish();
    });
}

/// Without recursion the 302 goes back to the caller as it is.
#[test]
fn a_302_goes_upstream_where_the_proxy_does_not_follow() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| config.mode = Mode::Stateful);
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.set(bob, |settings| {
            settings.answer =
                Answer { contacts: vec!["sip:x@192.0.2.1".to_owned()], ..Answer::with(302, millis(300)) };
        });
        world.register_all(&[alice, bob]);
        let call = world.call(alice, bob);
        assert!(world.run_until(secs(60), |world| world.status(alice, call).is_some()));
        assert_eq!(world.status(alice, call), Some(302));
        assert!(!world.saw(alice, |event| matches!(event, Event::Established { .. })));
        world.finish();
    });
}
