//! The writer: a thread that follows the location service with the file.
//!
//! It is told which addresses-of-record changed, merges what is told more than once, and writes what memory holds for
//! them *now*, many per transaction. Two ways to tell it:
//!
//! - [`WriterHandle::commit`] carries a ticket that is answered when the row is on the disk, or can't be: the 200 of
//!   a REGISTER waits for it. While one transaction is synced the next ones gather, so the disk's pace sets the size
//!   of the batch.
//! - [`WriterHandle::note`] asks for no answer and never fails.
//!
//! When a transaction fails (disk full, a lock, a failed sync), its tickets are answered "failed", and its addresses
//! are kept and tried again with growing pauses until the file agrees with memory. If more of them gather than may be
//! kept, or the queue overflows, the writer remembers only that, and compares everything once the disk works again.
//! The data path never waits for any of this.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tandem_registrar::Locations;
use tokio::sync::mpsc;

use crate::batch::{Statements, write_batch};
use crate::store::{Shared, connect};
use crate::{Clock, Sockets, Store, StoreError, StoreErrorKind};

/// The writer's bounds.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// How many notes and tickets may wait.
    pub queue_max: usize,
    /// How many addresses-of-record one transaction takes.
    pub batch_max: usize,
    /// How long notes gather before they are written; a ticket does not wait.
    pub linger: Duration,
    /// How many addresses-of-record are remembered one by one while the disk fails.
    pub retained_max: usize,
    /// The first pause after a failure; it doubles up to `retry_max`.
    pub retry_min: Duration,
    /// The longest pause after a failure.
    pub retry_max: Duration,
}

impl Default for WriterOptions {
    /// 65,536 waiting, 1,024 per transaction, 100 ms to gather, 65,536 remembered, pauses of 100 ms to 10 s.
    fn default() -> Self {
        Self {
            queue_max: 65_536,
            batch_max: 1024,
            linger: Duration::from_millis(100),
            retained_max: 65_536,
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
        }
    }
}

/// What the writer tells the log.
#[derive(Clone, Debug)]
pub enum WriterEvent {
    /// Writing fails; told once, not for each attempt. Bindings are served from memory meanwhile.
    Failing(StoreError),
    /// Writing works again.
    Recovered {
        /// How many attempts had failed.
        attempts: u64,
    },
}

/// What the writer counts; read by the metrics at any time.
#[derive(Debug, Default)]
pub struct WriterStats {
    /// Transactions that were committed.
    pub batches: AtomicU64,
    /// Rows written in them.
    pub rows: AtomicU64,
    /// Transactions that failed.
    pub failures: AtomicU64,
    /// Addresses-of-record waiting for a second attempt.
    pub retained: AtomicU64,
    /// Tickets answered "failed".
    pub tickets_failed: AtomicU64,
    /// Comparisons of everything, after more was missed than could be remembered.
    pub resyncs: AtomicU64,
    /// Whether writing fails at the moment: the alarm.
    pub failing: AtomicBool,
}

enum Told<T> {
    Dirty { aor: Box<[u8]>, ticket: Option<T> },
    Close,
}

/// Tells the writer what changed; cheap to clone, one per shard.
pub struct WriterHandle<T> {
    queue: mpsc::Sender<Told<T>>,
    missed: Arc<AtomicBool>,
}

impl<T> Clone for WriterHandle<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), missed: Arc::clone(&self.missed) }
    }
}

impl<T> std::fmt::Debug for WriterHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriterHandle").field("free", &self.queue.capacity()).finish_non_exhaustive()
    }
}

impl<T> WriterHandle<T> {
    /// Asks for `aor` to be written and for an answer to `ticket`. Never blocks.
    ///
    /// # Errors
    ///
    /// The ticket, if the queue is full or the writer has stopped: the caller answers 503 with Retry-After. The
    /// address is written nevertheless, as after a [`WriterHandle::note`].
    pub fn commit(&self, aor: &[u8], ticket: T) -> Result<(), T> {
        match self.queue.try_reserve() {
            Ok(place) => {
                place.send(Told::Dirty { aor: aor.into(), ticket: Some(ticket) });
                Ok(())
            }
            Err(_) => {
                self.missed.store(true, Relaxed);
                Err(ticket)
            }
        }
    }

