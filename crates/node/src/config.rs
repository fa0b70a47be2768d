//! What a node is told: nothing left to check.

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use tandem_proxy::Listeners;
use tandem_sip::Limits;

use crate::Domains;

/// The node's settings; `docs/CONFIG.md` has the reason of each default.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our listeners.
    pub listeners: Listeners,
    /// The domains we answer for.
    pub domains: Domains,
    /// How requests are forwarded.
    pub mode: Mode,
    /// Forwarding.
    pub proxy: tandem_proxy::Config,
    /// Transaction timers and bounds.
    pub transaction: tandem_transaction::Config,
    /// Bindings; `None` if this node is no registrar.
    pub registrar: Option<tandem_registrar::Policy>,
    /// Who must prove who they are.
    pub auth: Auth,
    /// Bounds on messages.
    pub limits: Limits,
    /// When a REGISTER is answered.
    pub durability: Durability,
    /// Registrations on their way to the store at a time; beyond, 503.
    pub persist_in_flight_max: u32,
    /// Pools to balance over; `None` if this node is no balancer.
    pub balance: Option<Arc<tandem_balance::Config>>,
    /// The Server header field of a 200 of our own; empty for none.
    pub server: Vec<u8>,
}

impl Config {
    /// A node for `domains` on `listeners` with every default.
    #[must_use]
    pub fn new(domains: Domains, listeners: Listeners) -> Self {
        Self {
            listeners,
            domains,
            mode: Mode::default(),
            proxy: tandem_proxy::Config::default(),
            transaction: tandem_transaction::Config::default(),
            registrar: Some(tandem_registrar::Policy::default()),
            auth: Auth::default(),
            limits: Limits::default(),
            durability: Durability::default(),
            persist_in_flight_max: 65_536,
            balance: None,
            server: b"Tandem".to_vec(),
        }
    }
}

/// How requests are forwarded (CHECKLIST S4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Stateless for one target whose address is known, no credentials to check and no 3xx to follow; stateful
    /// otherwise.
    #[default]
    Auto,
    /// Without state wherever possible: only forks, host names and credentials make some.
    Stateless,
    /// With a transaction for each request.
    Stateful,
    /// Not at all: the targets go back in a 302.
    Redirect,
}

/// When a REGISTER is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// At once; nothing is stored.
    #[default]
    Memory,
    /// At once; the store follows.
    Async,
    /// When the store has it.
    Commit,
}

/// Who is challenged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Challenge {
    /// Everyone whose address is not in [`Auth::trusted`].
    #[default]
    Outside,
    /// Everyone.
    Always,
    /// Nobody; strangers reach local users and nothing else.
    Never,
}

/// Authentication.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    /// Who is challenged.
    pub challenge: Challenge,
    /// Networks whose requests are not.
    pub trusted: Vec<Network>,
    /// The realm of every challenge; `None` for the domain that is asked.
    pub realm: Option<Vec<u8>>,
    /// How password guessing is slowed.
    pub guesses: tandem_auth::GuessLimits,
}

/// A network: an address and how many of its leading bits count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// Any address of it.
    pub address: IpAddr,
    /// Leading bits, 0 to 32 or 128.
    pub prefix: u8,
}

impl Network {
    /// Whether `ip` belongs to it; an IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
                (net.to_bits() ^ ip.to_bits()) & mask == 0
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix.min(128))).unwrap_or(0);
                (net.to_bits() ^ ip.to_bits()) & mask == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Refusals are told to come back after this and up to as much again, so that they do not come back at once.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_of_its_prefix() {
        let net = Network { address: "10.1.0.0".parse().unwrap(), prefix: 16 };
        assert!(net.contains("10.1.255.1".parse().unwrap()));
        assert!(net.contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!net.contains("10.2.0.1".parse().unwrap()));
        let all = Network { address: "0.0.0.0".parse().unwrap(), prefix: 0 };
        assert!(all.contains("192.0.2.1".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        let one = Network { address: "::1".parse().unwrap(), prefix: 128 };
        assert!(one.contains("::1".parse().unwrap()) && !one.contains("::2".parse().unwrap()));
    }
}
