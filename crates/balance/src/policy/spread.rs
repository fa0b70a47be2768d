//! From a hash to a destination: `hash mod N`, and where to if that one can't take it.
//!
//! A number keeps its destination while others come up and go down, so only the share of a dead one moves, and it is
//! spread anew over all that are left instead of falling on a neighbour. One in slow start takes the part of its
//! numbers that its share allows.

use crate::Slot;
use crate::members::{Member, Tier};
use crate::policy::Pick;

/// Draws among the remaining ones before the first of them is taken.
const ATTEMPTS: u64 = 16;

/// The destination for `hash` in the lowest tier that has one.
pub(super) fn spread(pick: &Pick<'_>, hash: u64) -> Option<Slot> {
    pick.members.tiers().iter().find_map(|tier| {
        let home = tier.all.modulo(hash).filter(|&slot| {
            pick.is_free(slot) && pick.members.get(slot).is_some_and(|member| takes(member, hash))
        });
        home.or_else(|| elsewhere(pick, tier, hash))
    })
}

/// True for the part of a starting destination's numbers that it takes already.
fn takes(member: &Member, hash: u64) -> bool {
    member.start >= 1000 || mix(hash ^ member.id) % 1000 < u64::from(member.start)
}

fn elsewhere(pick: &Pick<'_>, tier: &Tier, hash: u64) -> Option<Slot> {
    let draws =
        (1..=ATTEMPTS).filter_map(|attempt| tier.eligible.modulo(mix(hash.wrapping_add(attempt << 32))));
    let mut rest = tier.eligible.items().iter().copied();
    draws.into_iter().find(|&slot| pick.is_free(slot)).or_else(|| rest.find(|&slot| pick.is_free(slot)))
}

/// Spreads a word over all 64 bits: the finaliser of MurmurHash3 (Appleby 2011), a bijection.
pub(super) const fn mix(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}
