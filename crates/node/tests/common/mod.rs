//! A node for tests: one UDP listener on loopback, the whole Internet trusted where anyone is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tandem_auth::{Challenger, ChallengerConfig, NonceCounts, Users};
use tandem_base::HashKey;
use tandem_node::{Challenge, Config, Domains, Listener, Listeners, Network, Node, Shared};
use tandem_registrar::Locations;
use tandem_sip::Transport;

/// A node that answers for `domains`.
pub(crate) fn node(challenge: Challenge, domains: &[&str]) -> Node {
    let listener = Listener::new(Transport::Udp, "127.0.0.1:5060".parse().unwrap(), None).unwrap();
    let mut config = Config::new(Domains::new(domains).unwrap(), Listeners::new(vec![listener]));
    config.auth.challenge = challenge;
    config.auth.trusted = vec![Network { address: "0.0.0.0".parse().unwrap(), prefix: 0 }];
    let key = HashKey::from_bytes([7; 16]);
    let shared = Shared {
        locations: Arc::new(Locations::new(key, 1000)),
        users: Users::new(&key, 10),
        challenger: Challenger::new(&key, ChallengerConfig::default()),
        nonce_counts: NonceCounts::new(&key, 1024, 0),
    };
    Node::new(Arc::new(config), Arc::new(shared), &key, 1)
}
