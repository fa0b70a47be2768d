//! The file follows memory, through restarts, a full disk, damage, and clocks that jump.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use common::{
    Folder, NOW, all, binding, fixed_clock, load, locations, open, put, quick, set_clock, sockets, start,
};
use tandem_base::HashKey;
use tandem_registrar::{Change, RecordBuilder};
use tandem_store::{Options, StoreErrorKind, UserRow, WriterEvent, WriterOptions};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_ticket_is_answered_when_the_row_is_there_and_a_restart_has_what_memory_had() {
    let folder = Folder::new();
    let locations = locations();
    let store = open(&folder.db(), Options::default()).unwrap();
    let (writer, heard) = start(&store, &locations, quick());
    let handle = writer.handle();
    for n in 0..100 {
        put(&locations, &format!("u{n}@h"), &["sip:one@h", "sip:two@h"]);
        handle.commit(format!("u{n}@h").as_bytes(), n).unwrap();
    }
    let mut answers: Vec<_> = (0..100).map(|_| heard.answers.recv_timeout(LONG).unwrap()).collect();
    answers.sort();
    assert_eq!(answers, (0..100).map(|n| (n, true)).collect::<Vec<_>>());
    // One contact leaves, one address leaves; both are only noted.
    put(&locations, "u0@h", &["sip:two@h"]);
    locations.update(b"u1@h", |_| Change::Remove).unwrap();
    handle.note(b"u0@h");
    handle.note(b"u1@h");
    assert!(writer.shutdown());
    assert!(handle.commit(b"u2@h", 7).is_err(), "a stopped writer takes no ticket");
    drop(store);
    let (loaded, report) = load(&folder.db());
    assert_eq!(loaded, all(&locations));
    assert_eq!((report.taken, report.bad, loaded.len()), (197, 0, 197));
}

/// The size is bounded as a full disk would bound it: tickets fail at once, nothing waits, memory still serves; when
/// addresses leave and make room, what could not be written is, and the alarm ends.
#[test]
fn a_full_disk_fails_tickets_keeps_what_is_dirty_and_recovers() {
    let folder = Folder::new();
    let locations = locations();
    let store = open(&folder.db(), Options { size_max: Some(300 << 10), ..Options::default() }).unwrap();
    let (writer, heard) = start(&store, &locations, WriterOptions { batch_max: 16, ..quick() });
    let handle = writer.handle();
    let contact = format!("sip:{}@h", "x".repeat(500));
    let mut failed = 0;
    for n in 0..400 {
        put(&locations, &format!("u{n:03}@h"), &[&contact]);
        handle.commit(format!("u{n:03}@h").as_bytes(), n).unwrap();
        failed += u32::from(!heard.answers.recv_timeout(LONG).unwrap().1);
    }
    assert!(failed > 50 && failed < 400, "{failed}");
    let Ok(WriterEvent::Failing(error)) = heard.events.recv_timeout(LONG) else { panic!("no alarm") };
    assert_eq!(error.kind, StoreErrorKind::Full, "{error}");
    assert!(writer.stats().failing.load(Relaxed));
    for n in 0..350 {
        locations.update(format!("u{n:03}@h").as_bytes(), |_| Change::Remove).unwrap();
        handle.note(format!("u{n:03}@h").as_bytes());
    }
    assert!(matches!(heard.events.recv_timeout(LONG), Ok(WriterEvent::Recovered { .. })));
    assert!(writer.shutdown(), "the file does not agree with memory");
    drop(store);
    assert_eq!(load(&folder.db()).0, all(&locations));
    assert_eq!(all(&locations).len(), 50);
}

/// Far more is noted than the queue and the list of what is dirty may hold.
#[test]
fn an_overflow_is_made_good_by_comparing_everything() {
    let folder = Folder::new();
    let locations = locations();
    let store = open(&folder.db(), Options::default()).unwrap();
    let (writer, _) =
        start(&store, &locations, WriterOptions { queue_max: 4, retained_max: 4, batch_max: 50, ..quick() });
    let handle = writer.handle();
    for round in 0..3 {
        for n in 0..1000 {
            let aor = format!("u{n}@h");
            if n % 3 == round {
                locations.update(aor.as_bytes(), |_| Change::Remove).unwrap();
            } else {
                put(&locations, &aor, &[&format!("sip:{round}@h")]);
            }
            handle.note(aor.as_bytes());
        }
    }
    let stats = Arc::clone(writer.stats());
    assert!(writer.shutdown());
    assert!(stats.resyncs.load(Relaxed) > 0);
    drop(store);
    assert_eq!(load(&folder.db()).0, all(&locations));
}

