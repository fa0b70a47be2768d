//! Replay protection without a lock: RFC 7616 §3.4 (`nc`), §5.4.
//!
//! A nonce hashes to one slot of a fixed array. The slot holds one number: the issue time of the latest nonce used
//! there (40 bits) above the highest count used with it (24 bits). Credentials pass only if their number exceeds
//! the slot's, which one atomic maximum decides for all threads at once. The number never falls, so nothing passes
//! twice: neither a count, nor a nonce displaced by a newer one. The price of a collision is that the older
//! nonce's owner is challenged again with `stale=TRUE`, which phones answer without asking anybody.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use tandem_base::HashKey;

use crate::nonce::{Nonce, Stamp};

const COUNT_BITS: u32 = 24;

/// The highest counts used, shared by all shards of a node; 8 bytes a slot.
pub struct NonceCounts {
    slots: Box<[AtomicU64]>,
    key: HashKey,
}

impl NonceCounts {
    /// Slots enough that a million phones seldom displace each other's nonces: 8 MiB.
    pub const SLOTS_DEFAULT: usize = 1 << 20;

    /// An array of `slots` rounded up to a power of two, which refuses nonces issued up to `not_before_unix_ms`.
    ///
    /// Give the moment the process started: what was used before is forgotten, so older nonces must not pass.
    /// `key` may be this process's own.
    #[must_use]
    pub fn new(key: &HashKey, slots: usize, not_before_unix_ms: u64) -> Self {
        let floor = pack(Stamp::from_unix_ms(not_before_unix_ms), (1 << COUNT_BITS) - 1);
        let slots = slots.max(1).next_power_of_two();
        Self {
            slots: core::iter::repeat_with(|| AtomicU64::new(floor)).take(slots).collect(),
            key: key.derive(b"nonce counts"),
        }
    }

    /// True if the count exceeds all that were used with this nonce and no newer nonce took its slot; it is then
    /// used up. Counts above 2^24 − 1 never pass.
    pub(crate) fn use_up(&self, nonce: &Nonce, nc: u32) -> bool {
        if nc >> COUNT_BITS != 0 {
            return false;
        }
        let number = pack(nonce.stamp, nc);
        #[expect(clippy::cast_possible_truncation, reason = "the low bits choose the slot")]
        let slot = self.key.hash64(&[&nonce.bytes]) as usize & (self.slots.len() - 1);
        // Relaxed is enough: the slot's own order of changes is all that is relied on.
        self.slots.get(slot).is_some_and(|slot| slot.fetch_max(number, Ordering::Relaxed) < number)
    }
}

impl fmt::Debug for NonceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NonceCounts({} slots)", self.slots.len())
    }
}

fn pack(stamp: Stamp, nc: u32) -> u64 {
    stamp.as_millis() << COUNT_BITS | u64::from(nc)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: u64 = 1_800_000_000_000;

    fn nonce(ms: u64, random: u8) -> Nonce {
        Nonce { stamp: Stamp::from_unix_ms(START + ms), bytes: [random; 24] }
    }

    fn counts(slots: usize) -> NonceCounts {
        NonceCounts::new(&HashKey::from_bytes([1; 16]), slots, START)
    }

    #[test]
    fn counts_must_rise_and_older_nonces_give_way() {
        let counts = counts(1);
        assert!(!counts.use_up(&nonce(0, 1), 1), "issued before the start");
        assert!(counts.use_up(&nonce(1, 1), 1) && !counts.use_up(&nonce(1, 1), 1));
        assert!(counts.use_up(&nonce(1, 1), 3) && !counts.use_up(&nonce(1, 1), 2));
        assert!(counts.use_up(&nonce(2, 2), 1) && !counts.use_up(&nonce(1, 1), 4));
        assert!(!counts.use_up(&nonce(2, 2), 1 << 24) && !counts.use_up(&nonce(2, 2), u32::MAX));
        assert!(counts.use_up(&nonce(2, 2), (1 << 24) - 1));
    }

    /// Four threads present the same thousand credentials; none passes twice.
    #[test]
    fn of_threads_that_race_one_wins() {
        let counts = counts(64);
        let wins: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (1..=1000).filter(|&nc| counts.use_up(&nonce(5, 9), nc)).count()))
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        assert!((1..=1000).contains(&wins), "{wins}");
        assert!(!counts.use_up(&nonce(5, 9), 1000));
    }

    proptest! {
        /// Whatever the order and the collisions, no (nonce, count) passes twice.
        #[test]
        fn nothing_passes_twice(uses in prop::collection::vec((1..6u64, 0..4u8, 1..6u32), 1..400)) {
            let counts = counts(2);
            let mut passed = Vec::new();
            for (ms, random, nc) in uses {
                if counts.use_up(&nonce(ms, random), nc) {
                    prop_assert!(!passed.contains(&(ms, random, nc)));
                    passed.push((ms, random, nc));
                }
            }
            prop_assert!(!passed.is_empty());
        }
    }
}
