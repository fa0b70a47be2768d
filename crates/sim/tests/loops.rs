//! Loops and hops: RFC 3261 §16.3 steps 3 and 4, RFC 5393.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tandem_base::Instant;
use tandem_node::{Challenge, Mode, Network};
use tandem_registrar::{Binding, Change, RecordBuilder};
use tandem_sim::{NodeId, World, secs, sweep};

fn bind(world: &World, node: NodeId, aor: &str, contacts: &[&str]) {
    let mut builder = RecordBuilder::new(aor.as_bytes());
    for contact in contacts {
        builder.push(Binding {
            contact: contact.as_bytes(),
            q: 1000,
            expires_at: Instant::from_secs(100_000),
            updated_at: Instant::ZERO,
            call_id: b"c",
            cseq: 1,
            path: b"",
            received: None,
            instance: b"",
            reg_id: 0,
            user_agent: b"",
        });
    }
    let record = builder.finish().unwrap();
    world.locations(node).update(aor.as_bytes(), |_| Change::Put(record.clone())).unwrap();
}

/// RFC 5393 §3: two addresses-of-record bound to each other, twice each. Without loop detection and Max-Breadth the
/// fork would grow to 2^70 branches; here the datagrams of the whole run are few, and the caller hears 482 or 440.
#[test]
fn bindings_that_name_each_other_do_not_explode() {
    sweep(0..256, |seed| {
        let mut world = World::new(seed);
        let mode = [Mode::Stateful, Mode::Auto][world.rng.index(2)];
        let trusted = Network { address: "10.0.0.0".parse().unwrap(), prefix: 24 };
        let proxy = world.node("p1", |config| {
            config.mode = mode;
            config.auth.challenge = Challenge::Never;
            config.auth.trusted = vec![trusted];
        });
        let alice = world.phone("alice", proxy);
        bind(&world, proxy, "a@example.com", &["sip:a@10.0.0.1;x=1", "sip:b@10.0.0.1;x=1"]);
        bind(&world, proxy, "b@example.com", &["sip:a@10.0.0.1;x=2", "sip:b@10.0.0.1;x=2"]);
        let call = world.act(alice, |ua, now, out| ua.call(now, "sip:a@example.com", out));
        assert!(world.run_until(secs(300), |world| world.status(alice, call).is_some()));
        assert!(
            matches!(world.status(alice, call), Some(482 | 440 | 483)),
            "{:?}",
            world.status(alice, call)
        );
        let sent = world.shards(proxy)[0].proxy().counters().forwarded_stateful;
        assert!(sent <= 60, "{sent} branches");
        world.finish();
    });
}

/// §16.3 step 3: a request with one hop left crosses one proxy and not two.
#[test]
fn a_request_without_hops_left_is_a_483() {
    sweep(0..256, |seed| {
        let mut world = World::poor(seed);
        let mode = [Mode::Stateful, Mode::Stateless][world.rng.index(2)];
        let trusted = Network { address: "10.0.0.0".parse().unwrap(), prefix: 24 };
        let mut node = |domain: &str| {
            world.node_of(domain, domain, 1, |config| {
                config.mode = mode;
                config.auth.trusted = vec![trusted];
            })
        };
        let (atlanta, biloxi) = (node("atlanta.example"), node("biloxi.example"));
        let (alice, bob) = (world.phone("alice", atlanta), world.phone("bob", biloxi));
        world.register_all(&[alice, bob]);
        for (hops, expected) in [(0, 483), (1, 483), (2, 200)] {
            world.set(alice, |settings| settings.max_forwards = hops);
            let call = world.call(alice, bob);
            assert!(world.run_until(secs(60), |world| world.status(alice, call).is_some()));
            assert_eq!(world.status(alice, call), Some(expected));
            if let Some(dialog) = world.dialog(alice, call) {
                world.set(alice, |settings| settings.max_forwards = 70);
                world.hang_up(alice, dialog).unwrap();
            }
        }
        world.finish();
    });
}
