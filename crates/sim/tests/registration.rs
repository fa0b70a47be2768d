//! Registrations: RFC 3665 §2, RFC 3261 §10.2, §22.2.

use tandem_base::Instant;
use tandem_sim::{World, secs, sweep};
use tandem_sip::{HeaderName, Index, Limits, Message};
use tandem_ua::Wish;

/// RFC 3665 §2.1: REGISTER, 401, REGISTER with credentials, 200; loss up to 10 %.
#[test]
fn a_phone_registers_with_digest_over_a_poor_network() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |_| {});
        let alice = world.phone("alice", proxy);
        world.register_all(&[alice]);
        assert_eq!(world.locations(proxy).bindings(), 1);
        let counters = world.shards(proxy)[0].counters();
        assert!(counters.challenges >= 1 && counters.auth_accepted >= 1);
        world.finish();
    });
}

/// RFC 3261 §22.3, RFC 7616 §3.3: a nonce that ran out is called stale, and the phone goes on without asking anyone.
#[test]
fn a_stale_nonce_costs_one_more_round_and_nothing_else() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |_| {});
        world.set_nonce_lifetime(proxy, secs(120));
        let alice = world.phone("alice", proxy);
        world.set(alice, |settings| settings.keeps_credentials = true);
        world.register_all(&[alice]);
        // Within the lifetime the nonce is good for another count.
        world.run_for(secs(40));
        let accepted = world.shards(proxy)[0].counters().auth_accepted;
        world.register_all(&[alice]);
        assert!(world.shards(proxy)[0].counters().auth_accepted > accepted);
        world.run_for(secs(200));
        let before = world.shards(proxy)[0].counters().auth_stale;
        world.register_all(&[alice]);
        assert!(world.shards(proxy)[0].counters().auth_stale > before);
        assert_eq!(world.locations(proxy).bindings(), 1);
        world.finish();
    });
}

/// RFC 3665 §2.4 and §2.3, RFC 3261 §10.2.2 and §10.2.3: what is bound can be asked for and taken away.
#[test]
fn bindings_are_fetched_refreshed_and_all_taken_away() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |_| {});
        let desk = world.phone("alice", proxy);
        let mobile = world.phone("alice", proxy);
        world.register_all(&[desk, mobile, desk]);
        assert_eq!(world.locations(proxy).bindings(), 2);
        let fetch = world.act(desk, |ua, now, out| ua.register(now, Wish::Fetch, out));
        assert!(world.run_until(secs(64), |world| world.status(desk, fetch).is_some()));
        let mut index = Index::new();
        let answer = world.answer(desk, fetch).unwrap();
        let answer = Message::parse(answer, &mut index, &Limits::default()).unwrap();
        assert_eq!((answer.status(), answer.values(HeaderName::Contact).count()), (200, 2));
        world.run_for(secs(40));
        let unbind = world.act(mobile, |ua, now, out| ua.register(now, Wish::UnbindAll, out));
        assert!(world.run_until(secs(64), |world| world.status(mobile, unbind) == Some(200)));
        assert_eq!(world.locations(proxy).lookup(b"alice@example.com", world.now(), |_| ()), 0);
        // The other phone's binding is gone with its knowledge of it; it takes it away once more.
        let unbind = world.act(desk, |ua, now, out| ua.register(now, Wish::Bind(0), out));
        assert!(world.run_until(secs(64), |world| world.status(desk, unbind) == Some(200)));
        world.finish();
    });
}

/// RFC 3261 §10.3 step 7: a wish below the minimum is refused with the minimum; an ended binding is no target.
#[test]
fn a_binding_ends_when_it_was_granted_to_end() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |_| {});
        let alice = world.phone("alice", proxy);
        let short = world.act(alice, |ua, now, out| ua.register(now, Wish::Bind(5), out));
        assert!(world.run_until(secs(64), |world| world.status(alice, short) == Some(423)));
        let wish = world.act(alice, |ua, now, out| ua.register(now, Wish::Bind(90), out));
        assert!(world.run_until(secs(64), |world| world.status(alice, wish) == Some(200)));
        let live =
            |world: &World, at: Instant| world.locations(proxy).lookup(b"alice@example.com", at, |_| ());
        assert_eq!(live(&world, world.now() + secs(20)), 1);
        assert_eq!(live(&world, world.now() + secs(92)), 0);
        world.finish();
    });
}

/// A wrong password gets no binding, however often its REGISTER is repeated.
#[test]
fn a_wrong_password_binds_nothing() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |_| {});
        let mallory = world.phone("alice", proxy);
        world.set(mallory, |settings| settings.password = "guess".to_owned());
        let request = world.register(mallory);
        assert!(world.run_until(secs(64), |world| world.status(mallory, request).is_some()));
        assert_eq!(world.status(mallory, request), Some(401));
        assert_eq!(world.locations(proxy).bindings(), 0);
        world.finish();
    });
}
