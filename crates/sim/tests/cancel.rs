//! CANCEL: RFC 3665 §3.8, RFC 3261 §9, §16.10; and the race it may lose.

use core::time::Duration;

use tandem_node::{Challenge, Mode};
use tandem_sim::{World, millis, secs, sweep};
use tandem_ua::{Answer, Event};

/// One call, cancelled `after` its start; the callee answers after `answer`, if ever.
fn cancelled_call(seed: u64, mode: Mode, answer: Answer, after: Duration) -> Option<u16> {
    let mut world = World::poor(seed);
    let proxy = world.node("p1", |config| {
        config.mode = mode;
        config.auth.challenge = Challenge::Never;
    });
    let (alice, bob) = (world.phone("alice", proxy), world.phone("bob", proxy));
    world.set(bob, |settings| settings.answer = answer);
    world.register_all(&[alice, bob]);
    let call = world.call(alice, bob);
    world.run_for(after);
    world.act(alice, |ua, now, out| ua.cancel(now, call, out));
    assert!(world.run_until(secs(120), |world| world.status(alice, call).is_some()));
    world.settle();
    let status = world.status(alice, call);
    assert_eq!(world.ua(alice).live_dialogs().count(), 0);
    assert_eq!(world.ua(bob).live_dialogs().count(), 0);
    if status == Some(487) {
        assert!(!world.saw(alice, |event| matches!(event, Event::Established { .. })));
    }
    world.finish();
    status
}

fn mode(seed: u64) -> Mode {
    if seed.is_multiple_of(2) { Mode::Stateful } else { Mode::Stateless }
}

#[test]
fn a_call_cancelled_while_it_rings_ends_with_487() {
    sweep(0..256, |seed| {
        let status = cancelled_call(seed, mode(seed), Answer::never(), millis(1500));
        // With every answer of the callee lost for so long, the caller's own timer may come first.
        assert!(matches!(status, Some(487 | 408)), "{status:?}");
    });
}

/// §9.1: a CANCEL waits for a provisional response; here the callee takes a while before it rings.
#[test]
fn a_call_cancelled_before_it_rings_ends_all_the_same() {
    sweep(0..256, |seed| {
        let answer = Answer { ring_after: Some(millis(700)), ..Answer::never() };
        let status = cancelled_call(seed, mode(seed), answer, millis(seed % 50));
        assert!(matches!(status, Some(487 | 408)), "{status:?}");
    });
}

/// The CANCEL leaves within 150 ms before or after the answer: either order ends with no dialog.
#[test]
fn a_cancel_that_races_the_200_leaves_no_dialog() {
    let won = core::sync::atomic::AtomicU64::new(0);
    sweep(0..256, |seed| {
        let status =
            cancelled_call(seed, mode(seed), Answer::with(200, secs(1)), millis(850 + (seed * 37) % 300));
        assert!(matches!(status, Some(487 | 200 | 408)), "{status:?}");
        if status == Some(200) {
            won.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        }
    });
    let won = won.into_inner();
    // Both orders must occur, where all seeds are run.
    if std::env::var_os("TANDEM_SEED").is_none() && std::env::var_os("SEEDS").is_none() {
        assert!((10..246).contains(&won), "{won}");
    }
}
