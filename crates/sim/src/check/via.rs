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
