//! Forking: RFC 3261 §16.6, §16.7; best response, 6xx, serial search by q, late 2xx.

use tandem_node::{Challenge, Mode};
use tandem_proxy::Fork;
use tandem_sim::{PhoneId, World, millis, secs, sweep};
use tandem_ua::{Answer, Event};

/// A caller, and the phones of one address-of-record, registered in this order.
fn forked(world: &mut World, fork: Fork, answers: &[(&str, Answer)]) -> (PhoneId, Vec<PhoneId>) {
    let proxy = world.node("p1", |config| {
        config.mode = Mode::Auto;
        config.auth.challenge = Challenge::Never;
        config.proxy.fork = fork;
    });
    let alice = world.phone("alice", proxy);
    let mut bobs = Vec::new();
    for (q, answer) in answers {
        let bob = world.phone("bob", proxy);
        world.set(bob, |settings| {
            settings.answer = answer.clone();
            settings.q = (*q).to_owned();
        });
        bobs.push(bob);
    }
    world.register_all(&[alice]);
    world.register_all(&bobs);
    (alice, bobs)
}

fn call(world: &mut World, alice: PhoneId, bob: PhoneId) -> Option<u16> {
    let call = world.call(alice, bob);
    assert!(world.run_until(secs(200), |world| world.status(alice, call).is_some()));
    world.status(alice, call)
}

fn was_cancelled(world: &World, phone: PhoneId) -> bool {
    world.saw(phone, |event| matches!(event, Event::Cancelled { .. }))
}

fn rang(world: &World, phone: PhoneId) -> bool {
    world.saw(phone, |event| matches!(event, Event::Incoming { .. }))
}

fn answer_after(ms: u64, status: u16) -> Answer {
    Answer::with(status, millis(ms))
}

/// One of three answers; the two others, which would ring for ever, are cancelled (§16.7 step 10).
#[test]
fn one_of_three_forks_answers_and_the_others_are_cancelled() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let (alice, bobs) = forked(
            &mut world,
            Fork::Parallel,
            &[("", Answer::never()), ("", answer_after(1500, 200)), ("", Answer::never())],
        );
        assert_eq!(call(&mut world, alice, bobs[0]), Some(200));
        world.settle();
        for bob in [bobs[0], bobs[2]] {
            assert!(!rang(&world, bob) || was_cancelled(&world, bob));
        }
        assert_eq!(world.ua(alice).live_dialogs().count(), 1);
        assert_eq!(world.ua(bobs[1]).live_dialogs().count(), 1);
        let dialog = world.ua(alice).live_dialogs().next().unwrap();
        world.hang_up(alice, dialog).unwrap();
        world.finish();
    });
}

/// All three pick up within 40 ms of each other: the caller keeps one and hangs up the rest (§13.2.2.4).
#[test]
fn three_answers_at_once_leave_one_call() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let times: Vec<u64> = (0..3).map(|_| 1000 + world.rng.below(40)).collect();
        let answers: Vec<(&str, Answer)> = times.iter().map(|&ms| ("", answer_after(ms, 200))).collect();
        let (alice, bobs) = forked(&mut world, Fork::Parallel, &answers);
        assert_eq!(call(&mut world, alice, bobs[0]), Some(200));
        world.settle();
        assert_eq!(world.ua(alice).live_dialogs().count(), 1);
        let live: usize = bobs.iter().map(|&bob| world.ua(bob).live_dialogs().count()).sum();
        assert_eq!(live, 1);
        world.finish();
    });
}

/// §16.7 step 5: a 6xx ends the search, though another phone still rings.
#[test]
fn a_603_is_decisive() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let (alice, bobs) = forked(
            &mut world,
            Fork::Parallel,
            &[("", Answer::never()), ("", answer_after(500, 603)), ("", answer_after(300, 486))],
        );
        assert_eq!(call(&mut world, alice, bobs[0]), Some(603));
        world.settle();
        assert!(!rang(&world, bobs[0]) || was_cancelled(&world, bobs[0]));
        world.finish();
    });
}

