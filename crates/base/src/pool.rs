//! A slab with a hard capacity whose keys go stale when their entry leaves.
//!
//! Entries lie in pages of 4096, so growth never copies what is there and one insert never stalls for many. Free
//! slots form a list inside the slots. A slot's generation steps when its entry leaves; a key held too long finds
//! nothing rather than a stranger (until 2^32 − 1 further entries went through the very same slot).

use core::fmt;
use core::num::NonZeroU32;

const PAGE_BITS: u32 = 12;
const PAGE: usize = 1 << PAGE_BITS;
const NO_SLOT: u32 = u32::MAX;

/// Names an entry of a [`Pool`]: 8 bytes, and so is `Option<Key>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    slot: u32,
    generation: NonZeroU32,
}

impl Key {
    /// The key as a number, for a branch parameter or a user-data field: generation above, slot below.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation.get() as u64) << 32 | self.slot as u64
    }

    /// The key of [`Key::to_bits`]; `None` for a number that no key has (its upper half is zero).
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
        let (slot, generation) = (bits as u32, (bits >> 32) as u32);
        match NonZeroU32::new(generation) {
            Some(generation) => Some(Self { slot, generation }),
            None => None,
        }
    }

    /// The place in the pool: below its capacity, and used again by later entries.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.slot, self.generation)
    }
}

/// The pool holds as many entries as it may. The caller refuses the work (503) and counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the table is full")
    }
}

impl core::error::Error for Full {}

struct Slot<T> {
    generation: NonZeroU32,
    entry: Entry<T>,
}

enum Entry<T> {
    Used(T),
    Free { next: u32 },
}

/// See the module.
pub struct Pool<T> {
    pages: Vec<Vec<Slot<T>>>,
    /// First of the free slots among those ever used, or `NO_SLOT`.
    free: u32,
    /// Slots ever used; the next fresh one has this number.
    fresh: u32,
    len: u32,
    capacity: u32,
}

impl<T> Pool<T> {
    /// An empty pool for at most `capacity` entries; memory comes page by page as it fills.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self { pages: Vec::new(), free: NO_SLOT, fresh: 0, len: 0, capacity: capacity.min(NO_SLOT - 1) }
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// [`Full`] at capacity; the entry is dropped. Ask [`Pool::is_full`] first to keep it.
    pub fn insert(&mut self, value: T) -> Result<Key, Full> {
        self.insert_with(|_| value)
    }

    /// Adds the entry that `make` builds knowing its own key.
    ///
    /// # Errors
    ///
    /// [`Full`] at capacity; `make` is not called.
    pub fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Result<Key, Full> {
        if self.is_full() {
            return Err(Full);
        }
        let number = self.free;
        if let Some(slot) = self.slot_mut(number)
            && let Entry::Free { next } = slot.entry
        {
            let key = Key { slot: number, generation: slot.generation };
            slot.entry = Entry::Used(make(key));
            self.free = next;
            self.len += 1;
            return Ok(key);
        }
        let key = Key { slot: self.fresh, generation: NonZeroU32::MIN };
        let fresh = Slot { generation: key.generation, entry: Entry::Used(make(key)) };
        match self.pages.last_mut() {
            Some(page) if page.len() < PAGE => page.push(fresh),
            Some(_) | None => {
                let left = (self.capacity - self.fresh) as usize;
                let mut page = Vec::with_capacity(left.min(PAGE));
                page.push(fresh);
                self.pages.push(page);
            }
        }
        self.fresh += 1;
        self.len += 1;
        Ok(key)
    }

