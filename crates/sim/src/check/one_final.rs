//! One final response per transaction: RFC 3261 §17.1, §16.7 steps 5 and 6.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use tandem_sip::Method;

use super::{Check, Role, Wire, tag, text};
use crate::{NodeId, World};

type Transaction = (SocketAddr, Vec<u8>, Vec<u8>);

/// No caller is sent two different final responses to one transaction.
///
/// An INVITE may get any number of 2xx with tags of their own, even after a failure (§16.7 step 5), but no failure
/// after a 2xx and no second failure. A node that has crashed knows nothing of what it said before.
#[derive(Default)]
pub struct OneFinal(BTreeMap<Transaction, Vec<(u16, Vec<u8>)>>);

impl Check for OneFinal {
    fn name(&self) -> &'static str {
        "one final response per transaction"
    }

    fn sent(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        let message = wire.message;
        let status = message.status();
        if message.is_request() || status < 200 || wire.from_role != Role::Node || wire.to_role != Role::Phone
        {
            return Ok(());
        }
        let branch = message.via().branch.unwrap_or_default().to_vec();
        let method = message.cseq().method_token.to_vec();
        let finals = self.0.entry((wire.to, branch, method)).or_default();
        let this = (status, tag(message.to()).to_vec());
        if finals.contains(&this) {
            return Ok(());
        }
        let is_invite = message.cseq().method == Method::Invite;
        let is_success = status < 300;
        // A full table refuses without state: the repetition of a request whose 503 was lost may find room.
        let is_fresh = finals.iter().all(|(status, _)| *status == 503);
        // It forwards a BYE without state: the repetition of one whose 200 was lost may find room and so get another
        // branch, under which the callee, who has hung up, does not know it.
        let is_over = message.cseq().method == Method::Bye && status == 481;
        let allowed = is_fresh || is_invite && is_success || is_over;
        finals.push(this);
        if allowed {
            return Ok(());
        }
        Err(format!("{} got {finals:?} for {}", wire.to, text(message.call_id())))
    }

    fn crashed(&mut self, _node: NodeId, _world: &World) -> Result<(), String> {
        self.0.clear();
        Ok(())
    }
}
