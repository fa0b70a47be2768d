//! The location service: canonical address-of-record to bindings, shared by all shards (RFC 3261 §10.2, §10.3).
//!
//! Readers never wait: a lookup walks an immutable [`Record`] under a guard. A writer swaps a whole record, computed
//! by a pure function of the old one that may run again when two writers meet, so no update is lost or half done.
//! The table is cut into chunks, so that a walk over a million entries (a sweep of what has expired, a dump) can be
//! taken in steps of a few milliseconds, and so that no growth touches everything. Its keys are 128-bit keyed hashes of
//! the names, which stand in the records: two names would have to collide in 128 secret bits to be confused, and a
//! look-up follows two pointers, where names as keys would make it three.
//!
//! Left out: replication to a standby, which replays resulting records through [`Locations::update`].

use core::hash::{BuildHasherDefault, Hash, Hasher};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use papaya::{Compute, HashMap, Operation};
use tandem_base::{HashKey, Instant};

use crate::{Binding, Policy, Record, Refusal, Register, Registered};

/// Into how many steps a walk over the whole table is cut. With a million entries, one is 8,000.
const CHUNKS: u64 = 128;

/// A part of the table.
type Chunk = HashMap<Name, Record, BuildHasherDefault<Hashed>>;

/// An address-of-record, hashed under the table's secret key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    low: u64,
    high: u64,
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}

/// Passes on what is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        // Only `Name::hash` feeds it, by `write_u64`.
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The location service.
pub struct Locations {
    key: HashKey,
    chunks: Box<[Chunk]>,
    aors: AtomicUsize,
    bindings: AtomicUsize,
    aors_max: usize,
}

/// What an update does to one address-of-record.
#[derive(Debug)]
pub enum Change {
    /// Nothing.
    Keep,
    /// These are its bindings now.
    Put(Record),
    /// It has none any more.
    Remove,
}

impl From<Option<Record>> for Change {
    fn from(record: Option<Record>) -> Self {
        record.map_or(Self::Remove, Self::Put)
    }
}

/// The table holds as many addresses-of-record as it may, and the update would have added one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocationsFull;

impl Locations {
    /// An empty service for at most `aors_max` addresses-of-record, hashed under `key`.
    ///
    /// The bound may be passed by one entry per writer that races another.
    #[must_use]
    pub fn new(key: HashKey, aors_max: usize) -> Self {
        let chunk = |_| HashMap::with_hasher(BuildHasherDefault::new());
        Self {
            key,
            chunks: (0..CHUNKS).map(chunk).collect(),
            aors: AtomicUsize::new(0),
            bindings: AtomicUsize::new(0),
            aors_max,
        }
    }

