//! The cluster's secret is changed while calls are up: what the one before it signed is believed as long as it is named,
//! and nothing new is signed under it.

use std::sync::Arc;

use crate::common::{ALICE, Ask, BOB, Bench, answer, config, header, invite, requests, statuses};
use tandem_base::HashKey;
use tandem_node::{Challenge, Config, Mode, Network, Node};
use tandem_sip::HeaderName;

fn guarded(mode: Mode) -> Config {
    let mut config = config(&["localhost"]);
    config.auth.challenge = Challenge::Outside;
    config.auth.trusted =
        vec![Network { address: BOB.parse::<core::net::SocketAddr>().unwrap().ip(), prefix: 32 }];
    config.mode = mode;
    config
}

/// The same node, started again under `key`: users and bindings stay, everything else is new.
fn restart(bench: &mut Bench, config: Config, key: [u8; 16], previous: Option<[u8; 16]>) {
    let previous = previous.map(HashKey::from_bytes);
    let key = HashKey::from_bytes(key);
    let node = Node::new(Arc::new(config), Arc::clone(&bench.shared), &key, 2);
    bench.node = node.with_previous_key(previous.as_ref());
}

fn bye(route: &str, cseq: u32) -> Ask {
    Ask::new("BYE", "sip:bob@192.0.2.77")
        .to("<sip:bob@localhost>;tag=bob")
        .via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-bye-{cseq}"))
        .with(&format!("Route: {route}\r\n"))
        .cseq(cseq)
}

/// Key 7 is what a bench starts with. A stranger's BYE passes by the cookie alone, so `challenge = "always"` shows whether
/// it was believed.
#[test]
fn a_call_set_up_under_the_previous_secret_goes_on_and_new_routes_are_signed_under_the_one_in_force() {
    for mode in [Mode::Stateless, Mode::Stateful] {
        let always = || Config {
            auth: {
                let mut auth = guarded(mode).auth;
                auth.challenge = Challenge::Always;
                auth
            },
            ..guarded(mode)
        };
        let mut bench = Bench::open(|config| config.mode = mode);
        bench.bind("bob", &["<sip:bob@127.0.0.1:5064>"]);
        let leg = requests(&bench.send(ALICE, &invite().text()))[0].1.clone();
        let old = header(&leg, HeaderName::RecordRoute);

        // It rings over the restart, and its answer goes back.
        let open = || {
            let mut config = guarded(mode);
            config.auth.trusted = vec![Network { address: "0.0.0.0".parse().unwrap(), prefix: 0 }];
            config
        };
        restart(&mut bench, open(), [8; 16], Some([7; 16]));
        let back = bench.send(BOB, &answer(&leg, "200 OK", ""));
        assert_eq!(statuses(&back, ALICE), [200], "{mode:?}");
        // A call of the new time carries the new signature alone.
        let leg = requests(&bench.send(
            ALICE,
            &invite().call_id("call-2").via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK2")).text(),
        ))[0]
            .1
            .clone();
        let new = header(&leg, HeaderName::RecordRoute);

        restart(&mut bench, always(), [8; 16], Some([7; 16]));
        for (call, route) in [("call-1", &old), ("call-2", &new)] {
            let sent = requests(
                &bench.send(
                    ALICE,
                    &bye(route, 2)
                        .call_id(call)
                        .via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-{call}"))
                        .text(),
                ),
            );
            assert_eq!(sent.len(), 1, "{mode:?} {call}");
            assert_eq!(sent[0].0, "192.0.2.77:5060");
        }
        assert_eq!(bench.node.counters().cookies_forged, 0);

        // Once the previous secret is gone, a route of its time is a forged one.
        restart(&mut bench, always(), [8; 16], None);
        let sent = bench.send(ALICE, &bye(&old, 3).text());
        assert_eq!((statuses(&sent, ALICE), requests(&sent).len()), (vec![403], 0), "{mode:?}");
        assert_eq!(bench.node.counters().cookies_forged, 1);
        let sent = requests(&bench.send(ALICE, &bye(&new, 4).call_id("call-2").text()));
        assert_eq!(sent.len(), 1, "{mode:?}");
        let stray = bench.send(BOB, &answer(&leg, "200 OK", ""));
        assert_eq!(statuses(&stray, ALICE), [200], "{mode:?}: the one in force signed it");
    }
}
