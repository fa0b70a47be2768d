//! Dialogs at the end: one for a forked call, and none that only one side believes in.

use std::collections::BTreeMap;

use super::{Check, text};
use crate::World;

/// A forked call is answered once: no caller is left with two dialogs of one call (RFC 3261 §13.2.2.4).
pub struct OneDialog;

impl Check for OneDialog {
    fn name(&self) -> &'static str {
        "no forked call is answered twice"
    }

    fn at_end(&mut self, world: &World) -> Result<(), String> {
        for (_, name, ua) in world.phones() {
            let mut calls: BTreeMap<(Vec<u8>, Vec<u8>), u32> = BTreeMap::new();
            for dialog in ua.live_dialogs() {
                let Some((call_id, local, _)) = ua.dialog_name(dialog) else { continue };
                let count = calls.entry((call_id.to_vec(), local.to_vec())).or_default();
                *count += 1;
                if *count > 1 {
                    return Err(format!("{name} has two dialogs of {}", text(call_id)));
                }
            }
        }
        Ok(())
    }
}

/// A dialog that lives at one telephone lives at the other.
pub struct NoOrphan;

impl Check for NoOrphan {
    fn name(&self) -> &'static str {
        "both sides of a dialog live or none"
    }

    fn at_end(&mut self, world: &World) -> Result<(), String> {
        for (id, name, ua) in world.phones() {
            for dialog in ua.live_dialogs() {
                let Some((call_id, local, remote)) = ua.dialog_name(dialog) else { continue };
                let is_there = world.phones().any(|(other, _, peer)| {
                    other != id
                        && peer
                            .find_dialog(call_id, remote, local)
                            .is_some_and(|dialog| peer.live_dialogs().any(|live| live == dialog))
                });
                if !is_there {
                    return Err(format!("{name} is alone in {}", text(call_id)));
                }
            }
        }
        Ok(())
    }
}
