//! What is examined: the balancer that ships, alone in front of its pool.

use std::sync::Arc;

use core::net::SocketAddr;

use tandem_balance::{
    Balancer, Board, Config, Destination, Failover, HealthSettings, Mistake, PoolConfig, PoolSettings,
};
use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{Hop, Listener, ListenerId, Listeners, Method, Outbox, Transport};

use crate::model::Run;

/// Anything that forwards SIP: messages in, messages out, a deadline.
pub(crate) trait Subject {
    fn handle_input(&mut self, now: Instant, hop: Hop, bytes: &[u8], out: &mut Outbox);
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox);
    fn poll_timeout(&self) -> Option<Instant>;
    /// What its pool weighs an INVITE at, a BYE being 1.
    fn invite_to_bye(&self) -> f64;
    /// By how much its audit of loads found it wrong so far, decrements of nothing included.
    fn wrong(&self) -> u64;
}

impl Subject for Balancer {
    fn handle_input(&mut self, now: Instant, hop: Hop, bytes: &[u8], out: &mut Outbox) {
        Self::handle_input(self, now, hop, bytes, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        Self::handle_timeout(self, now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn invite_to_bye(&self) -> f64 {
        let weight =
            |method| self.pools().next().map_or(1.0, |pool| f64::from(pool.weight_of(method).0.max(1)));
        weight(Method::Invite) / weight(Method::Bye)
    }

    fn wrong(&self) -> u64 {
        self.calls().audit_difference() + self.pools().map(|pool| pool.underflows()).sum::<u64>()
    }
}

/// The address of the balancer of this number.
pub(crate) fn balancer_address(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, u8::try_from(number).unwrap_or(255)], 5060))
}

/// The address of a server.
pub(crate) fn server_address(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    SocketAddr::from(([10, 2, high, low], 5060))
}

/// The server at an address.
pub(crate) fn server_at(address: SocketAddr) -> Option<u16> {
    match address {
        SocketAddr::V4(v4) => match v4.ip().octets() {
            [10, 2, high, low] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        },
        SocketAddr::V6(_) => None,
    }
}

/// The settings of the pool that a run asks for.
///
/// # Errors
///
/// [`Mistake`] of an experiment: an unknown policy, say.
pub(crate) fn pool_settings(run: &Run) -> Result<PoolSettings, Mistake> {
    let hop = |number| Hop::udp(ListenerId(0), server_address(number));
    let destination = |(number, server): (u16, &crate::model::Server)| Destination {
        capacity: server.capacity,
        weight: server.weight,
        cluster: server.cluster.as_deref().map(Arc::from),
        ..Destination::new(&format!("s{number}"), hop(number))
    };
    let destinations = (0..).zip(&run.servers).map(destination).collect();
    // The papers' balancers know nothing of health: what a policy makes of a server that stands still is the question.
    let health = HealthSettings {
        interval: None,
        passive_fall: 0,
        slow_start: core::time::Duration::ZERO,
        ..HealthSettings::default()
    };
    PoolSettings::new("servers", run.policy.clone(), health, destinations)
}

/// Balancers with one pool each; they share neither loads nor calls, only the key of a cluster.
///
/// # Errors
///
/// [`Mistake`] of an experiment.
pub(crate) fn balancers(run: &Run, rng: &mut Rng) -> Result<Vec<Balancer>, Mistake> {
    let settings = Arc::new(pool_settings(run)?);
    let key = HashKey::from_rng(rng);
    let one = |number: usize| {
        let board = Arc::new(Board::new(u16::try_from(run.servers.len()).unwrap_or(u16::MAX), 1));
        let pool = PoolConfig {
            failover: Failover { tries_max: 1, ..Failover::default() },
            ..PoolConfig::new(Arc::clone(&settings), board)
        };
        let config = Config { entries_max: 4_000_000, ..Config::new(vec![pool]) };
        let address = balancer_address(u16::try_from(number + 1).unwrap_or(u16::MAX));
        let listener = Listener::new(Transport::Udp, address, None);
        let listeners = Listeners::new(listener.into_iter().collect());
        Balancer::new(Arc::new(config), listeners, &key, None, 0, rng.fork())
    };
    Ok((0..run.balancers).map(one).collect())
}
