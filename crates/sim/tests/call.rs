//! Calls: RFC 3665 §3.1 to §3.3, through one proxy and through two.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use tandem_node::{Challenge, Mode, Network};
use tandem_sim::{PhoneId, World, millis, secs, sweep};
use tandem_ua::{Answer, Event};

/// Calls, waits until both sides know, talks, and hangs up.
fn talk(world: &mut World, caller: PhoneId, callee: PhoneId, by_callee: bool) {
    let call = world.call(caller, callee);
    assert!(world.run_until(secs(40), |world| world.status(caller, call).is_some()), "no answer");
    assert_eq!(world.status(caller, call), Some(200));
    let dialog = world.dialog(caller, call).unwrap();
    let confirmed = |event: &Event| matches!(event, Event::Confirmed { .. });
    assert!(world.run_until(secs(40), |world| world.saw(callee, confirmed)), "no ACK");
    world.run_for(secs(3));
    if by_callee {
        let dialog = world.ua(callee).live_dialogs().next().unwrap();
        world.hang_up(callee, dialog).unwrap();
        assert!(world.run_until(secs(40), |world| world.ua(caller).live_dialogs().count() == 0));
    } else {
        let bye = world.hang_up(caller, dialog).unwrap();
        assert!(world.run_until(secs(40), |world| world.status(caller, bye).is_some()));
        assert_eq!(world.status(caller, bye), Some(200));
    }
}

fn call_through_one(mode: Mode, challenge: Challenge) {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| {
            config.mode = mode;
            config.auth.challenge = challenge;
        });
        let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
        world.register_all(&[alice, bob]);
        talk(&mut world, alice, bob, seed % 2 == 1);
        let proxied = world.shards(proxy)[0].proxy().counters();
        if mode == Mode::Stateful || challenge == Challenge::Always {
            assert!(proxied.forwarded_stateful > 0);
        } else {
            assert!(proxied.forwarded_stateful == 0 && proxied.forwarded_stateless > 0);
        }
        world.finish();
    });
}

/// RFC 3665 §3.2: INVITE, 407, INVITE with credentials.
#[test]
fn a_call_goes_through_one_stateful_proxy() {
    call_through_one(Mode::Stateful, Challenge::Always);
}

#[test]
fn a_call_goes_through_one_stateless_proxy() {
    call_through_one(Mode::Stateless, Challenge::Never);
}

#[test]
fn a_call_to_one_contact_needs_no_state_in_auto_mode() {
    call_through_one(Mode::Auto, Challenge::Never);
}

/// The repetition of a request whose nonce count is used up is no new request, in any mode.
#[test]
fn a_repeated_invite_with_credentials_rings_once() {
    call_through_one(Mode::Stateless, Challenge::Always);
}

/// RFC 3665 §3.1: each side has its own proxy; the second is found by DNS (RFC 3263) and trusts the first.
#[test]
fn a_call_goes_through_two_proxies_in_series() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let modes = [Mode::Stateful, Mode::Stateless, Mode::Auto];
        let (first, second) = (modes[world.rng.index(3)], modes[world.rng.index(3)]);
        let trusted = Network { address: "10.0.0.0".parse().unwrap(), prefix: 24 };
        let atlanta = world.node_of("atlanta", "atlanta.example", 1, |config| {
            config.mode = first;
            config.auth.trusted = vec![trusted];
        });
        let biloxi = world.node_of("biloxi", "biloxi.example", 1, |config| {
            config.mode = second;
            config.auth.trusted = vec![trusted];
        });
        let (alice, bob) = (world.phone("alice", atlanta), world.phone("bob", biloxi));
        world.register_all(&[alice, bob]);
        talk(&mut world, alice, bob, seed % 2 == 1);
        let dialog = world.events(alice).find_map(|event| {
            let Event::Ended { dialog, .. } = event else { return None };
            Some(*dialog)
        });
        if let Some(routes) = dialog.and_then(|dialog| world.ua(alice).route_len(dialog)) {
            assert_eq!(routes, 2, "both proxies stay on the dialog's path");
        }
        world.finish();
    });
}

/// Ten calls at once in both directions do not get into each other's way.
#[test]
fn calls_at_the_same_time_stay_apart() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |config| {
            config.mode = Mode::Stateful;
            config.auth.challenge = Challenge::Never;
        });
        let phones: Vec<PhoneId> = (0..4).map(|n| world.phone(&format!("user{n}"), proxy)).collect();
        for &phone in &phones {
            world.set(phone, |settings| settings.answer = Answer::with(200, millis(300)));
        }
        world.register_all(&phones);
        let mut calls = Vec::new();
        for n in 0..10 {
            let (caller, callee) = (phones[n % 4], phones[(n + 1 + n / 4) % 4]);
            if caller != callee {
                calls.push((caller, world.call(caller, callee)));
            }
            let gap = millis(world.rng.below(200));
            world.run_for(gap);
        }
        for (caller, call) in calls {
            assert!(world.run_until(secs(60), |world| world.status(caller, call).is_some()));
            assert_eq!(world.status(caller, call), Some(200));
            let dialog = world.dialog(caller, call).unwrap();
            world.hang_up(caller, dialog).unwrap();
        }
        world.finish();
    });
}
