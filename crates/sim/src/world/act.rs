//! What a scenario may do: let a telephone act, send octets, kill a node.

use core::net::SocketAddr;
use core::time::Duration;

use tandem_base::Instant;
use tandem_sip::Outbox;
use tandem_ua::{DialogId, RequestId, Settings, Ua, Wish};

use super::{Actor, World, secs};
use crate::host::{NodeId, PhoneId};

impl World {
    /// Sends one datagram from any address.
    pub fn send_raw(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.transmit(from, to, bytes);
    }

    /// How long the nonces of a node serve, from its next start on.
    pub fn set_nonce_lifetime(&mut self, node: NodeId, lifetime: Duration) {
        let (now, seed) = (self.now, self.rng.next_u64());
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.challenger.nonce_lifetime = lifetime;
            node.start(now, seed);
        }
    }

    /// Changes a telephone's habits.
    pub fn set(&mut self, phone: PhoneId, change: impl FnOnce(&mut Settings)) {
        if let Some(phone) = self.phones.get_mut(phone.0) {
            change(phone.ua.settings_mut());
        }
    }

    /// Lets a telephone do something now.
    ///
    /// # Panics
    ///
    /// On a telephone of another world.
    pub fn act<R>(&mut self, phone: PhoneId, act: impl FnOnce(&mut Ua, Instant, &mut Outbox) -> R) -> R {
        let mut out = Outbox::new();
        let now = self.now;
        let result =
            act(&mut self.phones.get_mut(phone.0).expect("a telephone of this world").ua, now, &mut out);
        self.end_turn(Actor::Phone(phone.0), &out);
        result
    }

    /// Starts a registration for an hour.
    pub fn register(&mut self, phone: PhoneId) -> RequestId {
        self.act(phone, |ua, now, out| ua.register(now, Wish::Bind(3600), out))
    }

    /// Registers all of them and waits until they are.
    ///
    /// # Panics
    ///
    /// If one of them is refused.
    pub fn register_all(&mut self, phones: &[PhoneId]) {
        for &phone in phones {
            let request = self.register(phone);
            assert!(
                self.run_until(secs(64), |world| world.status(phone, request).is_some()),
                "no answer to a REGISTER"
            );
            assert_eq!(self.status(phone, request), Some(200), "{:?}", self.ua(phone).settings().aor());
        }
    }

    /// Starts a call to the address-of-record of another telephone.
    pub fn call(&mut self, caller: PhoneId, callee: PhoneId) -> RequestId {
        let target = self.ua(callee).settings().aor();
        self.act(caller, |ua, now, out| ua.call(now, &target, out))
    }

    /// Hangs up; `None` if the dialog is over.
    pub fn hang_up(&mut self, phone: PhoneId, dialog: DialogId) -> Option<RequestId> {
        self.act(phone, |ua, now, out| ua.hang_up(now, dialog, out))
    }

    /// The node's process dies; its store keeps what it acknowledged.
    pub fn crash(&mut self, node: NodeId) {
        let is_written = self.rng.chance(0.5);
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.crash(is_written);
        }
        self.each_check(|check, world| check.crashed(node, world));
    }

    /// It is started again with the same configuration.
    pub fn restart(&mut self, node: NodeId) {
        let (now, seed) = (self.now, self.rng.next_u64());
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.start(now, seed);
        }
    }

    /// A store that hung works again.
    pub fn wake_store(&mut self, node: NodeId) {
        self.start_batch(node.0);
    }
}