    /// Asks for `aor` to be written some time soon. Never blocks; if the queue is full, everything is compared later.
    pub fn note(&self, aor: &[u8]) {
        if self.queue.try_send(Told::Dirty { aor: aor.into(), ticket: None }).is_err() {
            self.missed.store(true, Relaxed);
        }
    }
}

/// The writer's thread; stopping it writes what is left.
pub struct Writer<T> {
    handle: WriterHandle<T>,
    stats: Arc<WriterStats>,
    thread: Option<JoinHandle<bool>>,
}

impl Store {
    /// Starts the writer. `answered` gets each ticket and whether its row is on the disk; `event` is for the log.
    /// Both are called on the writer's thread and must not block.
    ///
    /// The location service must have been loaded from this store: rows that memory does not have are deleted.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Open`] if the thread can't be started.
    pub fn writer<T: Send + 'static>(
        &self,
        locations: Arc<Locations>,
        sockets: Sockets,
        clock: Clock,
        options: WriterOptions,
        answered: impl FnMut(T, bool) + Send + 'static,
        event: impl FnMut(WriterEvent) + Send + 'static,
    ) -> Result<Writer<T>, StoreError> {
        let failed =
            |error: std::io::Error| StoreError::new(StoreErrorKind::Open, self.path(), error.to_string());
        let (queue, told) = mpsc::channel(options.queue_max.max(1));
        let missed = Arc::new(AtomicBool::new(false));
        let stats = Arc::new(WriterStats::default());
        let mut work = Work {
            shared: Arc::clone(self.shared()),
            locations,
            sockets,
            clock,
            stats: Arc::clone(&stats),
            missed: Arc::clone(&missed),
            pause: options.retry_min,
            options,
            statements: Statements::new(),
            db: None,
            resync: None,
            told,
            dirty: BTreeSet::new(),
            tickets: Vec::new(),
            attempts: 0,
            answered: Box::new(answered),
            event: Box::new(event),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || runtime.block_on(work.run()))
            .map_err(failed)?;
        Ok(Writer { handle: WriterHandle { queue, missed }, stats, thread: Some(thread) })
    }
}

impl<T> Writer<T> {
    /// A handle for another shard.
    #[must_use]
    pub fn handle(&self) -> WriterHandle<T> {
        self.handle.clone()
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> &Arc<WriterStats> {
        &self.stats
    }

    /// Writes everything that was told, answers all tickets and stops. Returns whether the file agrees with memory.
    ///
    /// Tries once more if the disk was failing, and gives up then.
    pub fn shutdown(mut self) -> bool {
        self.close()
    }

    fn close(&mut self) -> bool {
        let Some(thread) = self.thread.take() else { return true };
        // The queue drains, since the thread lives; an error means that it has ended.
        let mut close = Told::Close;
        while let Err(mpsc::error::TrySendError::Full(back)) = self.handle.queue.try_send(close) {
            close = back;
            std::thread::sleep(Duration::from_millis(1));
        }
        thread.join().unwrap_or(false)
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T> std::fmt::Debug for Writer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("stats", &self.stats).finish_non_exhaustive()
    }
}

/// How far a comparison of everything has come.
#[derive(Debug)]
struct Resync {
    /// The last batch before it: at its end, rows that no later one has touched are not in memory.
    first: i64,
    /// The next chunk of the location service.
    chunk: usize,
    /// What is left of the chunk before.
    aors: Vec<Box<[u8]>>,
}

struct Work<T> {
    shared: Arc<Shared>,
    locations: Arc<Locations>,
    sockets: Sockets,
    clock: Clock,
    options: WriterOptions,
    stats: Arc<WriterStats>,
    missed: Arc<AtomicBool>,
    statements: Statements,
    db: Option<SqliteConnection>,
    told: mpsc::Receiver<Told<T>>,
    /// What memory has and the file may not.
    dirty: BTreeSet<Box<[u8]>>,
    /// A comparison of everything that is under way.
    resync: Option<Resync>,
    /// To be answered by the next transaction, which takes all of `dirty` that they are about.
    tickets: Vec<(Box<[u8]>, T)>,
    attempts: u64,
    pause: Duration,
    answered: Box<dyn FnMut(T, bool) + Send>,
    event: Box<dyn FnMut(WriterEvent) + Send>,
}

impl<T> Work<T> {
    async fn run(&mut self) -> bool {
        loop {
            let open = self.gather().await;
            let written = self.write().await;
            if !open {
                if let Some(db) = self.db.take() {
                    // The last connection's end folds the write-ahead log into the file.
                    let _ = db.close().await;
                }
                return written;
            }
        }
    }

