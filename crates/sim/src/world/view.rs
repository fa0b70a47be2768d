//! What a scenario may look at.

use core::net::SocketAddr;

use tandem_node::{Config, Node};
use tandem_registrar::Locations;
use tandem_ua::{DialogId, Event, RequestId, Ua};

use super::World;
use super::build::host_address;
use crate::Store;
use crate::host::{NodeId, PhoneId};

impl World {
    /// What a stranger received.
    #[must_use]
    pub fn received(&self, stranger: SocketAddr) -> &[Vec<u8>] {
        self.strangers.get(&stranger).map_or(&[], |received| received)
    }

    /// The node that was added as the `number`-th, counted from 0.
    #[must_use]
    pub const fn node_id(&self, number: usize) -> NodeId {
        NodeId(number)
    }

    /// A node's address.
    #[must_use]
    pub fn node_address(&self, node: NodeId) -> SocketAddr {
        self.nodes.get(node.0).map_or(host_address(0, node.0), |node| node.address)
    }

    /// A telephone's address.
    #[must_use]
    pub fn phone_address(&self, phone: PhoneId) -> SocketAddr {
        host_address(1, phone.0)
    }

    /// A node's shards; none while it is down.
    #[must_use]
    pub fn shards(&self, node: NodeId) -> &[Node] {
        self.nodes.get(node.0).map_or(&[], |node| &node.shards)
    }

    /// All nodes that are up, with their names.
    pub fn nodes_up(&self) -> impl Iterator<Item = (NodeId, &str, &[Node])> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.is_up()).map(|(number, node)| {
            let shards: &[Node] = &node.shards;
            (NodeId(number), &node.name[..], shards)
        })
    }

    /// A node's location service.
    ///
    /// # Panics
    ///
    /// On a node of another world.
    #[must_use]
    pub fn locations(&self, node: NodeId) -> &Locations {
        &self.nodes.get(node.0).expect("a node of this world").shared.locations
    }

    /// A node's configuration.
    ///
    /// # Panics
    ///
    /// On a node of another world.
    #[must_use]
    pub fn config(&self, node: NodeId) -> &Config {
        &self.nodes.get(node.0).expect("a node of this world").config
    }

    /// How often a node was started.
    #[must_use]
    pub fn boots(&self, node: NodeId) -> u64 {
        self.nodes.get(node.0).map_or(0, |node| node.boot)
    }

    /// A node's store.
    ///
    /// # Panics
    ///
    /// On a node of another world.
    pub fn store(&mut self, node: NodeId) -> &mut Store {
        &mut self.nodes.get_mut(node.0).expect("a node of this world").store
    }

    /// A telephone.
    ///
    /// # Panics
    ///
    /// On a telephone of another world.
    #[must_use]
    pub fn ua(&self, phone: PhoneId) -> &Ua {
        &self.phones.get(phone.0).expect("a telephone of this world").ua
    }

    /// All telephones with their names.
    pub fn phones(&self) -> impl Iterator<Item = (PhoneId, &str, &Ua)> {
        self.phones.iter().enumerate().map(|(number, phone)| (PhoneId(number), &phone.name[..], &phone.ua))
    }

    /// What happened at a telephone, in order.
    ///
    /// # Panics
    ///
    /// On a telephone of another world.
    pub fn events(&self, phone: PhoneId) -> impl Iterator<Item = &Event> {
        self.phones.get(phone.0).expect("a telephone of this world").log.iter().map(|(_, event)| event)
    }

    /// Whether an event happened at a telephone.
    #[must_use]
    pub fn saw(&self, phone: PhoneId, is: impl Fn(&Event) -> bool) -> bool {
        self.events(phone).any(is)
    }

    /// The final status of a request, once it has one.
    #[must_use]
    pub fn status(&self, phone: PhoneId, request: RequestId) -> Option<u16> {
        self.answered(phone, request).map(|(status, _)| status)
    }

    /// The final response to a request, once it came.
    #[must_use]
    pub fn answer(&self, phone: PhoneId, request: RequestId) -> Option<&[u8]> {
        self.answered(phone, request).map(|(_, message)| message)
    }

    fn answered(&self, phone: PhoneId, request: RequestId) -> Option<(u16, &[u8])> {
        self.events(phone).find_map(|event| {
            let Event::Answered { request: of, status, message } = event else { return None };
            (*of == request).then_some((*status, &message[..]))
        })
    }

    /// The dialog of a call, once it is answered.
    #[must_use]
    pub fn dialog(&self, phone: PhoneId, call: RequestId) -> Option<DialogId> {
        self.events(phone).find_map(|event| {
            let Event::Established { request, dialog } = event else { return None };
            (*request == call).then_some(*dialog)
        })
    }
}
