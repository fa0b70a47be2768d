//! What the tests of the store share.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub, reason = "each test uses its part, and may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use tandem_base::{HashKey, Instant};
use tandem_registrar::{Binding, Change, Locations, RecordBuilder};
use tandem_sip::{ListenerId, Transport};
use tandem_store::{
    Clock, LoadReport, Options, Sockets, Store, StoreError, Times, Writer, WriterEvent, WriterOptions,
};

pub const NOW: Times = Times { now: Instant::from_secs(1000), unix: 1_800_000_000 };

/// A folder that goes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("tandem-store-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn db(&self) -> PathBuf {
        self.0.join("tandem.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn fixed_clock() -> Clock {
    Arc::new(|| NOW)
}

/// A clock whose wall time the test sets.
pub fn set_clock(unix: &Arc<AtomicI64>) -> Clock {
    let unix = Arc::clone(unix);
    Arc::new(move || Times { now: NOW.now, unix: unix.load(Relaxed) })
}

pub fn sockets() -> Sockets {
    Sockets::new([(ListenerId(0), Transport::Udp, "127.0.0.1:5060".parse().unwrap())])
}

pub fn locations() -> Arc<Locations> {
    Arc::new(Locations::new(HashKey::from_bytes([5; 16]), usize::MAX))
}

pub fn binding(contact: &str, expires_secs: u64) -> Binding<'_> {
    Binding {
        contact: contact.as_bytes(),
        q: 1000,
        expires_at: NOW.now + Duration::from_secs(expires_secs),
        updated_at: NOW.now,
        call_id: b"call@phone",
        cseq: 1,
        path: b"",
        received: None,
        instance: b"",
        reg_id: 0,
        user_agent: b"",
    }
}

pub fn put(locations: &Locations, aor: &str, contacts: &[&str]) {
    let change = |_: Option<&_>| {
        let mut builder = RecordBuilder::new(aor.as_bytes());
        contacts.iter().for_each(|contact| builder.push(binding(contact, 3600)));
        Change::from(builder.finish())
    };
    locations.update(aor.as_bytes(), change).unwrap();
}

/// `user@domain contact` of all, sorted.
pub fn all(locations: &Locations) -> Vec<String> {
    let mut all = Vec::new();
    for chunk in 0..locations.chunks() {
        locations.for_each(chunk, |aor, record| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            all.extend(record.iter().map(|b| format!("{} {}", text(aor), text(b.contact))));
        });
    }
    all.sort();
    all
}

pub fn open(path: &Path, options: Options) -> Result<Store, StoreError> {
    tandem_store::run(Store::open(path, options)).unwrap()
}

pub fn load(path: &Path) -> (Vec<String>, LoadReport) {
    let locations = locations();
    let store = open(path, Options::default()).unwrap();
    let report = tandem_store::run(store.load_locations(&locations, &sockets(), &fixed_clock())).unwrap();
    (all(&locations), report.unwrap())
}

/// Answers and events of a writer.
pub struct Heard {
    pub answers: mpsc::Receiver<(u64, bool)>,
    pub events: mpsc::Receiver<WriterEvent>,
}

pub fn start(store: &Store, locations: &Arc<Locations>, options: WriterOptions) -> (Writer<u64>, Heard) {
    let ((answer, answers), (tell, events)) = (mpsc::channel(), mpsc::channel());
    let writer = store.writer(
        Arc::clone(locations),
        sockets(),
        fixed_clock(),
        options,
        move |ticket, ok| answer.send((ticket, ok)).unwrap_or_default(),
        move |event| tell.send(event).unwrap_or_default(),
    );
    (writer.unwrap(), Heard { answers, events })
}

pub fn quick() -> WriterOptions {
    WriterOptions {
        linger: Duration::from_millis(1),
        retry_min: Duration::from_millis(5),
        retry_max: Duration::from_millis(20),
        ..WriterOptions::default()
    }
}