    /// Waits until there is something to write; `false` once the writer must stop.
    async fn gather(&mut self) -> bool {
        let mut open = true;
        let (wait, enough) = if self.attempts > 0 {
            // Notes have time until the pause is over; whoever waits for a ticket gets an attempt, and an answer.
            (Some(self.pause), usize::MAX)
        } else if self.resync.is_some() || self.missed.load(Relaxed) {
            (None, 0)
        } else {
            if self.dirty.is_empty() {
                let told = self.told.recv().await;
                open = self.take(told);
            }
            (Some(self.options.linger), self.options.batch_max)
        };
        if let Some(wait) = wait {
            let over = tokio::time::sleep(wait);
            tokio::pin!(over);
            while open && self.tickets.is_empty() && self.dirty.len() < enough {
                tokio::select! {
                    biased;
                    () = &mut over => {
                        if self.attempts > 0 {
                            self.pause = (self.pause * 2).min(self.options.retry_max);
                        }
                        break;
                    }
                    told = self.told.recv() => open = self.take(told),
                }
            }
        }
        // What came meanwhile goes along, and at the end everything does.
        while (!open || self.tickets.len() < self.options.batch_max)
            && let Ok(told) = self.told.try_recv()
        {
            open &= self.take(Some(told));
        }
        open
    }

    /// `false` for the order to stop.
    fn take(&mut self, told: Option<Told<T>>) -> bool {
        match told {
            Some(Told::Dirty { aor, ticket }) => {
                match ticket {
                    Some(ticket) => self.tickets.push((aor, ticket)),
                    None => self.remember(aor),
                }
                true
            }
            Some(Told::Close) => {
                self.told.close();
                false
            }
            None => false,
        }
    }

    fn remember(&mut self, aor: Box<[u8]>) {
        if self.dirty.len() < self.options.retained_max || self.dirty.contains(&aor) {
            self.dirty.insert(aor);
        } else {
            self.missed.store(true, Relaxed);
        }
    }

    /// Writes what there is; returns whether the file agrees with memory now.
    async fn write(&mut self) -> bool {
        let agrees = self.write_tickets().await && self.write_dirty().await && self.write_resync().await;
        self.stats.retained.store(self.dirty.len() as u64, Relaxed);
        agrees
    }

    /// Tickets first: someone waits for them.
    async fn write_tickets(&mut self) -> bool {
        let mut all = true;
        while !self.tickets.is_empty() {
            let rest = self.tickets.split_off(self.tickets.len().min(self.options.batch_max));
            let tickets = std::mem::replace(&mut self.tickets, rest);
            let aors: BTreeSet<&[u8]> = tickets.iter().map(|(aor, _)| &**aor).collect();
            let done = self.transaction(&aors).await;
            all &= done;
            if !done {
                self.stats.tickets_failed.fetch_add(tickets.len() as u64, Relaxed);
            }
            for (aor, ticket) in tickets {
                (self.answered)(ticket, done);
                if done {
                    self.dirty.remove(&aor);
                } else {
                    self.remember(aor);
                }
            }
        }
        all
    }

    async fn write_dirty(&mut self) -> bool {
        while !self.dirty.is_empty() {
            let some: BTreeSet<Box<[u8]>> = self.dirty.iter().take(self.options.batch_max).cloned().collect();
            if !self.transaction(&some.iter().map(|aor| &**aor).collect()).await {
                return false;
            }
            for aor in some {
                self.dirty.remove(&aor);
            }
            if !self.told.is_empty() {
                // There may be tickets by now; the rest has time.
                return false;
            }
        }
        true
    }

