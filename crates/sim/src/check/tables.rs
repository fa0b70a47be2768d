//! Everything ends: no transaction, context or timer is left when nothing is to come any more.

use super::Check;
use crate::World;

/// All tables of all hosts are empty.
pub struct TablesDrain;

impl Check for TablesDrain {
    fn name(&self) -> &'static str {
        "tables drain to zero"
    }

    fn at_end(&mut self, world: &World) -> Result<(), String> {
        for (_, name, shards) in world.nodes_up() {
            for shard in shards {
                let left = (shard.transactions().len(), shard.proxy().len(), shard.in_progress());
                if !shard.is_idle() || shard.poll_timeout().is_some() {
                    return Err(format!("{name} has {left:?} left"));
                }
            }
        }
        for (_, name, ua) in world.phones() {
            if !ua.is_idle() {
                return Err(format!("{name} is not idle"));
            }
        }
        Ok(())
    }
}