/// THREATS 31: the wall clock goes back and forth by an hour between writing and loading.
#[test]
fn a_clock_that_jumped_back_neither_loses_nor_stretches_a_binding() {
    let folder = Folder::new();
    let unix = Arc::new(AtomicI64::new(NOW.unix));
    let locations = locations();
    let mut builder = RecordBuilder::new(b"a@h");
    builder.push(binding("sip:a@h", 600));
    let mut record = builder.finish();
    locations.update(b"a@h", |_| Change::from(record.take())).unwrap();
    let store = open(&folder.db(), Options::default()).unwrap();
    let writer = store
        .writer(Arc::clone(&locations), sockets(), set_clock(&unix), quick(), |(), _| (), |_| ())
        .unwrap();
    writer.handle().note(b"a@h");
    assert!(writer.shutdown());
    for (jump, left) in [(0, Some(600)), (-3600, Some(600)), (599, Some(1)), (600, None)] {
        unix.store(NOW.unix + jump, Relaxed);
        let fresh = common::locations();
        let (sockets, clock) = (sockets(), set_clock(&unix));
        let load = store.load_locations(&fresh, &sockets, &clock);
        let report = tandem_store::run(load).unwrap().unwrap();
        let mut found = None;
        fresh.lookup(b"a@h", NOW.now, |b| found = Some(b.remaining_secs(NOW.now)));
        assert_eq!(found, left, "jump {jump}");
        assert_eq!(report.expired, u64::from(left.is_none()));
    }
}

#[test]
fn a_second_node_on_the_same_file_is_refused() {
    let folder = Folder::new();
    let first = open(&folder.db(), Options::default()).unwrap();
    let error = open(&folder.db(), Options::default()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Held, "{error}");
    drop(first);
    assert!(open(&folder.db(), Options::default()).is_ok());
}

/// THREATS 33: another kind of file, a damaged page, a file of a later version.
#[test]
fn a_file_that_cannot_be_used_says_what_is_wrong_and_what_to_do() {
    let folder = Folder::new();
    std::fs::write(folder.db(), "[listen]\nudp = \"127.0.0.1:5060\"\n".repeat(50)).unwrap();
    let error = open(&folder.db(), Options::default()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::NotADatabase, "{error}");
    std::fs::remove_file(folder.db()).unwrap();

    let locations = locations();
    let store = open(&folder.db(), Options::default()).unwrap();
    (0..2000).for_each(|n| put(&locations, &format!("u{n}@h"), &["sip:a@h"]));
    let (writer, _) = start(&store, &locations, quick());
    (0..2000).for_each(|n| writer.handle().note(format!("u{n}@h").as_bytes()));
    assert!(writer.shutdown());
    assert!(tandem_store::run(store.check()).unwrap().is_ok());
    tandem_store::run(store.close()).unwrap().unwrap();
    let mut bytes = std::fs::read(folder.db()).unwrap();
    let whole = bytes.clone();
    bytes[4096 * 6..4096 * 40].fill(0x5a);
    std::fs::write(folder.db(), &bytes).unwrap();
    let fresh = common::locations();
    let store = open(&folder.db(), Options::default()).unwrap();
    let error =
        tandem_store::run(store.load_locations(&fresh, &sockets(), &fixed_clock())).unwrap().unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(".recover"), "{error}");
    tandem_store::run(store.close()).unwrap().unwrap();
    // Cut off in the middle.
    std::fs::write(folder.db(), &whole[..whole.len() / 2]).unwrap();
    let store = open(&folder.db(), Options::default());
    let error = match store {
        Err(error) => error,
        Ok(store) => {
            tandem_store::run(store.load_locations(&fresh, &sockets(), &fixed_clock())).unwrap().unwrap_err()
        }
    };
    assert_eq!(error.kind, StoreErrorKind::Corrupt, "{error}");
}

#[test]
fn users_are_added_changed_removed_and_loaded_without_their_passwords() {
    let folder = Folder::new();
    let store = open(&folder.db(), Options::default()).unwrap();
    tandem_store::run(async {
        let alice = UserRow::from_password("alice", "Example.com", None, "secret-a");
        store.add_user(&alice).await.unwrap();
        store
            .add_user(&UserRow::from_password("bob", "example.com", Some("realm"), "secret-b"))
            .await
            .unwrap();
        assert_eq!(store.add_user(&alice).await.unwrap_err().kind, StoreErrorKind::Conflict);
        let bad = UserRow::from_password("a:b", "example.com", None, "x");
        assert_eq!(store.add_user(&bad).await.unwrap_err().kind, StoreErrorKind::Input);
        let changed = UserRow::from_password("alice", "example.com", None, "secret-c");
        store.set_password(&changed).await.unwrap();
        let nobody = UserRow::from_password("nobody", "example.com", None, "x");
        assert_eq!(store.set_password(&nobody).await.unwrap_err().kind, StoreErrorKind::Conflict);
        let users = tandem_auth::Users::new(&HashKey::from_bytes([1; 16]), 10);
        assert_eq!(store.load_users(&users).await.unwrap(), (2, 0));
        assert_eq!(users.get(b"alice@example.com"), Some(changed.ha1));
        assert!(users.get(b"bob@realm").is_some());
        assert!(store.delete_user("bob", "EXAMPLE.com").await.unwrap());
        assert!(!store.delete_user("bob", "example.com").await.unwrap());
        let mut rows = Vec::new();
        store.for_each_user(|row| rows.push(row)).await.unwrap();
        assert_eq!(rows, [changed]);
    })
    .unwrap();
    for file in std::fs::read_dir(&folder.0).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"secret-"));
    }
}
