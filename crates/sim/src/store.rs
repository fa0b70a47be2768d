//! The store of one node: a disk that takes its time, fails or fills up, and keeps what it acknowledged.

use core::time::Duration;
use std::collections::BTreeMap;

use tandem_registrar::{Change, Locations, Record};

/// What the store does with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StoreMode {
    /// Writes it.
    #[default]
    Works,
    /// Refuses it: the disk is full.
    Fails,
    /// Never answers.
    Hangs,
}

/// One write asked for: the shard, its ticket, and the address-of-record.
pub(crate) type Asked = (usize, u64, Box<[u8]>);

/// The store of one node.
#[derive(Debug)]
pub struct Store {
    /// How it behaves.
    pub mode: StoreMode,
    /// How long a batch takes.
    pub delay: Duration,
    disk: BTreeMap<Box<[u8]>, Record>,
    waiting: Vec<Asked>,
    writing: Vec<Asked>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            mode: StoreMode::default(),
            delay: Duration::from_millis(5),
            disk: BTreeMap::new(),
            waiting: Vec::new(),
            writing: Vec::new(),
        }
    }
}

impl Store {
    /// How many addresses-of-record are on disk.
    #[must_use]
    pub fn len(&self) -> usize {
        self.disk.len()
    }

    /// Whether nothing is on disk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.disk.is_empty()
    }

    pub(crate) fn ask(&mut self, asked: Asked) {
        self.waiting.push(asked);
    }

    /// Starts the next batch; whether there is one.
    pub(crate) fn start(&mut self) -> bool {
        if self.mode == StoreMode::Hangs || !self.writing.is_empty() || self.waiting.is_empty() {
            return false;
        }
        self.writing = core::mem::take(&mut self.waiting);
        true
    }

    /// Ends the batch: what each shard is told, and whether it is on disk.
    pub(crate) fn commit(&mut self, locations: &Locations) -> (Vec<Asked>, bool) {
        let ok = self.mode == StoreMode::Works;
        if ok {
            self.write(locations);
        }
        (core::mem::take(&mut self.writing), ok)
    }

    /// The node dies: what waits is lost, what is being written may be on disk or not.
    pub(crate) fn crash(&mut self, locations: &Locations, is_written: bool) {
        if is_written && self.mode == StoreMode::Works {
            self.write(locations);
        }
        self.waiting.clear();
        self.writing.clear();
    }

    fn write(&mut self, locations: &Locations) {
        for (_, _, aor) in &self.writing {
            match locations.with(aor, |record| record.cloned()) {
                Some(record) => self.disk.insert(aor.clone(), record),
                None => self.disk.remove(aor),
            };
        }
    }

    /// Puts into a new location service what is on disk.
    pub(crate) fn load(&self, locations: &Locations) {
        for (aor, record) in &self.disk {
            let _ = locations.update(aor, |_| Change::Put(record.clone()));
        }
    }
}