    /// Calls `found` for each binding of `aor` that lives at `now`, the preferred one first; returns how many.
    pub fn lookup(&self, aor: &[u8], now: Instant, mut found: impl FnMut(Binding<'_>)) -> usize {
        self.with(aor, |record| {
            let Some(record) = record else { return 0 };
            record.live(now).map(&mut found).count()
        })
    }

    /// Hands the record of `aor`, as it stands, to `read`.
    pub fn with<T>(&self, aor: &[u8], read: impl FnOnce(Option<&Record>) -> T) -> T {
        match self.place_of(aor) {
            Some((map, name)) => read(map.pin().get(&name)),
            None => read(None),
        }
    }

    /// Replaces the record of `aor` by what `update` makes of it.
    ///
    /// `update` runs again when another writer came between, so it must depend on its argument only. The record that it
    /// makes names the same `aor`.
    ///
    /// # Errors
    ///
    /// [`LocationsFull`] if a new address-of-record would pass the bound; nothing is changed then.
    pub fn update(
        &self,
        aor: &[u8],
        mut update: impl FnMut(Option<&Record>) -> Change,
    ) -> Result<bool, LocationsFull> {
        let Some((map, name)) = self.place_of(aor) else { return Ok(false) };
        let pin = map.pin();
        let done = pin.compute(name, |entry| match (update(entry.map(|(_, record)| record)), entry) {
            (Change::Keep, _) | (Change::Remove, None) => Operation::Abort(Ok(false)),
            (Change::Put(_), None) if self.aors.load(Relaxed) >= self.aors_max => {
                Operation::Abort(Err(LocationsFull))
            }
            (Change::Put(record), _) if !record.is_empty() => Operation::Insert(record),
            (Change::Put(_), None) => Operation::Abort(Ok(false)),
            (Change::Put(_) | Change::Remove, Some(_)) => Operation::Remove,
        });
        match done {
            Compute::Inserted(_, new) => {
                self.aors.fetch_add(1, Relaxed);
                self.bindings.fetch_add(new.len(), Relaxed);
            }
            Compute::Updated { old: (_, old), new: (_, new) } => {
                // Most updates refresh a binding; they must not contend for the counter's cache line.
                if new.len() != old.len() {
                    self.bindings.fetch_add(new.len(), Relaxed);
                    self.bindings.fetch_sub(old.len(), Relaxed);
                }
            }
            Compute::Removed(_, old) => {
                self.aors.fetch_sub(1, Relaxed);
                self.bindings.fetch_sub(old.len(), Relaxed);
            }
            Compute::Aborted(result) => return result,
        }
        Ok(true)
    }

    /// Processes a REGISTER for `aor` ([`crate::register()`]) and appends the header field lines of its 200 to `out`.
    ///
    /// What is written is exactly what was decided, however many shards write at once.
    ///
    /// # Errors
    ///
    /// The refusal; nothing is changed or written then.
    pub fn register(
        &self,
        now: Instant,
        policy: &Policy,
        aor: &[u8],
        request: &Register<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Registered, Refusal> {
        let start = out.len();
        let mut result = Ok(Registered::default());
        let done = self.update(aor, |record| {
            out.truncate(start);
            match crate::register(now, policy, aor, record, request) {
                Ok(outcome) => {
                    let now_bound = outcome.record(record);
                    let bindings = now_bound.map_or(0, |record| record.live(now).count());
                    result = Ok(Registered { changed: outcome.is_change(), bindings });
                    request.write_ok(now, policy, now_bound, out);
                    outcome.into()
                }
                Err(refusal) => {
                    result = Err(refusal);
                    Change::Keep
                }
            }
        });
        if done.is_err() {
            out.truncate(start);
            return Err(Refusal::LocationsFull);
        }
        result
    }

    /// How many addresses-of-record have a binding, expired ones not yet swept included.
    #[must_use]
    pub fn aors(&self) -> usize {
        self.aors.load(Relaxed)
    }

    /// How many bindings there are, expired ones not yet swept included.
    #[must_use]
    pub fn bindings(&self) -> usize {
        self.bindings.load(Relaxed)
    }

    /// How many chunks [`Locations::for_each`] and [`Locations::sweep`] know.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Calls `each` for every entry of one chunk, in no order. What changes meanwhile may or may not be seen.
    pub fn for_each(&self, chunk: usize, mut each: impl FnMut(&[u8], &Record)) {
        if let Some(map) = self.chunks.get(chunk) {
            map.pin().values().for_each(|record| each(record.aor(), record));
        }
    }

    /// Drops what has expired at `now` from one chunk and calls `swept` with each address-of-record touched.
    pub fn sweep(&self, now: Instant, chunk: usize, mut swept: impl FnMut(&[u8])) {
        let mut due: Vec<Box<[u8]>> = Vec::new();
        self.for_each(chunk, |aor, record| {
            if record.soonest() <= now {
                due.push(aor.into());
            }
        });
        for aor in due {
            let changed = self.update(&aor, |record| match record {
                // Refreshed since it was listed.
                Some(record) if record.soonest() > now => Change::Keep,
                Some(record) => record.without(|binding| binding.is_expired(now)).into(),
                None => Change::Keep,
            });
            if changed == Ok(true) {
                swept(&aor);
            }
        }
    }

    fn place_of(&self, aor: &[u8]) -> Option<(&Chunk, Name)> {
        let hash = self.key.hash128(&[aor]);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
        let name = Name { low: hash as u64, high: (hash >> 64) as u64 };
        let chunk = usize::try_from(name.high % CHUNKS).unwrap_or_default();
        self.chunks.get(chunk).map(|chunk| (chunk, name))
    }
}

impl core::fmt::Debug for Locations {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Locations").field("aors", &self.aors()).field("bindings", &self.bindings()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordBuilder;

    fn service(aors_max: usize) -> Locations {
        Locations::new(HashKey::from_bytes([7; 16]), aors_max)
    }

    fn record(aor: &str, contacts: &[(&str, u64)]) -> Record {
        let mut builder = RecordBuilder::new(aor.as_bytes());
        for (contact, expires) in contacts {
            builder.push(Binding {
                contact: contact.as_bytes(),
                q: 1000,
                expires_at: Instant::from_secs(*expires),
                updated_at: Instant::ZERO,
                call_id: b"c",
                cseq: 1,
                path: b"",
                received: None,
                instance: b"",
                reg_id: 0,
                user_agent: b"",
            });
        }
        builder.finish().unwrap()
    }

    fn put(service: &Locations, aor: &str, contacts: &[(&str, u64)]) -> Result<bool, LocationsFull> {
        service.update(aor.as_bytes(), |_| Change::Put(record(aor, contacts)))
    }

    #[test]
    fn counts_follow_every_change() {
        let service = service(10);
        put(&service, "a@h", &[("sip:1", 10)]).unwrap();
        put(&service, "b@h", &[("sip:1", 10), ("sip:2", 20)]).unwrap();
        put(&service, "a@h", &[("sip:1", 10), ("sip:2", 10), ("sip:3", 10)]).unwrap();
        assert_eq!((service.aors(), service.bindings()), (2, 5));
        assert!(service.update(b"b@h", |_| Change::Remove).unwrap());
        assert!(!service.update(b"b@h", |_| Change::Remove).unwrap());
        assert_eq!((service.aors(), service.bindings()), (1, 3));
    }

    #[test]
    fn a_full_table_refuses_the_new_and_still_serves_the_old() {
        let service = service(1);
        put(&service, "a@h", &[("sip:1", 10)]).unwrap();
        assert_eq!(put(&service, "b@h", &[("sip:1", 10)]), Err(LocationsFull));
        assert_eq!(put(&service, "a@h", &[("sip:2", 10)]), Ok(true));
        assert_eq!(service.lookup(b"b@h", Instant::ZERO, |_| ()), 0);
        assert_eq!(service.lookup(b"a@h", Instant::ZERO, |b| assert_eq!(b.contact, b"sip:2")), 1);
    }

    #[test]
    fn the_table_drains_once_everything_has_expired() {
        let service = service(5000);
        for n in 0..2000 {
            put(&service, &format!("u{n}@h"), &[("sip:1", 10), ("sip:2", 20)]).unwrap();
        }
        let sweep = |at| {
            let mut swept = 0;
            (0..service.chunks())
                .for_each(|chunk| service.sweep(Instant::from_secs(at), chunk, |_| swept += 1));
            (swept, service.aors(), service.bindings())
        };
        assert_eq!(sweep(9), (0, 2000, 4000));
        assert_eq!(sweep(10), (2000, 2000, 2000));
        assert_eq!(sweep(20), (2000, 0, 0));
    }

    /// Two threads, each adding its own contacts to one address-of-record a hundred times.
    #[test]
    fn no_update_is_lost_when_writers_meet() {
        let service = service(10);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let service = &service;
                scope.spawn(move || {
                    for n in 0..100 {
                        let contact = format!("sip:{thread}-{n}@h");
                        let add = |old: Option<&Record>| {
                            let fresh = record("a@h", &[(&contact, 10)]);
                            let mut builder = RecordBuilder::new(b"a@h");
                            old.into_iter().flatten().chain(&fresh).for_each(|b| builder.push(b));
                            builder.finish().into()
                        };
                        service.update(b"a@h", add).unwrap();
                    }
                });
            }
        });
        assert_eq!((service.aors(), service.bindings()), (1, 200));
    }
}
