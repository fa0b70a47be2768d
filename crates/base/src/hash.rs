//! Keyed hashing: SipHash under a secret key, and maps that use it.
//!
//! Peers choose Call-IDs, branches and addresses, so a table hashed without a secret can be flooded with
//! collisions. SipHash-1-3 serves tables; SipHash-2-4 authenticates what we hand out and get back (nonces,
//! Record-Route cookies, branches). Parts are hashed with their length before them, so that ("ab", "c") and
//! ("a", "bc") differ. One key serves one purpose: [`HashKey::derive`] makes the others.

use core::fmt;
use core::hash::{BuildHasher, Hasher};

use siphasher::sip::{SipHasher13, SipHasher24};
use siphasher::sip128::{Hasher128 as _, SipHasher13 as WideHasher13, SipHasher24 as WideHasher24};

use crate::Rng;

/// A hash map whose order depends only on its key and its history.
pub type Map<K, V> = hashbrown::HashMap<K, V, HashKey>;

/// A hash set whose order depends only on its key and its history.
pub type Set<K> = hashbrown::HashSet<K, HashKey>;

/// An empty map under `key`.
#[must_use]
pub fn map<K, V>(key: HashKey) -> Map<K, V> {
    Map::with_hasher(key)
}

/// An empty map under `key` that holds `capacity` entries before it grows.
#[must_use]
pub fn map_with_capacity<K, V>(key: HashKey, capacity: usize) -> Map<K, V> {
    Map::with_capacity_and_hasher(capacity, key)
}

/// An empty set under `key`.
#[must_use]
pub fn set<K>(key: HashKey) -> Set<K> {
    Set::with_hasher(key)
}

/// An empty set under `key` that holds `capacity` items before it grows.
#[must_use]
pub fn set_with_capacity<K>(key: HashKey, capacity: usize) -> Set<K> {
    Set::with_capacity_and_hasher(capacity, key)
}

/// A secret 128-bit key. Also the [`BuildHasher`] of [`Map`] and [`Set`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey {
    low: u64,
    high: u64,
}

impl HashKey {
    /// A key from 16 secret bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = u128::from_le_bytes(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
        let (low, high) = (word as u64, (word >> 64) as u64);
        Self { low, high }
    }

    /// A key drawn from `rng`.
    #[must_use]
    pub fn from_rng(rng: &mut Rng) -> Self {
        Self { low: rng.next_u64(), high: rng.next_u64() }
    }

    /// The key for the purpose named by `label`, which tells nothing about this key or its other children.
    #[must_use]
    pub fn derive(&self, label: &[u8]) -> Self {
        Self::from_bytes(self.mac128(&[b"derive", label]).to_le_bytes())
    }

    /// SipHash-1-3 of the parts: for tables.
    #[must_use]
    pub fn hash64(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher64();
        for part in parts {
            hasher.part(part);
        }
        hasher.finish()
    }

    /// SipHash-1-3-128 of the parts: for tables that compare nothing but the hash.
    #[must_use]
    pub fn hash128(&self, parts: &[&[u8]]) -> u128 {
        let mut hasher = self.hasher128();
        for part in parts {
            hasher.part(part);
        }
        hasher.finish()
    }

    /// SipHash-2-4 of the parts: 64 bits that only a holder of the key can make.
    ///
    /// Compare it in constant time where a peer may guess again and again.
    #[must_use]
    pub fn mac64(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.low, self.high);
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        hasher.finish()
    }

    /// SipHash-2-4-128 of the parts: 128 bits that only a holder of the key can make.
    #[must_use]
    pub fn mac128(&self, parts: &[&[u8]]) -> u128 {
        let mut hasher = WideHasher24::new_with_keys(self.low, self.high);
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        hasher.finish128().as_u128()
    }

    /// [`HashKey::hash64`], part by part.
    #[must_use]
    pub fn hasher64(&self) -> Hasher64 {
        Hasher64(SipHasher13::new_with_keys(self.low, self.high))
    }

    /// [`HashKey::hash128`], part by part.
    #[must_use]
    pub fn hasher128(&self) -> Hasher128 {
        Hasher128(WideHasher13::new_with_keys(self.low, self.high))
    }
}

impl BuildHasher for HashKey {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.low, self.high)
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

