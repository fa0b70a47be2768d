//! What can go wrong with the database file, in the operator's words and with the remedy.

use std::path::{Path, PathBuf};

/// A failure of the store.
#[derive(Clone, Debug)]
pub struct StoreError {
    /// What it is about.
    pub kind: StoreErrorKind,
    /// The database file.
    pub path: PathBuf,
    /// What the engine or the system said.
    pub detail: String,
}

/// The kinds of [`StoreError`], by what an operator does about them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreErrorKind {
    /// The file can't be opened or made.
    Open,
    /// Another process holds the file.
    Held,
    /// The file is no SQLite database.
    NotADatabase,
    /// The file is damaged.
    Corrupt,
    /// A later version of this program wrote the file.
    Newer,
    /// The disk, the quota or the configured size is exhausted.
    Full,
    /// Another connection held the write lock for too long.
    Busy,
    /// The file or the file system can't be written.
    ReadOnly,
    /// A read, write or sync failed.
    Io,
    /// What was asked for is not there, or is there already.
    Conflict,
    /// What was given can't be used.
    Input,
    /// Anything else the engine reports.
    Engine,
}

impl StoreErrorKind {
    /// What to do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Open => "check that the directory exists and that the service's user may write to it",
            Self::Held => "another tandem uses this database: stop it, or give this node a file of its own",
            Self::NotADatabase => "this is another kind of file: correct the path, or move the file away",
            Self::Corrupt => {
                "stop the node, keep a copy, save what can be read with `sqlite3 FILE .recover | sqlite3 NEW` and start \
                 with NEW; or move the file away: phones register again by themselves, users must be added again"
            }
            Self::Newer => {
                "start the version that wrote this file, or restore the copy made before the upgrade"
            }
            Self::Full => {
                "free space on the file system, or raise the configured size; nothing in memory is lost"
            }
            Self::Busy => "another program keeps the database locked: end its transaction",
            Self::ReadOnly => {
                "make the file, its directory and the file system writable for the service's user"
            }
            Self::Io => "look for disk errors in the kernel's log; bindings are served from memory meanwhile",
            Self::Conflict | Self::Input => "correct the command",
            Self::Engine => "report this with the text above",
        }
    }

    /// A word for counters and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Held => "held",
            Self::NotADatabase => "not_a_database",
            Self::Corrupt => "corrupt",
            Self::Newer => "newer",
            Self::Full => "full",
            Self::Busy => "busy",
            Self::ReadOnly => "read_only",
            Self::Io => "io",
            Self::Conflict => "conflict",
            Self::Input => "input",
            Self::Engine => "engine",
        }
    }
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, path: &Path, detail: impl Into<String>) -> Self {
        Self { kind, path: path.to_owned(), detail: detail.into() }
    }

    /// Names the kind of what sqlx reports.
    pub(crate) fn from_sqlx(path: &Path, error: &sqlx::Error) -> Self {
        let engine = error.as_database_error();
        // SQLite's extended result codes have the primary code in their low byte: https://sqlite.org/rescode.html
        let code =
            engine.and_then(|e| e.code()).and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff);
        let kind = match code {
            Some(5 | 6) => StoreErrorKind::Busy,
            Some(8) => StoreErrorKind::ReadOnly,
            Some(10) => StoreErrorKind::Io,
            Some(11) => StoreErrorKind::Corrupt,
            Some(13) => StoreErrorKind::Full,
            Some(14) => StoreErrorKind::Open,
            Some(19) => StoreErrorKind::Conflict,
            Some(26) => StoreErrorKind::NotADatabase,
            Some(_) => StoreErrorKind::Engine,
            None if matches!(error, sqlx::Error::Io(_)) => StoreErrorKind::Io,
            None => StoreErrorKind::Engine,
        };
        Self::new(kind, path, engine.map_or_else(|| error.to_string(), |e| e.message().to_owned()))
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.kind {
            StoreErrorKind::Open => "can't open the database",
            StoreErrorKind::Held => "the database is in use",
            StoreErrorKind::NotADatabase => "not a database",
            StoreErrorKind::Corrupt => "the database is damaged",
            StoreErrorKind::Newer => "the database is from a later version",
            StoreErrorKind::Full => "no space left for the database",
            StoreErrorKind::Busy => "the database is locked",
            StoreErrorKind::ReadOnly => "the database can't be written",
            StoreErrorKind::Io => "the database's disk failed",
            StoreErrorKind::Conflict => "the database refused the change",
            StoreErrorKind::Input => "can't use the input",
            StoreErrorKind::Engine => "the database failed",
        };
        write!(f, "{what}: {}: {}; {}", self.path.display(), self.detail, self.kind.remedy())
    }
}

impl std::error::Error for StoreError {}
