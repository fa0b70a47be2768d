//! The response context (RFC 3261 §16.7): one forwarded request, its branches, and what they answered.

use smallvec::SmallVec;
use tandem_base::{Instant, Key, TimerId};
use tandem_sip::{
    HeaderName, Hop, Index, Limits, Message, Method, NameAddr, Reply, Scheme, Span, Uri, write_number,
};
use tandem_transaction::{ClientId, Event as LayerEvent, ServerId};

use crate::best::Best;
use crate::forward::{self, Forwarding, Leg, Rules};
use crate::locate::Wanted;
use crate::targets::{NextHop, TargetSet, hop_to};
use crate::{Event, Fork, Proxy, Rejection, Turn, branch};

/// What a 503 of ours says to wait, and up to as much again, so that not all come back at once.
const RETRY_AFTER_SECS: u64 = 5;

/// Timer C of one branch (§16.6 step 11).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerC {
    context: Key,
    branch: u16,
}

/// One leg of a fork.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) state: BranchState,
    /// Its place in the context's target set.
    target: u16,
    timer_c: Option<TimerId>,
    /// Further addresses of its host name, to be tried when one fails (RFC 3263 §4.3).
    alternates: Vec<Hop>,
}

/// How far a branch has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BranchState {
    /// Its host name is being looked up.
    Resolving,
    /// Sent; not answered, or by a 100 at most.
    Calling(ClientId),
    /// Answered by a provisional response above 100.
    Proceeding(ClientId),
    /// Over.
    Completed,
}

impl BranchState {
    const fn client(self) -> Option<ClientId> {
        match self {
            Self::Calling(client) | Self::Proceeding(client) => Some(client),
            Self::Resolving | Self::Completed => None,
        }
    }
}

/// One forwarded request.
#[derive(Debug)]
pub(crate) struct ResponseContext {
    pub(crate) server: ServerId,
    pub(crate) hop: Hop,
    pub(crate) request: Box<[u8]>,
    checked_credentials: Option<Span>,
    is_invite: bool,
    /// Whether a sips URI was asked for: no 3xx may lead to less (§16.7 step 4).
    is_secure: bool,
    is_cancelled: bool,
    /// A final response went upstream: 2xx, or the best of the others.
    final_status: Option<u16>,
    pub(crate) branches: SmallVec<[Branch; 1]>,
    /// The targets, where there is more to do with them than to send to the first.
    set: Option<Box<TargetSet>>,
    /// The first target not tried yet.
    next_target: usize,
    breadth: u32,
    pub(crate) best: Best,
}

impl ResponseContext {
    fn is_pending(&self) -> bool {
        self.branches.iter().any(|b| b.state != BranchState::Completed)
    }

    /// Whether a response with this status goes upstream as it is: a 503 would say that *we* can't serve (§16.7 step
    /// 6), and a 408 to another request than INVITE comes when nobody can hear it (RFC 4320 §4.2).
    const fn may_answer(&self, status: u16) -> bool {
        status != 503 && (self.is_invite || status != 408)
    }

    fn branch_of(&self, client: ClientId) -> Option<usize> {
        self.branches.iter().position(|b| b.state.client() == Some(client))
    }
}

impl Proxy {
    /// Forwards a request with state to every target (§16.6), in groups as [`Fork`] says.
    ///
    /// The server transaction is open; its final answer comes from here, whatever happens.
    ///
    /// # Errors
    ///
    /// 503 when the table of contexts is full, 440 when Max-Breadth is too small, 480 without any target: the caller
    /// answers, and nothing was sent.
    pub fn forward_stateful(
        &mut self,
        turn: &mut Turn<'_>,
        server: ServerId,
        forwarding: &Forwarding<'_>,
        set: &mut TargetSet,
    ) -> Result<(), Rejection> {
        let request = &forwarding.request;
        if set.is_empty() {
            return Err(Rejection::status(480));
        }
        set.sort();
        let breadth = self.breadth(request);
        if self.group(set, 0) > breadth as usize {
            return Err(Rejection::status(440));
        }
        let names = set.targets().iter().any(|t| matches!(t.next_hop, NextHop::Name { .. }));
        let keep = set.len() > 1 || names || self.config.recurse_redirects;
        let context = ResponseContext {
            server,
            hop: forwarding.hop,
            request: request.bytes().into(),
            checked_credentials: forwarding.checked_credentials,
            is_invite: request.method() == Method::Invite,
            is_secure: Uri::parse(request.request_uri()).is_some_and(|uri| uri.scheme == Scheme::Sips),
            is_cancelled: false,
            final_status: None,
            branches: SmallVec::new(),
            set: keep.then(|| Box::new(set.clone())),
            next_target: 0,
            breadth,
            best: Best::default(),
        };
        let Ok(key) = self.contexts.insert(context) else {
            self.counters.contexts_full += 1;
            return Err(Rejection::because(503, "Too Many Requests In Progress"));
        };
        turn.layer.set_server_user(server, key.to_bits());
        self.start_group(turn, key, forwarding, set);
        self.conclude(turn, key);
        Ok(())
    }