/// A 64-bit hash in the making; see [`HashKey::hasher64`].
#[derive(Clone)]
pub struct Hasher64(SipHasher13);

impl Hasher64 {
    /// Adds one part and its length.
    pub fn part(&mut self, bytes: &[u8]) {
        self.bytes(&(bytes.len() as u64).to_le_bytes());
        self.bytes(bytes);
    }

    /// Adds bytes without their length: for normalised text fed piece by piece. The caller keeps pieces apart,
    /// for example by adding the whole length with [`Hasher64::word`] afterwards.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Adds a number; its eight bytes need no length.
    pub fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    /// The hash of all that was added.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

impl fmt::Debug for Hasher64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher64(..)")
    }
}

/// A 128-bit hash in the making; see [`HashKey::hasher128`].
#[derive(Clone)]
pub struct Hasher128(WideHasher13);

impl Hasher128 {
    /// Adds one part and its length.
    pub fn part(&mut self, bytes: &[u8]) {
        self.bytes(&(bytes.len() as u64).to_le_bytes());
        self.bytes(bytes);
    }

    /// Adds bytes without their length; see [`Hasher64::bytes`].
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Adds a number; its eight bytes need no length.
    pub fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    /// The hash of all that was added.
    #[must_use]
    pub fn finish(&self) -> u128 {
        self.0.finish128().as_u128()
    }
}

impl fmt::Debug for Hasher128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher128(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> HashKey {
        HashKey::from_bytes(core::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    /// The reference vectors of SipHash-2-4 (Aumasson and Bernstein 2012, appendix A): key 00..0f and input
    /// 00..0e give a129ca6149be45e5. Our lengths come first, so the input is made to look like one part of 7.
    #[test]
    fn mac64_is_siphash_2_4_of_length_and_bytes() {
        let mut reference = SipHasher24::new_with_key(&core::array::from_fn(|i| u8::try_from(i).unwrap()));
        let input: Vec<u8> = (0..15).collect();
        reference.write(&input);
        assert_eq!(reference.finish(), 0xa129_ca61_49be_45e5);
        let mut reference = SipHasher24::new_with_key(&core::array::from_fn(|i| u8::try_from(i).unwrap()));
        reference.write(&[7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(key().mac64(&[&[1, 2, 3, 4, 5, 6, 7]]), reference.finish());
    }

    #[test]
    fn bytes_cannot_move_from_one_part_to_the_next() {
        let key = key();
        for (left, right) in [(["ab", "c"], ["a", "bc"]), (["", "abc"], ["abc", ""])] {
            let left = left.map(str::as_bytes);
            let right = right.map(str::as_bytes);
            assert_ne!(key.hash64(&left), key.hash64(&right));
            assert_ne!(key.hash128(&left), key.hash128(&right));
            assert_ne!(key.mac64(&left), key.mac64(&right));
            assert_ne!(key.mac128(&left), key.mac128(&right));
        }
        assert_ne!(key.hash64(&[b""]), key.hash64(&[]));
    }

    #[test]
    fn streaming_equals_one_shot() {
        let key = key();
        let (mut narrow, mut wide) = (key.hasher64(), key.hasher128());
        for part in [b"one".as_slice(), b"", b"three"] {
            narrow.part(part);
            wide.part(part);
        }
        assert_eq!(narrow.finish(), key.hash64(&[b"one", b"", b"three"]));
        assert_eq!(wide.finish(), key.hash128(&[b"one", b"", b"three"]));
    }

    #[test]
    fn another_key_or_label_gives_another_hash() {
        let mut rng = Rng::from_seed(1);
        let other = HashKey::from_rng(&mut rng);
        assert_ne!(key().hash64(&[b"x"]), other.hash64(&[b"x"]));
        assert_ne!(key().derive(b"nonce"), key().derive(b"branch"));
        assert_eq!(key().derive(b"nonce"), key().derive(b"nonce"));
        assert!(!format!("{:?}", key()).contains(char::is_numeric));
    }

    #[test]
    fn a_map_iterates_in_the_same_order_under_the_same_key() {
        let fill = |key| {
            let mut map = map(key);
            map.extend((0..100u32).map(|n| (n, n)));
            map.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(fill(key()), fill(key()));
        assert_ne!(fill(key()), fill(key().derive(b"other")));
    }
}
