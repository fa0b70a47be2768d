//! A binding that was acknowledged is kept (RFC 3261 §10.3; `durability = "commit"`), and one taken away stays away.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use tandem_base::Instant;
use tandem_node::Durability;
use tandem_sip::{HeaderName, Method, NameAddr};

use super::{Check, Role, Wire, text};
use crate::{NodeId, World};

/// What a telephone knows of its binding at one node.
#[derive(Debug)]
struct Known {
    aor: Vec<u8>,
    /// CSeq number of the last REGISTER sent.
    asked: u32,
    /// The last one acknowledged, and until when the binding holds; `None` if it was taken away.
    granted: Option<(u32, Option<Instant>)>,
}

/// What a 200 to a REGISTER said holds at the end, unless it ran out or was asked to change.
#[derive(Default)]
pub struct BindingsKept {
    known: BTreeMap<(SocketAddr, SocketAddr), Known>,
    forgetful: Vec<SocketAddr>,
}

impl Check for BindingsKept {
    fn name(&self) -> &'static str {
        "a binding acknowledged is a binding kept"
    }

    fn sent(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        let message = wire.message;
        if message.is_request() && message.method() == Method::Register && wire.from_role == Role::Phone {
            let aor = message.to().map(|to| to.uri_bytes.to_vec()).unwrap_or_default();
            // One telephone takes the bindings of all away: what the others know is void.
            if message.header(HeaderName::Contact) == Some(b"*") {
                self.known
                    .values_mut()
                    .filter(|known| known.aor == aor)
                    .for_each(|known| known.granted = None);
            }
            let new = Known { aor, asked: 0, granted: None };
            let known = self.known.entry((wire.from, wire.to)).or_insert(new);
            known.asked = known.asked.max(message.cseq().number);
        }
        Ok(())
    }

    fn delivered(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        let message = wire.message;
        let is_ok = message.status() == 200 && message.cseq().method == Method::Register;
        if let Some(known) = self.known.get_mut(&(wire.to, wire.from)).filter(|_| is_ok) {
            let own = format!("@{}", wire.to);
            let until = message.values(HeaderName::Contact).find_map(|value| {
                let contact = NameAddr::parse(value.bytes)?;
                let expires = text(contact.param(b"expires")?.value?).parse().ok()?;
                // The 200 was written before it arrived: the binding may end that much earlier.
                let until = wire.at + Duration::from_secs(expires);
                text(contact.uri_bytes).ends_with(&own).then_some(until)
            });
            let number = message.cseq().number;
            if known.granted.is_none_or(|(last, _)| last < number) {
                known.granted = Some((number, until));
            }
        }
        Ok(())
    }

    fn crashed(&mut self, node: NodeId, world: &World) -> Result<(), String> {
        if world.config(node).durability != Durability::Commit {
            self.forgetful.push(world.node_address(node));
        }
        Ok(())
    }

    fn at_end(&mut self, world: &World) -> Result<(), String> {
        for (id, name, _) in world.nodes_up() {
            let address = world.node_address(id);
            if self.forgetful.contains(&address) {
                continue;
            }
            for ((phone, _), known) in self.known.iter().filter(|((_, node), _)| *node == address) {
                let Some((_, until)) = known.granted.filter(|(number, _)| *number == known.asked) else {
                    continue;
                };
                let mut is_bound = false;
                let aor = known.aor.strip_prefix(b"sip:").unwrap_or(&known.aor);
                world.locations(id).lookup(aor, world.now(), |binding| {
                    is_bound |= text(binding.contact).ends_with(&format!("@{phone}"));
                });
                let should = until.is_some_and(|until| until > world.now() + Duration::from_secs(40));
                if should && !is_bound {
                    return Err(format!("{name} lost {phone} of {}", text(aor)));
                }
                if until.is_none() && is_bound {
                    return Err(format!("{name} has {phone} of {} again", text(aor)));
                }
            }
        }
        Ok(())
    }
}
