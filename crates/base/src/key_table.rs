//! An index from a keyed 128-bit hash to a [`Key`].
//!
//! What is stored is the hash itself, not what was hashed: two Call-IDs would have to collide in 128 secret bits
//! to be confused. 25 to 50 bytes an entry. The table is cut into 256 segments by hash, and each grows on its
//! own: at a million entries the longest insert moves about 4,000 of them (some tens of µs) instead of all.

use core::fmt;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::Key;

const SEGMENTS: usize = 256;

struct Item {
    /// Both halves of the hash; as a `u128` its alignment would waste eight bytes an entry.
    low: u64,
    high: u64,
    key: Key,
}

/// See the module. The caller bounds it: every entry names something in a [`crate::Pool`].
pub struct KeyTable {
    segments: Vec<HashTable<Item>>,
    len: usize,
}

impl KeyTable {
    /// An empty table that grows as needed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty table that holds about `capacity` entries before any segment grows.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        // Segments fill unevenly: with n expected, √n more are rare, 4·√n practically never.
        let each = capacity / SEGMENTS;
        let room = if each == 0 { 0 } else { each + 4 * each.isqrt() };
        Self { segments: (0..SEGMENTS).map(|_| HashTable::with_capacity(room)).collect(), len: 0 }
    }

    /// Enters `key` under `hash`; the key that was there comes back.
    pub fn insert(&mut self, hash: u128, key: Key) -> Option<Key> {
        let (low, high) = halves(hash);
        let segment = self.segments.get_mut(segment(high))?;
        match segment.entry(low, |item| item.low == low && item.high == high, |item| item.low) {
            Entry::Occupied(mut entry) => Some(core::mem::replace(&mut entry.get_mut().key, key)),
            Entry::Vacant(entry) => {
                entry.insert(Item { low, high, key });
                self.len += 1;
                None
            }
        }
    }

    /// The key under `hash`.
    #[must_use]
    pub fn get(&self, hash: u128) -> Option<Key> {
        let (low, high) = halves(hash);
        let segment = self.segments.get(segment(high))?;
        segment.find(low, |item| item.low == low && item.high == high).map(|item| item.key)
    }

    /// Takes out the key under `hash`.
    pub fn remove(&mut self, hash: u128) -> Option<Key> {
        let (low, high) = halves(hash);
        let segment = self.segments.get_mut(segment(high))?;
        let entry = segment.find_entry(low, |item| item.low == low && item.high == high).ok()?;
        self.len -= 1;
        Some(entry.remove().0.key)
    }

    /// Takes out the key under `hash` only if it is `key`: a late removal leaves a successor in place.
    pub fn remove_exact(&mut self, hash: u128, key: Key) -> bool {
        self.get(hash) == Some(key) && self.remove(hash).is_some()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for KeyTable {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyTable({})", self.len)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
fn halves(hash: u128) -> (u64, u64) {
    (hash as u64, (hash >> 64) as u64)
}

#[expect(clippy::cast_possible_truncation, reason = "a byte of the hash")]
fn segment(high: u64) -> usize {
    high as u8 as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashKey, Pool, Rng};

    #[test]
    fn every_entry_is_found_until_removed() {
        let hash_key = HashKey::from_rng(&mut Rng::from_seed(1));
        let mut pool = Pool::new(50_000);
        let mut table = KeyTable::with_capacity(1_000);
        let hash = |n: u32| hash_key.hash128(&[&n.to_le_bytes()]);
        let keys: Vec<Key> = (0..50_000u32).map(|n| pool.insert(n).unwrap()).collect();
        assert!((0u32..).zip(&keys).all(|(n, key)| table.insert(hash(n), *key).is_none()));
        assert_eq!(table.len(), 50_000);
        assert!((0u32..).zip(&keys).all(|(n, key)| table.get(hash(n)) == Some(*key)));
        assert_eq!(table.get(hash(50_000)), None);
        assert!((0u32..).zip(&keys).all(|(n, key)| table.remove(hash(n)) == Some(*key)));
        assert!(table.is_empty() && table.get(hash(7)).is_none() && table.remove(hash(7)).is_none());
    }

    #[test]
    fn a_late_removal_leaves_the_successor() {
        let mut pool = Pool::new(2);
        let (old, new) = (pool.insert(()).unwrap(), pool.insert(()).unwrap());
        let mut table = KeyTable::new();
        assert_eq!(table.insert(9, old), None);
        assert_eq!(table.insert(9, new), Some(old));
        assert!(!table.remove_exact(9, old));
        assert_eq!(table.get(9), Some(new));
        assert!(table.remove_exact(9, new));
        // Hashes that agree in one half stay apart.
        table.insert(1, old);
        table.insert(1 << 64 | 1, new);
        table.insert(256 << 64 | 1, new);
        assert_eq!((table.get(1), table.get(1 << 64 | 1), table.len()), (Some(old), Some(new), 3));
    }

    /// One step of a public 32-bit hash.
    type Step = fn(u32, u8) -> u32;

    /// 4,096 Call-IDs that a public hash, which takes one octet after the other, sees as one (A. Joux, 2004): twelve pairs
    /// of words that lead from one state to the same next one, in every combination.
    fn colliding(step: Step) -> Vec<Vec<u8>> {
        const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.";
        let word = |n: u32| -> [u8; 8] {
            let scattered = u64::from(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            core::array::from_fn(|at| SYMBOLS[usize::try_from(scattered >> (16 + 6 * at) & 63).unwrap()])
        };
        let (mut state, mut pairs) = (0x811c_9dc5, Vec::new());
        while pairs.len() < 12 {
            let walk = |n| word(n).iter().fold(state, |state, &byte| step(state, byte));
            let pair = (0..50).find_map(|round: u32| {
                let from = round * 200_000;
                let mut ends: Vec<(u32, u32)> = (from..from + 200_000).map(|n| (walk(n), n)).collect();
                ends.sort_unstable();
                ends.windows(2).find(|two| two[0].0 == two[1].0).map(|two| [two[0].1, two[1].1])
            });
            let pair = pair.unwrap();
            state = walk(pair[0]);
            pairs.push(pair.map(word));
        }
        (0..1_usize << 12)
            .map(|bits| pairs.iter().enumerate().flat_map(|(n, p)| p[bits >> n & 1]).collect())
            .collect()
    }

    /// Entries that finding every one of `ids` compares, in all and at most for one of them.
    fn comparisons(ids: &[Vec<u8>]) -> (usize, usize) {
        let hash_key = HashKey::from_rng(&mut Rng::from_seed(2));
        let (mut pool, mut table) = (Pool::new(1 << 12), KeyTable::new());
        for id in ids {
            let key = pool.insert(()).unwrap();
            assert_eq!(table.insert(hash_key.hash128(&[id]), key), None);
        }
        let (mut sum, mut most) = (0, 0);
        for id in ids {
            let (low, high) = halves(hash_key.hash128(&[id]));
            let mut compared = 0;
            let found = table.segments[segment(high)].find(low, |item| {
                compared += 1;
                item.low == low && item.high == high
            });
            assert!(found.is_some());
            sum += compared;
            most = most.max(compared);
        }
        (sum, most)
    }

    /// THREATS 18, by operations and not by time.
    #[test]
    fn call_ids_that_collide_under_public_hashes_cost_no_more_than_others() {
        let fnv_1a: Step = |state, byte| (state ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let times_31: Step = |state, byte| state.wrapping_mul(31).wrapping_add(u32::from(byte));
        let jenkins: Step = |state, byte| {
            let state = state.wrapping_add(u32::from(byte));
            let state = state.wrapping_add(state << 10);
            state ^ (state >> 6)
        };
        let crc_32: Step = |state, byte| {
            (0..8).fold(state ^ u32::from(byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
        };
        let plain: Vec<Vec<u8>> =
            (0..1 << 12).map(|n| format!("call-{n}@example.com").into_bytes()).collect();
        let (usual, _) = comparisons(&plain);
        for step in [fnv_1a, times_31, jenkins, crc_32] {
            let ids = colliding(step);
            let hash = |id: &[u8]| id.iter().fold(0x811c_9dc5, |state, &byte| step(state, byte));
            assert!(ids.iter().all(|id| hash(id) == hash(&ids[0])), "they collide");
            let (sum, most) = comparisons(&ids);
            assert!(sum <= usual + usual / 20, "{sum} comparisons, {usual} for others");
            assert!(most <= 8, "{most} comparisons for one Call-ID");
        }
    }
}
