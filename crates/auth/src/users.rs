//! Who may authenticate: address-of-record → [`Ha1`], shared by all threads.
//!
//! Readers never wait for writers. About 130 bytes a user of twenty characters.
//!
//! Finding a user takes longer than finding none, by the cache misses of the entry: with a million users half a
//! microsecond, enough to tell names apart by patient measuring. A check therefore looks up twice, the second time in a
//! map of decoys, and finds something once ([`Users::find`]). `cargo run --release -p tandem-node --example which_users`
//! measures what is left to see.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use papaya::HashMap;
use tandem_base::HashKey;

use crate::algorithm::{self, Algorithm, Ha1};

/// Most decoys: 4 MiB of them are as cold in the cache as the entries of a million users.
const DECOYS_MAX: u32 = 32_768;
/// Decoys beside few users.
const DECOYS_MIN: u32 = 64;

/// The credential map. Keys are the bytes of `user@realm`, the realm being the domain in lower case; the map takes
/// them as they are.
pub struct Users {
    map: Map,
    decoys: Map,
    decoy_key: HashKey,
    decoy_ha1: Ha1,
    /// Decoys 0 to this are there: about as many as users, so that they are as cold in the cache.
    decoy_count: AtomicU32,
}

type Map = HashMap<Name, Ha1, HashKey>;

impl Users {
    /// No users yet, with room for `capacity`.
    #[must_use]
    pub fn new(key: &HashKey, capacity: usize) -> Self {
        let map = |label: &[u8], capacity| HashMap::with_capacity_and_hasher(capacity, key.derive(label));
        let decoy_ha1 = Ha1::from_password(b"", b"", &key.derive(b"decoy").mac128(&[]).to_le_bytes());
        let users = Self {
            map: map(b"users", capacity),
            decoys: map(b"decoys", capacity.min(DECOYS_MAX as usize)),
            decoy_key: key.derive(b"choice of decoys"),
            decoy_ha1,
            decoy_count: AtomicU32::new(0),
        };
        (0..DECOYS_MIN).for_each(|_| users.add_decoy());
        users
    }

    fn add_decoy(&self) {
        let number = self.decoy_count.load(Relaxed);
        if number < DECOYS_MAX {
            self.decoys.pin().insert(Name::new(&decoy(number)), self.decoy_ha1);
            // Where another thread was quicker, both added the same one.
            let _ = self.decoy_count.compare_exchange(number, number + 1, Relaxed, Relaxed);
        }
    }

    /// For a check: whether `aor` is a user whose password is stored under `algorithm`, and a hash to compute with. Takes
    /// the same time for whoever it is: of two look-ups one finds something.
    pub(crate) fn find(&self, aor: &[u8], algorithm: Algorithm) -> (bool, algorithm::Hash) {
        let stored = self.get(aor).and_then(|ha1| ha1.under(algorithm));
        // The same name meets the same decoy, so that a repeated name is warm in the cache whether known or not.
        let [a, b, c, d, ..] = self.decoy_key.hash64(&[aor]).to_le_bytes();
        let number = u32::from_le_bytes([a, b, c, d]) % self.decoy_count.load(Relaxed).max(1);
        let number = if stored.is_some() { number + DECOYS_MAX } else { number };
        let decoy = black_box(self.decoys.pin().get(decoy(number).as_slice()).copied());
        let decoy = decoy.unwrap_or(self.decoy_ha1).under(algorithm);
        match (stored, decoy) {
            (Some(hash), _) => (true, hash),
            (None, Some(hash)) => (false, hash),
            (None, None) => (false, algorithm::Hash::Sha256([0; 32])), // a decoy has a hash for every algorithm
        }
    }

    /// What is stored of the password of `aor`. Never blocks.
    #[must_use]
    pub fn get(&self, aor: &[u8]) -> Option<Ha1> {
        self.map.pin().get(aor).copied()
    }

    /// Adds a user or changes the password; what was stored before comes back.
    pub fn insert(&self, aor: &[u8], ha1: Ha1) -> Option<Ha1> {
        if self.map.len() >= self.decoy_count.load(Relaxed) as usize {
            self.add_decoy();
        }
        self.map.pin().insert(Name::new(aor), ha1).copied()
    }

    /// Removes a user; what was stored comes back.
    pub fn remove(&self, aor: &[u8]) -> Option<Ha1> {
        self.map.pin().remove(aor).copied()
    }

    /// Number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True without users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Calls `visit` with every user, in no particular order. Users added or removed meanwhile may be missed.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], &Ha1)) {
        for (aor, ha1) in &self.map.pin() {
            visit(aor.borrow(), ha1);
        }
    }
}

const SHORT: usize = 38;

/// A key of the map. Nearly all are short and lie in their entry: one allocation and one cache miss less each.
enum Name {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

impl Name {
    fn new(name: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        match (u8::try_from(name.len()), bytes.get_mut(..name.len())) {
            (Ok(len), Some(start)) => {
                start.copy_from_slice(name);
                Self::Short { len, bytes }
            }
            (_, None) | (Err(_), Some(_)) => Self::Long(name.into()),
        }
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(&[]),
            Self::Long(bytes) => bytes,
        }
    }
}

// As the trait demands, these agree with those of the borrowed form.
impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bytes: &[u8] = self.borrow();
        bytes.hash(state);
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        let (one, other): (&[u8], &[u8]) = (self.borrow(), other.borrow());
        one == other
    }
}

impl Eq for Name {}

/// The key of a decoy, as long as a usual one.
fn decoy(number: u32) -> [u8; 20] {
    let [a, b, c, d] = number.to_le_bytes();
    let mut key = *b"....................";
    let [w, x, y, z, ..] = &mut key;
    (*w, *x, *y, *z) = (a, b, c, d);
    key
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_added_changed_listed_and_removed() {
        let users = Users::new(&HashKey::from_bytes([3; 16]), 0);
        // Both sides of the length at which names leave their entry.
        for length in [0, 1, 38, 39, 300] {
            let name = vec![b'x'; length];
            let one = Ha1::from_password(&name, b"example.com", b"one");
            assert_eq!((users.insert(&name, one), users.get(&name)), (None, Some(one)));
            let mut seen = Vec::new();
            users.for_each(|aor, _| seen.push(aor.to_vec()));
            assert_eq!((seen, users.remove(&name), users.len()), (vec![name], Some(one), 0));
        }
        let ha1 = |password: &str| Ha1::from_password(b"alice", b"example.com", password.as_bytes());
        assert_eq!(users.insert(b"alice@example.com", ha1("one")), None);
        assert_eq!(users.insert(b"alice@example.com", ha1("two")), Some(ha1("one")));
        users.insert(b"bob@example.com", ha1("x"));
        assert_eq!((users.get(b"alice@example.com"), users.len()), (Some(ha1("two")), 2));
        assert_eq!(users.get(b"Alice@example.com"), None);
        let mut names = Vec::new();
        users.for_each(|aor, _| names.push(aor.to_vec()));
        names.sort();
        assert_eq!(names, [b"alice@example.com".to_vec(), b"bob@example.com".to_vec()]);
        assert_eq!(users.remove(b"alice@example.com"), Some(ha1("two")));
        assert!(users.get(b"alice@example.com").is_none() && users.remove(b"alice@example.com").is_none());
    }
}
