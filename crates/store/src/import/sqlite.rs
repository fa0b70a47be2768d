//! A Kamailio's or OpenSIPS's SQLite file (`db_sqlite`), read as it lies, column by column name.

use std::path::Path;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{Column, ConnectOptions, Row, SqliteConnection};

use super::{Item, RawRow, Source, Table};

const ROWS_PER_READ: i64 = 1000;

/// Such a database in a SQLite file; nothing is written to it.
#[derive(Debug)]
pub struct SqliteFile {
    db: SqliteConnection,
    /// The tables that are there and not yet read to the end.
    tables: Vec<Table>,
    last_row: i64,
    rows: std::vec::IntoIter<SqliteRow>,
}

impl SqliteFile {
    /// Opens the file to read the rows of `tables`.
    ///
    /// # Errors
    ///
    /// Why it can't be read, or that it has none of them.
    pub async fn open(path: &Path, tables: &[Table]) -> Result<Self, String> {
        let options = SqliteConnectOptions::new().filename(path).read_only(true);
        let connect = options.connect().await;
        let mut db = connect.map_err(|error| format!("{}: {error}", path.display()))?;
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table'";
        let names: Result<Vec<String>, _> = sqlx::query_scalar(sql).fetch_all(&mut db).await;
        let names = names.map_err(|error| format!("{}: {error}", path.display()))?;
        let is_there = |table: &Table| names.iter().any(|name| name == table.name());
        let found: Vec<_> = tables.iter().copied().filter(is_there).collect();
        if found.is_empty() {
            let asked: Vec<_> = tables.iter().map(|table| table.name()).collect();
            return Err(format!("{}: no table named {}", path.display(), asked.join(" or ")));
        }
        let tables = found;
        Ok(Self { db, tables, last_row: -1, rows: Vec::new().into_iter() })
    }
}

impl Source for SqliteFile {
    async fn next(&mut self) -> Result<Option<Item>, String> {
        loop {
            let Some(&table) = self.tables.last() else { return Ok(None) };
            if let Some(row) = self.rows.next() {
                let (line, item) = raw(table, &row);
                self.last_row = line;
                return Ok(Some(item));
            }
            let sql = match table {
                Table::Subscriber => {
                    "SELECT rowid AS _row, * FROM subscriber WHERE rowid > ? ORDER BY rowid LIMIT ?"
                }
                Table::Location => {
                    "SELECT rowid AS _row, * FROM location WHERE rowid > ? ORDER BY rowid LIMIT ?"
                }
                Table::Dispatcher => {
                    "SELECT rowid AS _row, * FROM dispatcher WHERE rowid > ? ORDER BY rowid LIMIT ?"
                }
                Table::LoadBalancer => {
                    "SELECT rowid AS _row, * FROM load_balancer WHERE rowid > ? ORDER BY rowid LIMIT ?"
                }
            };
            let read = sqlx::query(sql).bind(self.last_row).bind(ROWS_PER_READ).fetch_all(&mut self.db).await;
            self.rows = read.map_err(|error| error.to_string())?.into_iter();
            if self.rows.len() == 0 {
                self.tables.pop();
                self.last_row = -1;
            }
        }
    }
}

fn raw(table: Table, row: &SqliteRow) -> (i64, Item) {
    let id: i64 = row.try_get_unchecked(0).unwrap_or_default();
    let line = u64::try_from(id).unwrap_or_default();
    let columns: Arc<[String]> = row.columns().iter().map(|column| column.name().to_owned()).collect();
    // SQLite turns whatever the column holds into text.
    let values: Result<Vec<_>, _> =
        (0..columns.len()).map(|n| row.try_get_unchecked::<Option<String>, _>(n)).collect();
    let item = match values {
        Ok(values) => {
            let values = values.into_iter().map(|value| value.map(String::into_bytes)).collect();
            Item::Row(RawRow { table, line, columns, values })
        }
        Err(_) => Item::Broken { table, line, why: "text is not UTF-8" },
    };
    (id, item)
}
