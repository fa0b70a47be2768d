//! Who may authenticate: address-of-record → [`Ha1`], shared by all threads.
//!
//! Readers never wait for writers. About 120 bytes a user of twenty characters.

use core::fmt;

use papaya::{HashMap, ResizeMode};
use tandem_base::HashKey;

use crate::Ha1;

/// The credential map. Keys are the bytes of `user@realm`, the realm being the domain in lower case; the map takes
/// them as they are.
pub struct Users {
    map: HashMap<Box<[u8]>, Ha1, HashKey>,
}

impl Users {
    /// No users yet, with room for `capacity`.
    #[must_use]
    pub fn new(key: &HashKey, capacity: usize) -> Self {
        let map = HashMap::builder()
            .capacity(capacity)
            .hasher(key.derive(b"users"))
            .resize_mode(ResizeMode::default())
            .build();
        Self { map }
    }

    /// What is stored of the password of `aor`. Never blocks.
    #[must_use]
    pub fn get(&self, aor: &[u8]) -> Option<Ha1> {
        self.map.pin().get(aor).copied()
    }

    /// Adds a user or changes the password; what was stored before comes back.
    pub fn insert(&self, aor: &[u8], ha1: Ha1) -> Option<Ha1> {
        self.map.pin().insert(aor.into(), ha1).copied()
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
            visit(aor, ha1);
        }
    }
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
