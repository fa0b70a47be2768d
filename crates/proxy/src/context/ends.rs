//! What ends branches but a response: CANCEL, silence, the network, timer C (RFC 3261 §16.7 step 10, §16.8 to §16.10).

use tandem_base::Key;
use tandem_transaction::Event as LayerEvent;

use super::BranchState;
use crate::{Proxy, Turn};

impl Proxy {
    pub(super) fn cancel_pending(&mut self, turn: &mut Turn<'_>, key: Key) {
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
