//! The database file: opening it, and what is asked of it outside the data path.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{Mutex, MutexGuard};

use crate::{StoreError, StoreErrorKind, schema};

/// How the database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a commit waits for the disk (`synchronous` FULL), as durability `commit` needs it; else the last
    /// moments before a power cut may be lost, never the file (NORMAL).
    pub sync_each_commit: bool,
    /// How long a statement waits for another connection's lock.
    pub busy_timeout: Duration,
    /// The largest size of the database in octets; `None` for what the disk holds.
    pub size_max: Option<u64>,
}

impl Default for Options {
    /// Waits for the disk; half a second for a lock; no bound.
    fn default() -> Self {
        Self { sync_each_commit: true, busy_timeout: Duration::from_millis(500), size_max: None }
    }
}

const PAGE_BYTES: u32 = 4096;

/// An open database. Clones share one connection, whose users take turns.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    connection: Mutex<SqliteConnection>,
    /// Locked while the store is open: memory is the truth, so two nodes on one file would undo each other.
    _lock: File,
}

impl Store {
    /// Opens the database at `path`, makes it if there is none, and brings its tables to this version.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, with the remedy.
    pub async fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        let lock = lock(path)?;
        let mut connection = connect(path, &options, true).await?;
        match schema::migrate(&mut connection).await {
            Ok(()) => {}
            Err(Ok(found)) => {
                return Err(StoreError::new(StoreErrorKind::Newer, path, format!("schema version {found}")));
            }
            Err(Err(error)) => return Err(StoreError::from_sqlx(path, &error)),
        }
        let connection = Mutex::new(connection);
        Ok(Self { shared: Arc::new(Shared { path: path.to_owned(), options, connection, _lock: lock }) })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) async fn connection(&self) -> MutexGuard<'_, SqliteConnection> {
        self.shared.connection.lock().await
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> StoreError {
        StoreError::from_sqlx(&self.shared.path, error)
    }

    /// Closes the file, its write-ahead log folded in. After the writer has stopped; a clone elsewhere keeps it open.
    ///
    /// Not closing loses nothing: the next start reads the log.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub async fn close(self) -> Result<(), StoreError> {
        let Some(shared) = Arc::into_inner(self.shared) else { return Ok(()) };
        let closed = shared.connection.into_inner().close().await;
        closed.map_err(|error| StoreError::from_sqlx(&shared.path, &error))
    }

    /// Reads the whole file and checks its structure; takes a second per few hundred megabytes.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Corrupt`] with the first defect.
    pub async fn check(&self) -> Result<(), StoreError> {
        let mut db = self.connection().await;
        let found: Result<String, _> = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *db).await;
        match found {
            Ok(text) if text == "ok" => Ok(()),
            Ok(text) => Err(StoreError::new(StoreErrorKind::Corrupt, &self.shared.path, text)),
            Err(error) => Err(self.error(&error)),
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

/// Opens one connection with our settings.
pub(crate) async fn connect(
    path: &Path,
    options: &Options,
    create: bool,
) -> Result<SqliteConnection, StoreError> {
    let sync = if options.sync_each_commit { SqliteSynchronous::Full } else { SqliteSynchronous::Normal };
    let mut connect = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(create)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(sync)
        .busy_timeout(options.busy_timeout)
        // 64 MiB of pages: upserts hit the index at random, and a cache smaller than it would read on each.
        .pragma("cache_size", "-65536")
        .thread_name(|n| format!("store-sqlite-{n}"))
        .disable_statement_logging();
    if let Some(bytes) = options.size_max {
        connect = connect.pragma("max_page_count", (bytes / u64::from(PAGE_BYTES)).max(1).to_string());
    }
    SqliteConnection::connect_with(&connect).await.map_err(|error| StoreError::from_sqlx(path, &error))
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let open = |error: &std::io::Error| StoreError::new(StoreErrorKind::Open, path, error.to_string());
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = File::options().create(true).append(true).open(name).map_err(|error| open(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(StoreError::new(StoreErrorKind::Held, path, "its .lock file is locked"))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(open(&error)),
    }
}

/// Runs a call of this crate to its end on a small runtime of its own, for callers that have none.
///
/// # Panics
///
/// Within another runtime.
pub fn run<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(future))
}
