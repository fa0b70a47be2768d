//! Via: RFC 3261 §16.7 step 3, §18.1.2: a response comes back to its sender with that sender's Via and no other.

use core::net::SocketAddr;
use std::collections::BTreeSet;

use tandem_sip::HeaderName;

use super::{Check, Role, Wire, text};

/// Every response that reaches a telephone has exactly the Via that the telephone sent.
#[derive(Default)]
pub struct ViaKept(BTreeSet<(SocketAddr, Vec<u8>)>);

impl Check for ViaKept {
    fn name(&self) -> &'static str {
        "responses have exactly their sender's Via"
    }

    fn sent(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        if wire.from_role == Role::Phone && wire.message.is_request() {
            self.0.insert((wire.from, wire.message.via().branch.unwrap_or_default().to_vec()));
        }
        Ok(())
    }

    fn delivered(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        if wire.to_role != Role::Phone || wire.message.is_request() {
            return Ok(());
        }
        let vias = wire.message.values(HeaderName::Via).count();
        let branch = wire.message.via().branch.unwrap_or_default();
        if vias == 1 && self.0.contains(&(wire.to, branch.to_vec())) {
            return Ok(());
        }
        Err(format!("{} got a response with {vias} Via values and branch {}", wire.to, text(branch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::see;

    fn message(start: &str, vias: &[&str]) -> Vec<u8> {
        let vias: String =
            vias.iter().map(|branch| format!("Via: SIP/2.0/UDP 10.0.1.1;branch={branch}\r\n")).collect();
        format!(
            "{start}\r\n{vias}From: <sip:a@b>;tag=1\r\nTo: <sip:c@b>\r\nCall-ID: x\r\nCSeq: 1 OPTIONS\r\n\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn a_response_with_another_via_is_found() {
        let mut check = ViaKept::default();
        let asked = message("OPTIONS sip:b SIP/2.0", &["z9hG4bKa"]);
        see(Role::Phone, Role::Node, &asked, |wire| check.sent(wire)).unwrap();
        let mut arrives = |vias: &[&str]| {
            let answer = message("SIP/2.0 200 OK", vias);
            see(Role::Node, Role::Phone, &answer, |wire| check.delivered(wire)).is_ok()
        };
        assert!(arrives(&["z9hG4bKa"]));
        assert!(!arrives(&["z9hG4bKb"]) && !arrives(&["z9hG4bKa", "z9hG4bKa"]));
    }
}
