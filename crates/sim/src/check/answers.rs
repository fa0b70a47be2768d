//! ACKs of 2xx (RFC 3261 §13.2.2.4), and what one turn may say.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use tandem_base::Instant;
use tandem_sip::{Index, Limits, Message, Method, Outbox};

use super::{Check, Role, Wire, tag, text};
use crate::World;

type Invite = (SocketAddr, Vec<u8>, u32);
type Answered = (SocketAddr, Vec<u8>, u32, Vec<u8>);

/// Timer B (RFC 3261 §17.1.1.2).
const TIMER_B: Duration = Duration::from_secs(32);

/// Every 2xx to an INVITE that reaches a caller is acknowledged, unless the caller's transaction had ended: by timer B
/// before anything reached it, or by a failure, after which it takes no 2xx (§17.1.1.2, fig. 5).
#[derive(Default)]
pub struct SuccessAcknowledged {
    acknowledged: BTreeMap<Answered, bool>,
    /// When an INVITE was first sent that has heard nothing yet.
    unheard: BTreeMap<Invite, Instant>,
    failed: BTreeSet<Invite>,
}

impl Check for SuccessAcknowledged {
    fn name(&self) -> &'static str {
        "every 2xx is acknowledged"
    }

    fn sent(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        let message = wire.message;
        if message.is_request() && message.method() == Method::Ack && wire.from_role == Role::Phone {
            let key =
                (wire.from, message.call_id().to_vec(), message.cseq().number, tag(message.to()).to_vec());
            self.acknowledged.insert(key, true);
        }
        if message.is_request() && message.method() == Method::Invite && wire.from_role == Role::Phone {
            let invite = (wire.from, message.call_id().to_vec(), message.cseq().number);
            self.unheard.entry(invite).or_insert(wire.at);
        }
        Ok(())
    }

    fn delivered(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        let message = wire.message;
        if message.is_request() || message.cseq().method != Method::Invite || wire.to_role != Role::Phone {
            return Ok(());
        }
        let invite = (wire.to, message.call_id().to_vec(), message.cseq().number);
        if self.unheard.get(&invite).is_some_and(|sent| wire.at - *sent >= TIMER_B) {
            return Ok(());
        }
        self.unheard.remove(&invite);
        if message.status() >= 300 {
            self.failed.insert(invite);
        } else if message.status() >= 200 && !self.failed.contains(&invite) {
            let key =
                (wire.to, message.call_id().to_vec(), message.cseq().number, tag(message.to()).to_vec());
            self.acknowledged.entry(key).or_insert(false);
        }
        Ok(())
    }

    fn at_end(&mut self, _world: &World) -> Result<(), String> {
        match self.acknowledged.iter().find(|(_, acknowledged)| !**acknowledged) {
            None => Ok(()),
            Some(((at, call_id, ..), _)) => Err(format!("{at} never acknowledged {}", text(call_id))),
        }
    }
}

/// A node gives at most one final response in one turn, and none to an ACK or to what it can't read.
///
/// Told by the start lines alone: an answer passed on may be as broken as it came.
pub struct OneAnswer;

impl Check for OneAnswer {
    fn name(&self) -> &'static str {
        "at most one answer to one datagram"
    }

    fn turn(&mut self, from: SocketAddr, bytes: &[u8], out: &Outbox) -> Result<(), String> {
        let mut index = Index::new();
        let Ok(request) = Message::parse(bytes, &mut index, &Limits::default()) else {
            return if out.is_empty() { Ok(()) } else { Err("what can't be read was answered".to_owned()) };
        };
        if !request.is_request() {
            return Ok(());
        }
        let is_final = |bytes: &[u8]| {
            bytes.strip_prefix(b"SIP/2.0 ").and_then(<[u8]>::first).is_some_and(|class| *class > b'1')
        };
        let finals = out.iter().filter(|(hop, bytes)| hop.peer.ip() == from.ip() && is_final(bytes)).count();
        // A CANCEL's own answer goes beside the 487 of its INVITE.
        let is = |method: Method| request.method() == method;
        let allowed = if is(Method::Ack) { 0 } else { 1 + usize::from(is(Method::Cancel)) };
        if finals <= allowed { Ok(()) } else { Err(format!("{finals} final answers to {}", text(bytes))) }
    }
}

#[cfg(test)]
mod tests {
    use tandem_sip::{Hop, ListenerId};

    use super::*;
    use crate::check::{OneFinal, see};

    fn response(status: u16, to_tag: &str) -> Vec<u8> {
        format!(
            "SIP/2.0 {status} X\r\nVia: SIP/2.0/UDP 10.0.1.1;branch=z9hG4bKa\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@b>;tag={to_tag}\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn a_second_failure_is_found_and_a_second_fork_is_none() {
        let mut check = OneFinal::default();
        let mut sent = |status, tag| {
            see(Role::Node, Role::Phone, &response(status, tag), |wire| check.sent(wire)).is_ok()
        };
        assert!(sent(200, "a") && sent(200, "a") && sent(200, "b"));
        assert!(!sent(486, "c"));
        let mut check = OneFinal::default();
        let mut sent = |status, tag| {
            see(Role::Node, Role::Phone, &response(status, tag), |wire| check.sent(wire)).is_ok()
        };
        assert!(sent(486, "a") && sent(486, "a") && !sent(487, "a"));
    }

    #[test]
    fn a_2xx_without_ack_is_found_unless_the_callers_transaction_had_ended() {
        for (heard, first, is_owed) in [(31, 180, true), (33, 180, false), (31, 482, false)] {
            let mut check = SuccessAcknowledged::default();
            let invite = b"INVITE sip:c@b SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.1.1;branch=z9hG4bKa\r\n\
                From: <sip:a@b>;tag=1\r\nTo: <sip:c@b>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\r\n";
            see(Role::Phone, Role::Node, invite, |wire| check.sent(wire)).unwrap();
            for (at, status) in [(heard, first), (40, 200)] {
                see(Role::Node, Role::Phone, &response(status, "a"), |wire| {
                    check.delivered(&Wire { at: Instant::from_secs(at), ..*wire })
                })
                .unwrap();
            }
            assert_eq!(check.acknowledged.len(), usize::from(is_owed));
        }
    }

    #[test]
    fn two_answers_to_one_datagram_are_found() {
        let request = b"OPTIONS sip:b SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.1.1;branch=z9hG4bKa\r\n\
            From: <sip:a@b>;tag=1\r\nTo: <sip:c@b>\r\nCall-ID: x\r\nCSeq: 1 OPTIONS\r\n\r\n";
        let from: SocketAddr = "10.0.1.1:5060".parse().unwrap();
        let mut out = Outbox::new();
        out.send(Hop::udp(ListenerId(0), from), &response(200, "a"));
        assert!(OneAnswer.turn(from, request, &out).is_ok());
        out.send(Hop::udp(ListenerId(0), from), &response(404, "a"));
        assert!(OneAnswer.turn(from, request, &out).is_err());
    }
}
