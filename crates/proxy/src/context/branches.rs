//! Branches out: groups of targets by q, host names, further addresses (RFC 3261 §16.6, RFC 5393 §5.3.3, RFC 3263 §4.3).

use tandem_base::Key;
use tandem_sip::{HeaderName, Hop, Message, Method};

use super::{Branch, BranchState, TimerC};
use crate::forward::{self, Forwarding, Leg, Rules};
use crate::targets::{NextHop, TargetSet, hop_to};
use crate::{Event, Fork, Proxy, Turn, branch};

impl Proxy {
    pub(super) fn breadth(&self, request: &Message<'_>) -> u32 {
        let asked = request.number(HeaderName::MaxBreadth).ok().flatten();
        asked.unwrap_or(self.config.max_breadth).min(self.config.max_breadth)
    }

    /// How many targets from `first` on are tried at once.
    pub(super) fn group(&self, set: &TargetSet, first: usize) -> usize {
        let rest = set.targets().get(first..).unwrap_or_default();
        match (self.config.fork, rest.first()) {
            (_, None) => 0,
            (Fork::Serial, Some(_)) => 1,
            (Fork::Parallel, Some(head)) => rest.iter().take_while(|t| t.q == head.q).count(),
        }
    }

    pub(super) fn start_group(
        &mut self,
        turn: &mut Turn<'_>,
        key: Key,
        forwarding: &Forwarding<'_>,
        set: &TargetSet,
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let room = self.config.branches_max.saturating_sub(context.branches.len());
        let (first, breadth) = (context.next_target, context.breadth);
        let group = self.group(set, first);
        // The first group fits, or it was refused; a later one that does not is tried in portions (RFC 5393 §5.3.3).
        let portion = group.min(usize::try_from(breadth).unwrap_or(usize::MAX)).max(1).min(group);
        let count = portion.min(room);
        if let Some(context) = self.contexts.get_mut(key) {
            // What does not fit into the bound on branches is not tried at all.
            context.next_target = if count < portion { set.len() } else { first + count };
        }
        // The breadth is shared out among the branches; a lone branch that brought none carries none.
        let share = u32::try_from(count).ok().and_then(|n| breadth.checked_div(n)).unwrap_or(breadth).max(1);
        let brought = forwarding.request.field(HeaderName::MaxBreadth).is_some();
        let forwarding = Forwarding { breadth: (count > 1 || brought).then_some(share), ..*forwarding };
        for index in first..first + count {
            self.start_branch(turn, key, &forwarding, set, index);
        }
    }

    fn start_branch(
        &mut self,
        turn: &mut Turn<'_>,
        key: Key,
        forwarding: &Forwarding<'_>,
        set: &TargetSet,
        index: usize,
    ) {
        let Some(target) = set.targets().get(index).copied() else { return };
        let Some(context) = self.contexts.get_mut(key) else { return };
        let branch = context.branches.len();
        context.branches.push(Branch {
            state: BranchState::Resolving,
            target: u16::try_from(index).unwrap_or(u16::MAX),
            timer_c: None,
            alternates: Vec::new(),
        });
        match target.next_hop {
            NextHop::Hop(hop) => self.send_branch(turn, key, branch, forwarding, set, index, hop),
            NextHop::Name { host, port, transport, .. } => {
                let ticket = self.lookups.insert((key, branch));
                match ticket {
                    Ok(ticket) => self.events.push_back(Event::Resolve {
                        ticket: ticket.to_bits(),
                        host: set.part(host).into(),
                        port,
                        transport,
                    }),
                    Err(_) => self.refuse_branch(key, branch),
                }
            }
            NextHop::Unreachable => self.fail_branch(key, branch, 503),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where a copy of a request leaves")]
    fn send_branch(
        &mut self,
        turn: &mut Turn<'_>,
        key: Key,
        branch: usize,
        forwarding: &Forwarding<'_>,
        set: &TargetSet,
        index: usize,
        hop: Hop,
    ) {
        let Some(target) = set.targets().get(index) else { return };
        let method = forwarding.request.method();
        let leg = Leg { set, target, hop };
        let rules = Rules {
            key: &self.key,
            listeners: &self.listeners,
            record_route: self.config.record_route,
            max_forwards: self.config.max_forwards,
            hour: self.hour(turn.now),
        };
        let edits = &mut self.edits;
        let opened = turn.layer.open_client(turn.now, method, hop, key.to_bits(), turn.out, |out, prefix| {
            forward::write_request(rules, edits, forwarding, leg, out, |out, loop_hash| {
                out.extend_from_slice(prefix);
                if method == Method::Invite {
                    branch::write_way_back(rules.key, &forwarding.request, forwarding.hop, out);
                }
                out.push(b'.');
                out.extend_from_slice(&loop_hash);
            });
        });
        let Ok(client) = opened else {
            self.refuse_branch(key, branch);
            return;
        };
        self.counters.forwarded_stateful += 1;
        let timer_c = (method == Method::Invite).then(|| {
            let timer = TimerC { context: key, branch: u16::try_from(branch).unwrap_or(u16::MAX) };
            self.timers.schedule(turn.now + self.config.timer_c, timer)
        });
        if let Some(branch) = self.contexts.get_mut(key).and_then(|c| c.branches.get_mut(branch)) {
            branch.state = BranchState::Calling(client);
            branch.timer_c = timer_c;
        }
    }

    /// The answer to [`Event::Resolve`]: addresses in the order to try them; none if the name can't be resolved.
    pub fn resolved(&mut self, turn: &mut Turn<'_>, ticket: u64, addresses: &[core::net::SocketAddr]) {
        let Some((key, branch)) = Key::from_bits(ticket).and_then(|ticket| self.lookups.remove(ticket))
        else {
            return;
        };
        let Some(context) = self.contexts.get(key) else { return };
        let Some(index) =
            context.branches.get(branch).filter(|b| b.state == BranchState::Resolving).map(|b| b.target)
        else {
            return;
        };
        let next_hop =
            context.set.as_ref().and_then(|s| s.targets().get(usize::from(index))).map(|t| t.next_hop);
        let Some(NextHop::Name { transport, listener, .. }) = next_hop else { return };
        let hops = addresses.iter().filter_map(|&a| match hop_to(transport, a, &self.listeners, listener) {
            NextHop::Hop(hop) => Some(hop),
            NextHop::Name { .. } | NextHop::Unreachable => None,
        });
        let mut alternates: Vec<Hop> = hops.collect();
        alternates.reverse();
        if let Some(branch) = self.contexts.get_mut(key).and_then(|c| c.branches.get_mut(branch)) {
            branch.alternates = alternates;
        }
        if !self.try_alternate(turn, key, branch) {
            self.fail_branch(key, branch, 503);
        }
        self.conclude(turn, key);
    }

    /// Sends a branch to the next address of its name; `false` if there is none.
    pub(super) fn try_alternate(&mut self, turn: &mut Turn<'_>, key: Key, branch: usize) -> bool {
        let Some(context) = self.contexts.get_mut(key) else { return false };
        if context.is_cancelled || context.final_status.is_some() {
            return false;
        }
        let Some(leg) = context.branches.get_mut(branch) else { return false };
        let (Some(hop), target) = (leg.alternates.pop(), usize::from(leg.target)) else { return false };
        self.with_request(turn.now, key, |this, forwarding, set| {
            this.send_branch(turn, key, branch, forwarding, set, target, hop);
        });
        true
    }
}
