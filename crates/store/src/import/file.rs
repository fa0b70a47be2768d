//! A file to take rows from, whatever it is.

use std::fs::File;
use std::io::{Chain, Cursor, Read as _};
use std::path::Path;

use super::{Dump, Item, Source, SqliteFile, Table};

/// What an SQLite file begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// A dump or an SQLite file, told apart by how it begins.
#[derive(Debug)]
pub enum ImportFile {
    /// A dump.
    Dump(Box<Dump<Chain<Cursor<Vec<u8>>, File>>>),
    /// An SQLite file.
    Sqlite(SqliteFile),
}

impl ImportFile {
    /// Opens `path` to read the rows of `tables`.
    ///
    /// # Errors
    ///
    /// Why it can't be read, or that it is an SQLite file with none of the tables.
    pub async fn open(path: &Path, tables: &[Table]) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("{} can't be read: {error}", path.display());
        let mut file = File::open(path).map_err(unreadable)?;
        let mut head = Vec::new();
        let mut start = (&mut file).take(SQLITE.len() as u64);
        start.read_to_end(&mut head).map_err(unreadable)?;
        if head == SQLITE {
            return Ok(Self::Sqlite(SqliteFile::open(path, tables).await?));
        }
        Ok(Self::Dump(Box::new(Dump::new(Cursor::new(head).chain(file), tables))))
    }
}

impl Source for ImportFile {
    async fn next(&mut self) -> Result<Option<Item>, String> {
        match self {
            Self::Dump(dump) => dump.next_item(),
            Self::Sqlite(file) => file.next().await,
        }
    }
}