    fn breadth(&self, request: &Message<'_>) -> u32 {
        let asked = request.number(HeaderName::MaxBreadth).ok().flatten();
        asked.unwrap_or(self.config.max_breadth).min(self.config.max_breadth)
    }

    /// How many targets from `first` on are tried at once.
    fn group(&self, set: &TargetSet, first: usize) -> usize {
        let rest = set.targets().get(first..).unwrap_or_default();
        match (self.config.fork, rest.first()) {
            (_, None) => 0,
            (Fork::Serial, Some(_)) => 1,
            (Fork::Parallel, Some(head)) => rest.iter().take_while(|t| t.q == head.q).count(),
        }
    }

    fn start_group(&mut self, turn: &mut Turn<'_>, key: Key, forwarding: &Forwarding<'_>, set: &TargetSet) {
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
    fn try_alternate(&mut self, turn: &mut Turn<'_>, key: Key, branch: usize) -> bool {
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

    /// Reads the context's request again, for what happens seldom: a further target, an answer of our own.
    fn with_request(
        &mut self,
        now: Instant,
        key: Key,
        act: impl FnOnce(&mut Self, &Forwarding<'_>, &TargetSet),
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let bytes = core::mem::take(&mut context.request);
        let (hop, checked_credentials) = (context.hop, context.checked_credentials);
        let set = context.set.take().unwrap_or_default();
        let mut index = Index::new();
        // It was within the limits when it came.
        if let Ok(request) = Message::parse(&bytes, &mut index, &Limits::unbounded()) {
            let routed = self.route(now, &request);
            let forwarding = Forwarding { request, hop, routed, checked_credentials, breadth: None };
            act(self, &forwarding, &set);
        }
        if let Some(context) = self.contexts.get_mut(key) {
            context.request = bytes;
            context.set = (!set.is_empty()).then_some(set);
        }
    }

    /// Ends a branch as if it had been answered with `status` (§16.7, §16.8, §16.9).
    fn fail_branch(&mut self, key: Key, branch: usize, status: u16) {
        self.complete(key, branch);
        if let Some(context) = self.contexts.get_mut(key) {
            context.best.note_own(status);
        }
    }

    /// Ends a branch that a table of ours has no room for.
    fn refuse_branch(&mut self, key: Key, branch: usize) {
        self.complete(key, branch);
        if let Some(context) = self.contexts.get_mut(key) {
            context.best.note_full();
        }
    }

    fn complete(&mut self, key: Key, branch: usize) {
        let Some(leg) = self.contexts.get_mut(key).and_then(|c| c.branches.get_mut(branch)) else { return };
        leg.state = BranchState::Completed;
        if let Some(timer) = leg.timer_c.take() {
            self.timers.cancel(timer);
        }
    }

    /// A response that belongs to one of our client transactions (§16.7).
    pub(crate) fn respond_in_context(
        &mut self,
        turn: &mut Turn<'_>,
        key: Key,
        client: ClientId,
        response: &Message<'_>,
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let Some(branch) = context.branch_of(client) else {
            // A 2xx that is repeated after its branch was over, while others still ring.
            if context.is_invite && (200..300).contains(&response.status()) {
                self.forward_stray_success(turn, response);
            }
            return;
        };
        let status = response.status();
        match status {
            100 => {}
            101..200 => {
                let server = context.server;
                // Only a 100 may be said to other requests than INVITE (RFC 4320 §4.1).
                let is_over = context.final_status.is_some() || !context.is_invite;
                if let Some(leg) = context.branches.get_mut(branch) {
                    leg.state = BranchState::Proceeding(client);
                    if let Some(timer) = leg.timer_c.take() {
                        self.timers.cancel(timer);
                        let timer =
                            TimerC { context: key, branch: u16::try_from(branch).unwrap_or(u16::MAX) };
                        leg.timer_c = Some(self.timers.schedule(turn.now + self.config.timer_c, timer));
                    }
                }
                if !is_over {
                    self.forward_response(turn, server, response);
                }
            }
            200..300 => {
                let (server, earlier) = (context.server, context.final_status);
                context.final_status = earlier.or(Some(status));
                let is_invite = context.is_invite;
                self.complete(key, branch);
                match earlier {
                    None => self.forward_response(turn, server, response),
                    // Every 2xx to an INVITE goes upstream, whatever went before (step 5).
                    Some(_) if is_invite => self.forward_stray_success(turn, response),
                    Some(_) => {}
                }
                self.cancel_pending(turn, key);
                self.conclude(turn, key);
            }
            _ => {
                self.complete(key, branch);
                // RFC 3263 §4.3: a 503 fails the address, not the name.
                if status == 503 && self.try_alternate(turn, key, branch) {
                    self.conclude(turn, key);
                    return;
                }
                if (300..400).contains(&status) && self.recurse(turn.now, key, response) {
                    self.conclude(turn, key);
                    return;
                }
                self.answered_by_failure(turn, key, response);
            }
        }
    }

    /// Steps 4 to 6 for a final response above 2xx: the only one goes straight upstream, others wait for the best.
    fn answered_by_failure(&mut self, turn: &mut Turn<'_>, key: Key, response: &Message<'_>) {
        let status = response.status();
        let Some(context) = self.contexts.get_mut(key) else { return };
        let set_len = context.set.as_ref().map_or(0, |set| set.len());
        let is_last = !context.is_pending()
            && (context.next_target >= set_len || context.is_cancelled || status >= 600);
        if is_last && context.best.is_empty() && context.final_status.is_none() && context.may_answer(status)
        {
            context.final_status = Some(status);
            let server = context.server;
            self.forward_response(turn, server, response);
        } else {
            context.best.note(response);
            if status >= 600 {
                self.cancel_pending(turn, key);
            }
        }
        self.conclude(turn, key);
    }

    /// §16.7 step 4: the contacts of a 3xx become targets. Whether all of them did.
    fn recurse(&mut self, now: Instant, key: Key, response: &Message<'_>) -> bool {
        if !self.config.recurse_redirects {
            return false;
        }
        let Some(context) = self.contexts.get_mut(key) else { return false };
        if context.is_cancelled || context.final_status.is_some() {
            return false;
        }
        let (Some(set), listener) = (context.set.as_mut(), context.hop.listener) else { return false };
        let is_secure = context.is_secure;
        let (mut all, before) = (true, set.len());
        for value in response.values(HeaderName::Contact) {
            let contact = NameAddr::parse(value.bytes).and_then(|contact| Some((contact, contact.uri()?)));
            let Some((contact, uri)) =
                contact.filter(|(_, uri)| uri.is_sip() && (!is_secure || uri.scheme == Scheme::Sips))
            else {
                all = false;
                continue;
            };
            match self.locator.0.as_ref().filter(|locator| locator.is_ours(&uri)) {
                Some(locator) => {
                    let is_secure = uri.scheme == Scheme::Sips;
                    locator.locate(now, Wanted { uri: &uri, q: Some(1000), is_secure, listener }, set);
                }
                None => set.add(contact.uri_bytes, b"", None, 1000, &self.listeners, listener),
            }
        }
        all && set.len() > before
    }

    /// What follows when something ended: the next group, the best response, or nothing while branches are pending.
    fn conclude(&mut self, turn: &mut Turn<'_>, key: Key) {
        loop {
            let Some(context) = self.contexts.get_mut(key) else { return };
            if context.is_pending() {
                return;
            }
            if context.final_status.is_some() {
                self.contexts.remove(key);
                return;
            }
            let more = context.set.as_ref().is_some_and(|set| context.next_target < set.len());
            if more && !context.is_cancelled && !context.best.is_decisive() {
                self.with_request(turn.now, key, |this, forwarding, set| {
                    this.start_group(turn, key, forwarding, set);
                });
                continue;
            }
            self.send_best(turn, key);
            return;
        }
    }

    /// Steps 6, 7 and 9: the best response goes upstream, and the context ends.
    fn send_best(&mut self, turn: &mut Turn<'_>, key: Key) {
        let Some(context) = self.contexts.remove(key) else { return };
        let status = context.best.status();
        if status == 408 && !context.is_invite {
            turn.layer.abandon_server(turn.now, context.server);
            return;
        }
        let sent = context.best.with_response(&mut self.edits, |edits, response| {
            turn.layer.respond(turn.now, context.server, status, |out| edits.write(response, out), turn.out);
        });
        if sent {
            self.counters.responses_forwarded += 1;
            return;
        }
        let mut index = Index::new();
        let Ok(request) = Message::parse(&context.request, &mut index, &Limits::unbounded()) else { return };
        let tag = self.new_tag();
        let mut headers = Vec::new();
        if status == 503 {
            headers.extend_from_slice(b"Retry-After: ");
            write_number(&mut headers, RETRY_AFTER_SECS + self.rng.below(RETRY_AFTER_SECS + 1));
            headers.extend_from_slice(b"\r\n");
        }
        let reply = Reply { headers: &headers, ..Reply::new(status, context.hop.peer, &tag) };
        turn.layer.respond(turn.now, context.server, status, |out| reply.write(&request, out), turn.out);
    }

    pub(crate) fn new_tag(&mut self) -> [u8; 16] {
        crate::branch::hex64(self.rng.next_u64())
    }

    fn cancel_pending(&mut self, turn: &mut Turn<'_>, key: Key) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if !context.is_invite {
            return;
        }
        for leg in &mut context.branches {
            match leg.state {
                BranchState::Resolving => leg.state = BranchState::Completed,
                BranchState::Calling(client) | BranchState::Proceeding(client) => {
                    leg.alternates.clear();
                    if turn.layer.cancel(turn.now, client, turn.out) {
                        self.counters.cancelled += 1;
                    }
                }
                BranchState::Completed => {}
            }
        }
    }

    /// A CANCEL came for the INVITE whose server transaction holds this handle (§16.10).
    pub fn cancel(&mut self, turn: &mut Turn<'_>, user: u64) {
        let Some((key, _)) = self.context(user) else { return };
        if let Some(context) = self.contexts.get_mut(key) {
            if context.final_status.is_some() || !context.is_invite {
                return;
            }
            context.is_cancelled = true;
            if context.branches.iter().any(|b| b.state == BranchState::Resolving) {
                context.best.note_own(487);
            }
        }
        self.cancel_pending(turn, key);
        self.conclude(turn, key);
    }

    /// What the transaction layer tells of a transaction of ours.
    pub fn handle_event(&mut self, turn: &mut Turn<'_>, event: &LayerEvent) {
        let (client, user, status) = match *event {
            LayerEvent::ClientTimeout { client, user, .. } => (client, user, 408),
            LayerEvent::ClientTransportError { client, user } => (client, user, 503),
            LayerEvent::AckTimeout { .. }
            | LayerEvent::ServerTransportError { .. }
            | LayerEvent::ClientTerminated { .. }
            | LayerEvent::ServerTerminated { .. } => return,
        };
        let Some((key, context)) = self.context(user) else { return };
        let Some(branch) = context.branch_of(client) else { return };
        if status == 408 {
            self.counters.branches_timed_out += 1;
        } else {
            self.counters.branches_unreachable += 1;
        }
        self.complete(key, branch);
        if !self.try_alternate(turn, key, branch) {
            self.fail_branch(key, branch, status);
        }
        self.conclude(turn, key);
    }

    /// Fires due timers C (§16.8): a branch that rang is cancelled, one that never answered counts as 408.
    pub fn handle_timeout(&mut self, turn: &mut Turn<'_>) {
        while let Some(timer) = self.timers.pop_due(turn.now) {
            let index = usize::from(timer.branch);
            let Some(context) = self.contexts.get_mut(timer.context) else { continue };
            let Some(leg) = context.branches.get_mut(index) else { continue };
            leg.timer_c = None;
            self.counters.branches_timed_out += 1;
            match leg.state {
                BranchState::Proceeding(client) => {
                    if turn.layer.cancel(turn.now, client, turn.out) {
                        self.counters.cancelled += 1;
                    }
                }
                // Nothing above a 100 came: whoever is there may never answer the CANCEL either.
                BranchState::Calling(client) => {
                    turn.layer.cancel(turn.now, client, turn.out);
                    self.fail_branch(timer.context, index, 408);
                    self.conclude(turn, timer.context);
                }
                BranchState::Resolving | BranchState::Completed => {}
            }
        }
    }
}
