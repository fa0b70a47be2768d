//! One machine's turn: what it is handed, what it says, asks and waits for, and what becomes of its datagrams.

use core::net::SocketAddr;

use tandem_base::{HashKey, Instant};
use tandem_node::{Command, Event as NodeEvent, Node};
use tandem_sip::{Hop, ListenerId, Outbox};

use super::{Actor, CAPTURED_MAX, What, World};
use crate::host::NodeHost;
use crate::pcap::Captured;

impl World {
    pub(super) fn command(&mut self, node: usize, shard: usize, boot: u64, command: &Command) {
        let now = self.now;
        let Some(host) = self.nodes.get_mut(node).filter(|host| host.boot == boot) else { return };
        let Some(machine) = host.shards.get_mut(shard) else { return };
        let mut out = Outbox::new();
        machine.handle_command(now, command, &mut out);
        self.end_turn(Actor::Shard(node, shard), &out);
    }

    pub(super) fn deliver(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let actor = self.addresses.get(&to).copied();
        let is_up = match actor {
            Some(Actor::Phone(_)) => true,
            Some(Actor::Shard(node, _)) => self.nodes.get(node).is_some_and(NodeHost::is_up),
            None => self.strangers.contains_key(&to),
        };
        if !is_up {
            if self.icmp {
                let at = self.now + self.network.between(to, from).delay;
                self.schedule(at, What::Undeliverable { to: from, bytes: bytes.into() });
            }
            return;
        }
        self.look(from, to, bytes, true);
        let hop = Hop::udp(ListenerId(0), from);
        let (now, mut out) = (self.now, Outbox::new());
        match actor {
            Some(Actor::Phone(number)) => {
                if let Some(phone) = self.phones.get_mut(number) {
                    phone.ua.handle_input(now, hop, bytes, &mut out);
                    self.end_turn(Actor::Phone(number), &out);
                }
            }
            Some(Actor::Shard(number, _)) => {
                let Some(host) = self.nodes.get_mut(number) else { return };
                let shard = host.shard_of(bytes);
                let Some(machine) = host.shards.get_mut(shard) else { return };
                machine.handle_input(now, hop, bytes, &mut out);
                self.end_turn(Actor::Shard(number, shard), &out);
                self.each_check(|check, _| check.turn(from, bytes, &out));
            }
            None => {
                if let Some(received) = self.strangers.get_mut(&to) {
                    received.push(bytes.to_vec());
                }
            }
        }
    }

    pub(super) fn wake(&mut self, actor: Actor, at: Instant) {
        let (now, mut out) = (self.now, Outbox::new());
        match actor {
            Actor::Phone(number) => {
                let Some(phone) = self.phones.get_mut(number).filter(|phone| phone.wake == Some(at)) else {
                    return;
                };
                phone.wake = None;
                phone.ua.handle_timeout(now, &mut out);
            }
            Actor::Shard(number, shard) => {
                let Some(host) = self.nodes.get_mut(number) else { return };
                let Some(wake) = host.wakes.get_mut(shard).filter(|wake| **wake == Some(at)) else { return };
                *wake = None;
                let Some(machine) = host.shards.get_mut(shard) else { return };
                machine.handle_timeout(now, &mut out);
            }
        }
        self.end_turn(actor, &out);
    }

    /// What a machine asked, said and waits for.
    pub(super) fn end_turn(&mut self, actor: Actor, out: &Outbox) {
        let (from, wake) = match actor {
            Actor::Phone(number) => {
                let now = self.now;
                let Some(phone) = self.phones.get_mut(number) else { return };
                while let Some(event) = phone.ua.poll_event() {
                    phone.log.push((now, event));
                }
                (phone.address, earlier(&mut phone.wake, phone.ua.poll_timeout(), now))
            }
            Actor::Shard(number, shard) => {
                self.take_events(number, shard);
                let now = self.now;
                let Some(host) = self.nodes.get_mut(number) else { return };
                let (Some(machine), Some(wake)) = (host.shards.get(shard), host.wakes.get_mut(shard)) else {
                    return;
                };
                (host.address, earlier(wake, machine.poll_timeout(), now))
            }
        };
        if let Some(at) = wake {
            self.schedule(at, What::Wake(actor));
        }
        for (hop, bytes) in out.iter() {
            self.transmit(from, hop.peer, bytes);
        }
    }

    pub(super) fn take_events(&mut self, number: usize, shard: usize) {
        let mut has_asked = false;
        loop {
            let Some(host) = self.nodes.get_mut(number) else { return };
            let Some(event) = host.shards.get_mut(shard).and_then(Node::poll_event) else { break };
            match event {
                NodeEvent::Persist { ticket, aor } => {
                    host.store.ask((shard, ticket, aor));
                    has_asked = true;
                }
                // The simulated nodes of one world have one shard, or no pools.
                NodeEvent::Probed(_) => {}
                NodeEvent::Resolve { ticket, host: name, port, .. } => {
                    let (at, boot) = (self.now + self.dns_delay, host.boot);
                    self.schedule(at, What::Resolved { node: number, shard, boot, ticket, host: name, port });
                }
            }
        }
        if has_asked {
            self.start_batch(number);
        }
    }

    pub(super) fn start_batch(&mut self, number: usize) {
        let Some(host) = self.nodes.get_mut(number) else { return };
        if host.store.start() {
            let (at, boot) = (self.now + host.store.delay, host.boot);
            self.schedule(at, What::Commit { node: number, boot });
        }
    }

    pub(super) fn commit(&mut self, number: usize, boot: u64) {
        let Some(host) = self.nodes.get_mut(number).filter(|host| host.boot == boot && host.is_up()) else {
            return;
        };
        let locations = std::sync::Arc::clone(&host.shared);
        let (written, ok) = host.store.commit(&locations.locations);
        for shard in 0..host.shards.len() {
            let tickets: Vec<u64> =
                written.iter().filter(|(of, ..)| *of == shard).map(|(_, ticket, _)| *ticket).collect();
            if !tickets.is_empty() {
                self.command(number, shard, boot, &Command::Persisted { tickets: tickets.into(), ok });
            }
        }
        self.start_batch(number);
    }

    pub(super) fn transmit(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.look(from, to, bytes, false);
        let arrivals = self.network.fate(from, to, &mut self.rng);
        let at = self.now;
        let key = HashKey::from_bytes([1; 16]);
        self.digest = key.hash64(&[&self.digest.to_le_bytes(), &at.as_nanos().to_le_bytes(), bytes]);
        if self.captured.len() < CAPTURED_MAX {
            self.captured.push(Captured { at, from, to, is_lost: arrivals.is_empty(), bytes: bytes.into() });
        }
        for delay in arrivals {
            let mut bytes: Box<[u8]> = bytes.into();
            self.network.flip(from, to, &mut bytes, &mut self.rng);
            self.schedule(at + delay, What::Deliver { from, to, bytes });
        }
    }
}

/// When to wake a machine, if that is earlier than it will be woken anyway.
fn earlier(wake: &mut Option<Instant>, asked: Option<Instant>, now: Instant) -> Option<Instant> {
    let at = asked?.max(now);
    if wake.is_some_and(|wake| wake <= at) {
        return None;
    }
    *wake = Some(at);
    Some(at)
}