    /// The entry, unless it left.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        match self.slot(key.slot) {
            Some(Slot { generation, entry: Entry::Used(value) }) if *generation == key.generation => {
                Some(value)
            }
            Some(_) | None => None,
        }
    }

    /// The entry to change, unless it left.
    #[must_use]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slot_mut(key.slot) {
            Some(Slot { generation, entry: Entry::Used(value) }) if *generation == key.generation => {
                Some(value)
            }
            Some(_) | None => None,
        }
    }

    /// True until the entry leaves.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// Takes the entry out; its key, and all copies of it, find nothing from now on.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let free = self.free;
        let slot = self.slot_mut(key.slot)?;
        if slot.generation != key.generation || matches!(slot.entry, Entry::Free { .. }) {
            return None;
        }
        slot.generation = slot.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let Entry::Used(value) = core::mem::replace(&mut slot.entry, Entry::Free { next: free }) else {
            return None; // excluded above
        };
        self.free = key.slot;
        self.len -= 1;
        Some(value)
    }

    /// The key of whatever entry lies in `slot` now.
    #[must_use]
    pub fn key_at(&self, slot: u32) -> Option<Key> {
        match self.slot(slot) {
            Some(Slot { generation, entry: Entry::Used(_) }) => Some(Key { slot, generation: *generation }),
            Some(_) | None => None,
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True when the next insert is refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    /// The bound given at construction.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// All entries, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0u32..).zip(self.pages.iter().flatten()).filter_map(|(number, slot)| match &slot.entry {
            Entry::Used(value) => Some((Key { slot: number, generation: slot.generation }, value)),
            Entry::Free { .. } => None,
        })
    }

    /// All entries to change, in the order of their slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        (0u32..).zip(self.pages.iter_mut().flatten()).filter_map(|(number, slot)| match &mut slot.entry {
            Entry::Used(value) => Some((Key { slot: number, generation: slot.generation }, value)),
            Entry::Free { .. } => None,
        })
    }

    fn slot(&self, number: u32) -> Option<&Slot<T>> {
        self.pages.get((number >> PAGE_BITS) as usize)?.get(number as usize % PAGE)
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut Slot<T>> {
        self.pages.get_mut((number >> PAGE_BITS) as usize)?.get_mut(number as usize % PAGE)
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} of {})", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_pool_refuses_until_an_entry_leaves() {
        let mut pool = Pool::new(2);
        let first = pool.insert('a').unwrap();
        pool.insert('b').unwrap();
        assert_eq!(pool.insert('c'), Err(Full));
        assert_eq!(pool.remove(first), Some('a'));
        let third = pool.insert_with(|key| if key.slot() == first.slot() { 'd' } else { 'x' }).unwrap();
        assert_eq!((pool.get(first), pool.get(third)), (None, Some(&'d')));
        assert_eq!(pool.remove(first), None);
        assert_eq!((pool.len(), pool.capacity(), Pool::<u8>::new(0).insert(1)), (2, 2, Err(Full)));
    }

    #[test]
    fn a_key_survives_the_trip_through_bits_in_eight_bytes() {
        let mut pool = Pool::new(10);
        let key = pool.insert(()).unwrap();
        assert_eq!(Key::from_bits(key.to_bits()), Some(key));
        assert_eq!(Key::from_bits(17), None);
        assert_eq!((size_of::<Key>(), size_of::<Option<Key>>()), (8, 8));
        let forged = Key::from_bits(1 << 32 | 0xffff_ffff).unwrap();
        assert_eq!(pool.get(forged), None);
        assert_eq!(pool.remove(forged), None);
    }

    proptest! {
        /// Any mix of inserts and removals agrees with a map; every key ever given out stays unique.
        #[test]
        fn pool_agrees_with_a_map(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..600)) {
            let mut pool = Pool::new(200);
            let mut oracle = BTreeMap::new();
            let mut given = Vec::new();
            for (number, (add, pick)) in steps.into_iter().enumerate() {
                if add || given.is_empty() {
                    match pool.insert(number) {
                        Ok(key) => {
                            prop_assert!(!given.contains(&key));
                            given.push(key);
                            oracle.insert(key, number);
                        }
                        Err(Full) => prop_assert_eq!(oracle.len(), 200),
                    }
                } else {
                    let key = given[pick.index(given.len())];
                    prop_assert_eq!(pool.remove(key), oracle.remove(&key));
                }
                prop_assert_eq!(pool.len(), oracle.len());
            }
            for key in given {
                prop_assert_eq!(pool.get(key), oracle.get(&key));
                prop_assert_eq!(pool.get_mut(key).copied(), oracle.get(&key).copied());
                prop_assert_eq!(pool.key_at(key.slot()) == Some(key), oracle.contains_key(&key));
            }
            prop_assert!(pool.iter().map(|(key, value)| (key, *value)).eq(oracle.iter().map(|(key, value)| (*key, *value))));
        }
    }

    #[test]
    fn entries_beyond_one_page_are_found_and_iterated() {
        let mut pool = Pool::new(20_000);
        let keys: Vec<Key> = (0..10_000u32).map(|n| pool.insert(n).unwrap()).collect();
        assert!((0u32..).zip(&keys).all(|(n, key)| pool.get(*key) == Some(&n)));
        for (_, value) in pool.iter_mut() {
            *value += 1;
        }
        assert!(pool.iter().map(|(_, value)| *value).eq(1..=10_000));
    }
}
