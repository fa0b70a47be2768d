//! FNVHash: the 32-bit FNV-1 of the Call-ID, mod N (Jiang et al. 2009, §III; Fowler, Noll, Vo).
//!
//! It fills buckets more evenly than OpenSER's hash. It has no secret either: see `hash`.

use super::spread::spread;
use super::{Pick, Policy};
use crate::members::Members;
use crate::{Load, PoolSettings, Slot};

struct Fnv;

pub(super) fn make(_: &PoolSettings) -> Box<dyn Policy> {
    Box::new(Fnv)
}

impl Policy for Fnv {
    fn reshape(&mut self, _: &Members, _: &[Load]) {}

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        spread(pick, u64::from(fnv1(pick.choice.call_id)))
    }
}

/// FNV-1: multiply, then add the octet in.
#[must_use]
pub fn fnv1(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |hash: u32, &octet| hash.wrapping_mul(0x0100_0193) ^ u32::from(octet))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the test vectors of the FNV authors (draft-eastlake-fnv, `test_fnv.c`).
    #[test]
    fn fnv1_agrees_with_its_authors() {
        assert_eq!(fnv1(b""), 0x811c_9dc5);
        assert_eq!(fnv1(b"a"), 0x050c_5d7e);
        assert_eq!(fnv1(b"foobar"), 0x31f0_b262);
    }
}
