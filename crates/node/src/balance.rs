//! The balancer within the node: which messages are its own, before any transaction is looked for.
//!
//! A pool without hosts of its own takes what this node does not serve itself; the node serves the users of its
//! domains where it is a registrar. The balancer absorbs no retransmissions, so it stands before the transactions.

use std::sync::Arc;

use tandem_balance::{Balancer, Event as BalanceEvent};
use tandem_base::Instant;
use tandem_sip::{Hop, Message, Outbox, Uri};

use crate::{Config, Event, Node};

/// Marks the questions of the balancer among those of the proxy; no key of a table reaches so high.
const OF_BALANCER: u64 = 1 << 63;

impl Node {
    /// Says which shard this is: the first one probes destinations for all.
    #[must_use]
    pub fn on_shard(mut self, shard: usize) -> Self {
        self.shard = shard;
        self.balancer = None;
        self.take_pools(Instant::ZERO);
        self
    }

    /// The balancer, where this node is one.
    #[must_use]
    pub fn balancer(&self) -> Option<&Balancer> {
        self.balancer.as_deref()
    }

    /// Lends the balancer a clock, by which it times a sample of its decisions.
    pub fn lend_clock(&mut self, clock: tandem_balance::Clock) {
        if let Some(balancer) = &mut self.balancer {
            balancer.lend_clock(clock);
        }
    }

    /// Takes over the configuration's pools. A node that was a balancer stays one while it runs.
    pub(crate) fn take_pools(&mut self, now: Instant) {
        let Some(pools) = &self.config.balance else { return };
        let (pools, listeners) = (Arc::clone(pools), self.config.listeners.clone());
        match &mut self.balancer {
            Some(balancer) => balancer.reconfigure(now, pools, listeners),
            None => {
                let rng = self.rng.fork();
                let (key, previous) = (&self.cluster_key, self.previous_key.as_ref());
                let balancer = Balancer::new(pools, listeners, key, previous, self.shard, rng);
                self.balancer = Some(Box::new(balancer));
            }
        }
    }

    /// Hands a request to the balancer if it is its own.
    pub(crate) fn balance_request(
        &mut self,
        now: Instant,
        hop: Hop,
        request: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let Some(balancer) = &mut self.balancer else { return false };
        let is_local = serves(&self.config, request);
        let Some(routed) = balancer.route(hop, request, is_local) else { return false };
        balancer.handle_request(now, hop, request, &routed, out);
        true
    }

    /// Hands a response to the balancer if it is its own.
    pub(crate) fn balance_response(
        &mut self,
        now: Instant,
        response: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        self.balancer.as_mut().is_some_and(|balancer| balancer.handle_response(now, response, out))
    }

    /// Takes the addresses that the balancer asked for; `false` if it was the proxy that asked.
    pub(crate) fn balancer_resolved(
        &mut self,
        now: Instant,
        ticket: u64,
        addresses: &[core::net::SocketAddr],
        out: &mut Outbox,
    ) -> bool {
        if ticket & OF_BALANCER == 0 {
            return false;
        }
        if let Some(balancer) = &mut self.balancer {
            balancer.resolved(now, ticket & !OF_BALANCER, addresses, out);
        }
        true
    }

    /// The balancer's next question.
    pub(crate) fn poll_balancer(&mut self) -> Option<Event> {
        Some(match self.balancer.as_mut()?.poll_event()? {
            BalanceEvent::Resolve { ticket, host, port, transport } => {
                Event::Resolve { ticket: ticket | OF_BALANCER, host, port, transport }
            }
            BalanceEvent::Probed(answer) => Event::Probed(answer),
        })
    }
}

/// Whether the node itself serves what a Request-URI names: a domain by its name, where this is a registrar. An address
/// of ours stands for the pools.
fn serves(config: &Config, request: &Message<'_>) -> bool {
    let serves_users = config.registrar.is_some();
    serves_users
        && Uri::parse(request.request_uri()).is_some_and(|uri| {
            uri.is_sip() && config.domains.iter().any(|name| name.eq_ignore_ascii_case(uri.host))
        })
}