    /// Writes everything memory has and deletes what it does not have, some at a time.
    async fn write_resync(&mut self) -> bool {
        while self.resync.is_some() || self.missed.swap(false, Relaxed) {
            let Some(resync) = &mut self.resync else {
                match self.last_batch().await {
                    Ok(first) => self.resync = Some(Resync { first, chunk: 0, aors: Vec::new() }),
                    Err(error) => {
                        self.missed.store(true, Relaxed);
                        self.failed(error);
                        return false;
                    }
                }
                self.stats.resyncs.fetch_add(1, Relaxed);
                continue;
            };
            if resync.aors.is_empty() {
                if resync.chunk == self.locations.chunks() {
                    let first = resync.first;
                    if let Err(error) = self.delete_untouched(first).await {
                        self.failed(error);
                        return false;
                    }
                    self.resync = None;
                    continue;
                }
                self.locations.for_each(resync.chunk, |aor, _| resync.aors.push(aor.into()));
                resync.chunk += 1;
            }
            let rest = resync.aors.len().saturating_sub(self.options.batch_max);
            let some = resync.aors.split_off(rest);
            if !some.is_empty() && !self.transaction(&some.iter().map(|aor| &**aor).collect()).await {
                // It begins anew, once the disk works again.
                self.resync = None;
                self.missed.store(true, Relaxed);
                return false;
            }
            if !self.told.is_empty() {
                return false;
            }
        }
        true
    }

    async fn delete_untouched(&mut self, first: i64) -> Result<(), StoreError> {
        let path = self.shared.path.clone();
        let db = self.database().await?;
        let deleted = sqlx::query("DELETE FROM location WHERE batch <= ?").bind(first).execute(db).await;
        deleted.map(|_| ()).map_err(|error| StoreError::from_sqlx(&path, &error))
    }

    async fn last_batch(&mut self) -> Result<i64, StoreError> {
        let path = self.shared.path.clone();
        let db = self.database().await?;
        let last = sqlx::query_scalar("SELECT last FROM batch").fetch_one(db).await;
        last.map_err(|error| StoreError::from_sqlx(&path, &error))
    }

    async fn database(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        let db = match self.db.take() {
            Some(db) => db,
            None => connect(&self.shared.path, &self.shared.options, false).await?,
        };
        Ok(self.db.insert(db))
    }

    async fn transaction(&mut self, aors: &BTreeSet<&[u8]>) -> bool {
        match self.try_transaction(aors).await {
            Ok(rows) => {
                self.stats.batches.fetch_add(1, Relaxed);
                self.stats.rows.fetch_add(rows as u64, Relaxed);
                if self.attempts > 0 {
                    (self.event)(WriterEvent::Recovered { attempts: self.attempts });
                    self.stats.failing.store(false, Relaxed);
                    self.attempts = 0;
                    self.pause = self.options.retry_min;
                }
                true
            }
            Err(error) => {
                self.failed(error);
                false
            }
        }
    }

    async fn try_transaction(&mut self, aors: &BTreeSet<&[u8]>) -> Result<usize, StoreError> {
        self.database().await?;
        let times = (self.clock)();
        let Some(db) = self.db.as_mut() else { return Ok(0) };
        let aors = aors.iter().copied();
        let written = write_batch(db, &self.statements, aors, &self.locations, &self.sockets, times).await;
        written.map_err(|error| StoreError::from_sqlx(&self.shared.path, &error))
    }

    fn failed(&mut self, error: StoreError) {
        self.stats.failures.fetch_add(1, Relaxed);
        self.stats.failing.store(true, Relaxed);
        if self.attempts == 0 {
            (self.event)(WriterEvent::Failing(error));
        }
        self.attempts += 1;
        // A connection whose sync has failed knows nothing any more about what is on the disk: the next one reads.
        self.db = None;
    }
}
