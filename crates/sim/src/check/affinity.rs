//! Session affinity: a request within a dialog reaches the telephone that the dialog is with, and no other.

use core::net::SocketAddr;
use std::collections::BTreeSet;

use super::{Check, Role, Wire, tag, text};

/// Whatever reaches a telephone with a To tag carries a tag that this very telephone made (RFC 3261 §12.2.2), or that
/// nobody did.
///
/// A balancer that sends an ACK, a BYE or a re-INVITE to another destination than the first request breaks this.
#[derive(Default)]
pub struct Affinity {
    made: BTreeSet<(SocketAddr, Vec<u8>)>,
    known: BTreeSet<Vec<u8>>,
}

impl Check for Affinity {
    fn name(&self) -> &'static str {
        "requests within a dialog reach their own telephone"
    }

    fn sent(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        if wire.from_role == Role::Phone {
            let message = wire.message;
            let own = tag(if message.is_request() { message.from() } else { message.to() });
            self.made.insert((wire.from, own.to_vec()));
            self.known.insert(own.to_vec());
        }
        Ok(())
    }

    fn delivered(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        let message = wire.message;
        let tag = tag(message.to());
        if wire.to_role != Role::Phone || !message.is_request() || tag.is_empty() || !self.known.contains(tag)
        {
            return Ok(());
        }
        if self.made.contains(&(wire.to, tag.to_vec())) {
            return Ok(());
        }
        let (method, call_id) = (text(message.method_token()), text(message.call_id()));
        Err(format!("{method} of {call_id} for another telephone reached {}", wire.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::see;

    fn message(start: &str, to_tag: &str) -> Vec<u8> {
        format!(
            "{start}\r\nVia: SIP/2.0/UDP 10.0.1.1;branch=z9hG4bKa\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@b>;tag={to_tag}\r\nCall-ID: x\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn a_bye_at_another_telephone_is_found() {
        let mut check = Affinity::default();
        see(Role::Phone, Role::Node, &message("SIP/2.0 200 OK", "mine"), |wire| check.sent(wire)).unwrap();
        let mut arrives = |tag| {
            see(Role::Node, Role::Phone, &message("BYE sip:c@b SIP/2.0", tag), |wire| check.delivered(wire))
        };
        assert!(arrives("mine").is_ok() && arrives("nobodys").is_ok());
        let elsewhere = SocketAddr::from(([10, 0, 1, 9], 5060));
        check.made = check.made.iter().map(|(_, tag)| (elsewhere, tag.clone())).collect();
        let bye = message("BYE sip:c@b SIP/2.0", "mine");
        assert!(see(Role::Node, Role::Phone, &bye, |wire| check.delivered(wire)).is_err());
    }
}