/// §16.7 step 6: of 404, 486 and 500 a 4xx is the best; a 401 beats them.
#[test]
fn the_best_of_several_failures_goes_upstream() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let mut statuses = [500, 486, 503];
        world.rng.shuffle(&mut statuses);
        let answers: Vec<(&str, Answer)> = statuses
            .iter()
            .map(|&status| ("", answer_after(100 + 7 * u64::from(status % 9), status)))
            .collect();
        let (alice, bobs) = forked(&mut world, Fork::Parallel, &answers);
        assert_eq!(call(&mut world, alice, bobs[0]), Some(486));
        world.finish();
    });
}

/// §16.6: targets are tried one after the other by falling q until one answers.
#[test]
fn a_serial_fork_follows_q() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let (alice, bobs) = forked(
            &mut world,
            Fork::Serial,
            &[
                ("0.1", answer_after(300, 200)),
                ("0.9", answer_after(300, 486)),
                ("0.5", answer_after(300, 200)),
            ],
        );
        assert_eq!(call(&mut world, alice, bobs[0]), Some(200));
        world.settle();
        assert!(rang(&world, bobs[1]) && rang(&world, bobs[2]) && !rang(&world, bobs[0]));
        assert_eq!(world.ua(bobs[2]).live_dialogs().count(), 1);
        world.finish();
    });
}

/// Groups of equal q ring together, the next group only when all of the first have failed.
#[test]
fn a_second_group_rings_when_the_first_has_failed() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let (alice, bobs) = forked(
            &mut world,
            Fork::Parallel,
            &[
                ("0.9", answer_after(300, 486)),
                ("0.9", answer_after(800, 480)),
                ("0.2", answer_after(300, 200)),
            ],
        );
        assert_eq!(call(&mut world, alice, bobs[0]), Some(200));
        assert!(rang(&world, bobs[0]) && rang(&world, bobs[1]) && rang(&world, bobs[2]));
        world.finish();
    });
}

/// §16.7 step 5: the second fork's 2xx comes while its CANCEL is lost or under way. It still reaches the caller, who
/// acknowledges it and hangs up; here the CANCELs to the second phone are lost for ten seconds.
#[test]
fn a_late_2xx_of_another_fork_reaches_the_caller_who_ends_it() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let (alice, bobs) = forked(
            &mut world,
            Fork::Parallel,
            &[("", answer_after(1000, 200)), ("", answer_after(2500, 200))],
        );
        let (proxy, late) = (world.node_id(0), bobs[1]);
        let request = world.call(alice, bobs[0]);
        // Both ring before the first answers, or the seed shows nothing.
        world.run_until(secs(1), |world| rang(world, late));
        let cut = tandem_sim::Link { is_cut: true, ..world.network.link };
        world.network.set(world.node_address(proxy), world.phone_address(late), cut);
        assert!(world.run_until(secs(200), |world| world.status(alice, request).is_some()));
        assert_eq!(world.status(alice, request), Some(200));
        world.run_for(secs(10));
        let link = world.network.link;
        world.network.set(world.node_address(proxy), world.phone_address(late), link);
        world.settle();
        if rang(&world, late) {
            let is_surplus = world.saw(alice, |event| matches!(event, Event::Surplus { .. }));
            assert!(is_surplus || was_cancelled(&world, late), "the late 2xx was lost");
        }
        let live: usize = bobs.iter().map(|&bob| world.ua(bob).live_dialogs().count()).sum();
        assert_eq!((live, world.ua(alice).live_dialogs().count()), (1, 1));
        world.finish();
    });
}

/// The caller gives up while three phones ring: all of them stop, and the caller hears one 487.
#[test]
fn a_cancelled_fork_stops_every_phone() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let never = || ("", Answer::never());
        let (alice, bobs) = forked(&mut world, Fork::Parallel, &[never(), never(), never()]);
        let call = world.call(alice, bobs[0]);
        world.run_for(secs(3));
        world.act(alice, |ua, now, out| ua.cancel(now, call, out));
        assert!(world.run_until(secs(100), |world| world.status(alice, call).is_some()));
        assert!(matches!(world.status(alice, call), Some(487 | 408)));
        world.settle();
        for bob in bobs {
            assert!(!rang(&world, bob) || was_cancelled(&world, bob));
        }
        world.finish();
    });
}
