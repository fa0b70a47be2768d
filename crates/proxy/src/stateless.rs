//! RFC 3261 §16.11: forwarding without state, and the responses that come back to it.

use core::net::SocketAddr;

use crate::forward::{self, Forwarding, Leg, Rules};
use crate::targets::{NextHop, TargetSet, hop_to};
use crate::{Proxy, Turn, branch};
use tandem_sip::{HeaderName, ListenerId, Message, Method, Transport, Via, host_ip};

impl Proxy {
    /// Forwards a request to the first target and forgets it. `false`, and nothing sent, if the target's address is
    /// not known yet or can't be reached: that takes state.
    pub fn forward_stateless(
        &mut self,
        turn: &mut Turn<'_>,
        forwarding: &Forwarding<'_>,
        set: &TargetSet,
    ) -> bool {
        let Some(target) = set.targets().first() else { return false };
        let NextHop::Hop(hop) = target.next_hop else { return false };
        let rules = Rules {
            key: &self.key,
            listeners: &self.listeners,
            record_route: self.config.record_route,
            max_forwards: self.config.max_forwards,
            hour: self.hour(turn.now),
        };
        let (key, edits) = (&self.key, &mut self.edits);
        let (request, from) = (&forwarding.request, forwarding.hop);
        turn.out.write(hop, |out| {
            forward::write_request(
                rules,
                edits,
                forwarding,
                Leg { set, target, hop },
                out,
                |out, loop_hash| {
                    branch::write_stateless(key, from, request, loop_hash, out);
                },
            );
        });
        self.counters.forwarded_stateless += 1;
        true
    }

    /// Sends a response on to the Via below ours if our branch says that we signed that very Via; else it is a stray.
    ///
    /// RFC 6026 §8.3 forbids it for an INVITE that was forwarded with state, since anyone might have made the response
    /// up. Nobody made up ours: so a call that rings while this node starts again is not lost.
    pub(crate) fn forward_response_stateless(&mut self, turn: &mut Turn<'_>, response: &Message<'_>) {
        let way_back = second_via(response).and_then(|below| {
            let branch = response.via().branch?;
            let stateless = self.keys().find_map(|key| branch::check_stateless(key, branch, &below));
            let way_back = stateless.or_else(|| {
                // What an earlier process of this node forwarded with state, or another that shares the key.
                let is_lost = response.method() == Method::Invite && response.status() > 100;
                let mut keys = self.keys().filter(|_| is_lost);
                keys.find_map(|key| branch::check_stateful(key, branch, &below))
            })?;
            Some((below.transport()?, way_back))
        });
        self.send_upstream(turn, response, way_back);
    }

    /// A 2xx to an INVITE whose context is gone: it goes upstream by its Via alone (§16.7 step 5, RFC 6026 §7.2).
    pub(crate) fn forward_stray_success(&mut self, turn: &mut Turn<'_>, response: &Message<'_>) {
        let way_back =
            second_via(response).filter(|_| response.method() == Method::Invite).and_then(|below| {
                let branch = response.via().branch?;
                let way_back = self.keys().find_map(|key| branch::check_stateful(key, branch, &below))?;
                Some((below.transport()?, way_back))
            });
        self.send_upstream(turn, response, way_back);
    }

    fn send_upstream(
        &mut self,
        turn: &mut Turn<'_>,
        response: &Message<'_>,
        way_back: Option<(Transport, (ListenerId, SocketAddr))>,
    ) {
        let next_hop =
            way_back.map(|(transport, (listener, peer))| hop_to(transport, peer, &self.listeners, listener));
        let Some(NextHop::Hop(hop)) = next_hop else {
            self.counters.responses_stray += 1;
            return;
        };
        self.edits.clear();
        self.edits.pop_values(response, HeaderName::Via, 1);
        self.edits.regularise(response);
        let edits = &mut self.edits;
        turn.out.write(hop, |out| edits.write(response, out));
        self.counters.responses_forwarded += 1;
    }
}

fn second_via<'a>(response: &Message<'a>) -> Option<Via<'a>> {
    response.values(HeaderName::Via).nth(1).and_then(|value| Via::parse(value.bytes))
}

/// Where a response goes by its Via alone (RFC 3261 §18.2.2): what was noted when the request came, else `sent-by`.
///
/// A name in `sent-by` always has `received` beside it, since we wrote it there.
pub(crate) fn upstream_of(via: &Via<'_>) -> Option<SocketAddr> {
    let ip = via.received_ip().or_else(|| host_ip(via.host))?;
    let sent_by_port = via.port.or_else(|| via.transport().map(|transport| transport.default_port()))?;
    Some(SocketAddr::new(ip, via.rport.flatten().unwrap_or(sent_by_port)))
}
