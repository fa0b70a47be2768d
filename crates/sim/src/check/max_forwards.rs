//! Hops: RFC 3261 §16.3 step 3, §16.6 step 3, and no loop (RFC 5393).

use core::net::SocketAddr;
use std::collections::BTreeMap;

use tandem_sip::{HeaderName, Method};

use super::{Check, Role, Wire, text};

/// A datagram crosses a node at most so often in any scenario.
const HOPS_MAX: usize = 8;

type Request = (SocketAddr, Vec<u8>, u32, Vec<u8>);

/// A node sends a request on with fewer hops left than it came with, and none that came with 0.
#[derive(Default)]
pub struct HopsCount(BTreeMap<Request, u32>);

impl Check for HopsCount {
    fn name(&self) -> &'static str {
        "Max-Forwards falls and nothing loops"
    }

    fn delivered(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        if wire.to_role == Role::Node
            && let Some((request, hops)) = hops(wire.to, wire)
        {
            let most = self.0.entry(request).or_insert(hops);
            *most = hops.max(*most);
        }
        Ok(())
    }

    fn sent(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        if wire.from_role != Role::Node {
            return Ok(());
        }
        let Some((request, hops)) = hops(wire.from, wire) else { return Ok(()) };
        if wire.message.values(HeaderName::Via).count() > HOPS_MAX {
            return Err(format!("{} loops", text(wire.message.call_id())));
        }
        match self.0.get(&request) {
            Some(most) if hops < *most => Ok(()),
            Some(most) => Err(format!("Max-Forwards {hops} sent on, {most} came")),
            None => Err(format!("{} was sent by a node that never got it", text(wire.message.call_id()))),
        }
    }
}

/// ACK and CANCEL may be a node's own, with a count of their own, and so is what has nobody else's Via.
fn hops(node: SocketAddr, wire: &Wire<'_>) -> Option<(Request, u32)> {
    let message = wire.message;
    let is_own = wire.from_role == Role::Node && message.values(HeaderName::Via).nth(1).is_none();
    if !message.is_request() || is_own || matches!(message.method(), Method::Ack | Method::Cancel) {
        return None;
    }
    let hops = message.number(HeaderName::MaxForwards).ok().flatten()?;
    let cseq = message.cseq();
    Some(((node, message.call_id().to_vec(), cseq.number, cseq.method_token.to_vec()), hops))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::see;

    fn invite(hops: u32) -> Vec<u8> {
        format!(
            "INVITE sip:c@b SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKb\r\n\
             Via: SIP/2.0/UDP 10.0.1.1;branch=z9hG4bKa\r\nMax-Forwards: {hops}\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:c@b>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn a_hop_that_does_not_count_is_found() {
        let mut check = HopsCount::default();
        see(Role::Phone, Role::Node, &invite(70), |wire| check.delivered(wire)).unwrap();
        assert!(see(Role::Node, Role::Phone, &invite(69), |wire| check.sent(wire)).is_ok());
        assert!(see(Role::Node, Role::Phone, &invite(70), |wire| check.sent(wire)).is_err());
        let mut check = HopsCount::default();
        assert!(see(Role::Node, Role::Phone, &invite(69), |wire| check.sent(wire)).is_err(), "from nowhere");
    }
}
