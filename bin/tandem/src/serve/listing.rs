//! Pages of users and bindings for the control socket: each bounded in entries and octets, each a bounded walk.

use crate::control::protocol::{BindingEntry, PAGE_MAX, Page, UserEntry};
use std::collections::BTreeMap;
use tandem_auth::Users;
use tandem_base::Instant;
use tandem_registrar::{Binding, Locations, Record};

/// Octets of a page, about; a page ends with the user that passes it.
const PAGE_BYTES: usize = 4 << 20;

/// The users behind `after`, in order.
pub(crate) fn users(users: &Users, after: Option<&str>) -> Page<UserEntry> {
    let mut first: BTreeMap<Box<[u8]>, &'static str> = BTreeMap::new();
    users.for_each(|aor, ha1| {
        if after.is_some_and(|after| aor <= after.as_bytes()) {
            return;
        }
        if first.len() == PAGE_MAX {
            if first.last_key_value().is_some_and(|(last, _)| **last < *aor) {
                return;
            }
            first.pop_last();
        }
        let digests = match (ha1.sha256.is_some(), ha1.md5.is_some()) {
            (true, true) => "SHA-256 MD5",
            (true, false) => "SHA-256",
            (false, true) => "MD5",
            (false, false) => "none",
        };
        first.insert(aor.into(), digests);
    });
    let is_full = first.len() == PAGE_MAX;
    let entry = |(aor, digests): (Box<[u8]>, &'static str)| UserEntry {
        user: text(&aor),
        digests: digests.to_owned(),
    };
    let entries: Vec<UserEntry> = first.into_iter().map(entry).collect();
    let next = entries.last().filter(|_| is_full).map(|last| last.user.clone());
    Page { entries, next }
}

/// The living bindings of one user.
pub(crate) fn bindings_of(locations: &Locations, now: Instant, aor: &[u8]) -> Vec<BindingEntry> {
    let mut entries = Vec::new();
    locations.lookup(aor, now, |binding| entries.push(binding_entry(aor, now, &binding)));
    entries
}

/// A page of all living bindings. `after` is where the last page ended: a chunk of the location service, and a user
/// of it, so that a page never walks the whole of it.
pub(crate) fn bindings(locations: &Locations, now: Instant, after: Option<&str>) -> Page<BindingEntry> {
    let (mut chunk, mut after) = match after.and_then(|after| after.split_once(' ')) {
        Some((chunk, aor)) => (chunk.parse().unwrap_or(usize::MAX), aor.as_bytes().to_vec()),
        None => (0, Vec::new()),
    };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while chunk < locations.chunks() {
        let mut aors: Vec<Box<[u8]>> = Vec::new();
        locations.for_each(chunk, |aor, _: &Record| {
            if *aor > *after {
                aors.push(aor.into());
            }
        });
        aors.sort_unstable();
        for aor in aors {
            let found = bindings_of(locations, now, &aor);
            bytes += found.iter().map(|entry| entry.contact.len() + entry.path.len() + 200).sum::<usize>();
            entries.extend(found);
            if entries.len() >= PAGE_MAX || bytes >= PAGE_BYTES {
                return Page { entries, next: Some(format!("{chunk} {}", text(&aor))) };
            }
        }
        after.clear();
        chunk += 1;
    }
    Page { entries, next: None }
}

fn binding_entry(aor: &[u8], now: Instant, binding: &Binding<'_>) -> BindingEntry {
    BindingEntry {
        user: text(aor),
        contact: text(binding.contact),
        expires_in_secs: binding.remaining_secs(now),
        q: binding.q,
        path: text(binding.path),
        received: binding.received.map(|hop| format!("{}:{}", hop.transport, hop.peer)),
        user_agent: text(binding.user_agent),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_auth::Ha1;
    use tandem_base::HashKey;
    use tandem_registrar::{Change, RecordBuilder};

    #[test]
    fn pages_of_users_have_each_user_once_in_order() {
        let all = Users::new(&HashKey::from_bytes([1; 16]), 0);
        let ha1 = Ha1::from_password(b"u", b"h", b"p");
        let count = 2 * PAGE_MAX + 7;
        for n in 0..count {
            all.insert(format!("u{n:06}@h").as_bytes(), ha1);
        }
        let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = users(&all, after.as_deref());
            seen.extend(page.entries.into_iter().map(|entry| entry.user));
            pages += 1;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!((seen.len(), pages), (count, 3));
        assert!(seen.is_sorted());
    }

    #[test]
    fn pages_of_bindings_have_each_living_binding_once() {
        let locations = Locations::new(HashKey::from_bytes([2; 16]), 1 << 20);
        let count = PAGE_MAX + 500;
        for n in 0..count {
            let aor = format!("u{n}@h");
            let mut record = RecordBuilder::new(aor.as_bytes());
            record.push(Binding {
                contact: b"sip:phone@192.0.2.1",
                q: 1000,
                expires_at: Instant::from_secs(if n % 10 == 0 { 5 } else { 50 }),
                updated_at: Instant::ZERO,
                call_id: b"c",
                cseq: 1,
                path: b"",
                received: None,
                instance: b"",
                reg_id: 0,
                user_agent: b"",
            });
            let record = record.finish().expect("one binding");
            locations.update(aor.as_bytes(), |_| Change::Put(record.clone())).expect("there is room");
        }
        let (mut seen, mut after) = (std::collections::BTreeSet::new(), None);
        loop {
            let page = bindings(&locations, Instant::from_secs(10), after.as_deref());
            for entry in page.entries {
                assert_eq!(entry.expires_in_secs, 40);
                assert!(seen.insert(entry.user));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen.len(), count - count.div_ceil(10));
    }
}
