//! Registrations: RFC 3665 §2.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tandem_sim::{World, sweep};

/// RFC 3665 §2.1: REGISTER, 401, REGISTER with credentials, 200; loss up to 10 %.
#[test]
fn a_phone_registers_with_digest_over_a_poor_network() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let proxy = world.node("p1", |_| {});
        let alice = world.phone("alice", proxy);
        world.register_all(&[alice]);
        assert_eq!(world.locations(proxy).bindings(), 1);
        world.finish();
    });
}
