//! The response context (RFC 3261 §16.7): one forwarded request, its branches, and what they answered.

mod answers;
mod branches;
mod ends;

use smallvec::SmallVec;
use tandem_base::{Instant, Key, TimerId};
use tandem_sip::{Hop, Index, Limits, Message, Method, Scheme, Span, Uri};
use tandem_transaction::{ClientId, ServerId};

use crate::best::Best;
use crate::forward::Forwarding;
use crate::targets::{NextHop, TargetSet};
use crate::{Proxy, Rejection, Turn};

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
    /// Forwards a request with state to every target (§16.6), in groups as [`Fork`](crate::Fork) says.
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

    pub(crate) fn new_tag(&mut self) -> [u8; 16] {
        crate::branch::hex64(self.rng.next_u64())
    }
}
