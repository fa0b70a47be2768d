//! One transaction that makes the file agree with memory for some addresses-of-record.
//!
//! All bindings of each are upserted with the number of this batch; then rows of the same addresses with another
//! number are deleted: they belong to contacts that are gone. What memory has is written, whatever was asked for, so
//! a batch may be repeated, merged with the next, or come late.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use tandem_registrar::Locations;

use crate::row::{LocationRow, aor_columns};
use crate::{Sockets, Times};

/// Rows per statement: a few shapes, so that each is prepared once.
const SHAPES: [usize; 3] = [32, 8, 1];

const COLUMNS: &str = "username, domain, contact, received, path, expires, q, callid, cseq, last_modified, \
                       user_agent, socket, instance, reg_id, batch";

/// The prepared texts; made once, of nothing but numbers of rows.
#[derive(Debug)]
pub(crate) struct Statements {
    upsert: [String; 3],
    delete: [String; 3],
}

impl Statements {
    pub(crate) fn new() -> Self {
        Self { upsert: SHAPES.map(upsert_sql), delete: SHAPES.map(delete_sql) }
    }
}

fn upsert_sql(rows: usize) -> String {
    let one = format!("({})", ["?"; 15].join(", "));
    let mut sql = format!("INSERT INTO location ({COLUMNS}) VALUES {} ", vec![one; rows].join(", "));
    sql.push_str("ON CONFLICT (username, domain, contact) DO UPDATE SET ");
    let updated = COLUMNS.split(", ").skip(3).map(|column| format!("{column} = excluded.{column}"));
    sql.push_str(&updated.collect::<Vec<_>>().join(", "));
    sql
}

fn delete_sql(aors: usize) -> String {
    let mut sql = String::from("DELETE FROM location WHERE batch <> ? AND (");
    for n in 0..aors {
        // Writing to a String does not fail.
        let _ = write!(sql, "{}(username = ? AND domain = ?)", if n == 0 { "" } else { " OR " });
    }
    sql.push(')');
    sql
}

/// Writes the bindings that `aors` have in `locations` now; returns how many rows that were.
///
/// Nothing is written if any of it fails.
pub(crate) async fn write_batch<'a>(
    db: &mut SqliteConnection,
    statements: &Statements,
    aors: impl Iterator<Item = &'a [u8]>,
    locations: &Locations,
    sockets: &Sockets,
    times: Times,
) -> Result<usize, sqlx::Error> {
    let mut rows = Vec::new();
    let mut keys = Vec::new();
    for aor in aors {
        keys.push(aor_columns(aor));
        locations.with(aor, |record| {
            let live = record.into_iter().flat_map(|record| record.live(times.now));
            rows.extend(live.map(|binding| LocationRow::of(aor, &binding, sockets, times)));
        });
    }
    let count = rows.len();
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("UPDATE batch SET last = last + 1").execute(&mut *tx).await?;
    let batch: i64 = sqlx::query_scalar("SELECT last FROM batch").fetch_one(&mut *tx).await?;
    // First what makes room, for the case that the disk is full.
    let (kept, gone) = by_rows(keys, &rows);
    delete(&mut tx, statements, &gone, batch).await?;
    upsert(&mut tx, statements, rows, batch).await?;
    delete(&mut tx, statements, &kept, batch).await?;
    tx.commit().await?;
    Ok(count)
}

type Keys = Vec<(String, String)>;

/// Parts the addresses that have a binding from those that have none left; `rows` come in the order of `keys`.
fn by_rows(keys: Keys, rows: &[LocationRow]) -> (Keys, Keys) {
    let mut rows = rows.iter().peekable();
    keys.into_iter().partition(|(username, domain)| {
        let mut has = false;
        while rows.next_if(|row| row.username == *username && row.domain == *domain).is_some() {
            has = true;
        }
        has
    })
}

async fn upsert(
    db: &mut SqliteConnection,
    statements: &Statements,
    rows: Vec<LocationRow>,
    batch: i64,
) -> Result<(), sqlx::Error> {
    let mut rows = rows.into_iter();
    for (shape, sql) in SHAPES.into_iter().zip(&statements.upsert) {
        while rows.len() >= shape {
            let mut query = sqlx::query(AssertSqlSafe(sql.as_str()));
            for row in rows.by_ref().take(shape) {
                query = query
                    .bind(row.username)
                    .bind(row.domain)
                    .bind(row.contact)
                    .bind(row.received)
                    .bind(row.path)
                    .bind(row.expires)
                    .bind(f64::from(row.q) / 1000.0)
                    .bind(row.callid)
                    .bind(row.cseq)
                    .bind(row.last_modified)
                    .bind(row.user_agent)
                    .bind(row.socket)
                    .bind(row.instance)
                    .bind(row.reg_id)
                    .bind(batch);
            }
            query.execute(&mut *db).await?;
        }
    }
    Ok(())
}

async fn delete(
    db: &mut SqliteConnection,
    statements: &Statements,
    mut keys: &[(String, String)],
    batch: i64,
) -> Result<(), sqlx::Error> {
    for (shape, sql) in SHAPES.into_iter().zip(&statements.delete) {
        while let Some((some, rest)) = keys.split_at_checked(shape) {
            keys = rest;
            let mut query = sqlx::query(AssertSqlSafe(sql.as_str())).bind(batch);
            for (username, domain) in some {
                query = query.bind(username.as_str()).bind(domain.as_str());
            }
            query.execute(&mut *db).await?;
        }
    }
    Ok(())
}
