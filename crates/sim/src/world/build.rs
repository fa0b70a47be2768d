//! Who is in the world: nodes, telephones and strangers, each at an address of its own.

use core::net::SocketAddr;

use tandem_auth::Ha1;
use tandem_base::HashKey;
use tandem_node::{Config, Domains, Listener, Listeners};
use tandem_sip::Transport;
use tandem_ua::{Settings, Ua};

use super::{Actor, DOMAIN, World};
use crate::host::{NodeHost, NodeId, Phone, PhoneId};

impl World {
    /// Adds a node for [`DOMAIN`], changed by `change`, and starts it.
    pub fn node(&mut self, name: &str, change: impl FnOnce(&mut Config)) -> NodeId {
        self.node_of(name, DOMAIN, 1, change)
    }

    /// Adds a node for `domain` with so many shards, changed by `change`, and starts it.
    ///
    /// All nodes of a domain have the same secret, as a cluster has.
    ///
    /// # Panics
    ///
    /// On a domain that is none.
    pub fn node_of(
        &mut self,
        name: &str,
        domain: &str,
        shards: usize,
        change: impl FnOnce(&mut Config),
    ) -> NodeId {
        let number = self.nodes.len();
        let address = host_address(0, number);
        let listener = Listener::new(Transport::Udp, address, None).expect("an address is a listener");
        let domains = Domains::new(&[domain]).expect("one domain");
        let mut config = Config::new(domains, Listeners::new(vec![listener]));
        // Small tables: a thousand worlds are made, and none needs more.
        config.transaction.servers_max = 4096;
        config.transaction.clients_max = 4096;
        config.proxy.contexts_max = 4096;
        config.auth.guesses.failures_max = 64;
        config.auth.guesses.successes_max = 64;
        config.persist_in_flight_max = 64;
        change(&mut config);
        let key = HashKey::from_bytes([7; 16]).derive(domain.as_bytes());
        let mut host = NodeHost::new(name, address, config, shards, key);
        host.start(self.now, self.rng.next_u64());
        self.nodes.push(host);
        for shard in 0..shards {
            self.addresses.insert(address, Actor::Shard(number, shard));
        }
        self.dns.entry(domain.to_owned()).or_default().push(address);
        NodeId(number)
    }

    /// Adds a telephone of `user` behind a node, in its domain, known to it by its password.
    pub fn phone(&mut self, user: &str, node: NodeId) -> PhoneId {
        let domain = self
            .nodes
            .get(node.0)
            .map(|node| String::from_utf8_lossy(node.config.domains.first()).into_owned())
            .unwrap_or_default();
        let number = self.phones.len();
        let address = host_address(1, number);
        let settings = Settings::new(user, &domain, address, self.node_address(node));
        if let Some(node) = self.nodes.get_mut(node.0) {
            let (name, password) = (settings.user.as_bytes(), settings.password.as_bytes());
            let ha1 = Ha1::from_password(name, domain.as_bytes(), password);
            let aor = format!("{user}@{domain}");
            node.shared.users.insert(aor.as_bytes(), ha1);
            node.users.push((aor, ha1));
        }
        let ua = Ua::new(settings, self.rng.next_u64());
        let name = format!("{user}-{number}");
        self.phones.push(Phone { name, address, ua, log: Vec::new(), wake: None });
        self.addresses.insert(address, Actor::Phone(number));
        PhoneId(number)
    }

    /// An address from which the scenario sends what it likes; what arrives there is kept.
    pub fn stranger(&mut self) -> SocketAddr {
        let address = host_address(2, self.strangers.len());
        self.strangers.insert(address, Vec::new());
        address
    }
}

/// 10.0.0.x for nodes, 10.0.1.x for telephones, 10.0.2.x for strangers.
pub(super) fn host_address(net: u8, number: usize) -> SocketAddr {
    let host = u8::try_from(number + 1).unwrap_or(u8::MAX);
    SocketAddr::from(([10, 0, net, host], 5060))
}
