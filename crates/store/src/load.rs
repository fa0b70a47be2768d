//! From the file into the location service, at start.
//!
//! A million rows have to arrive within three seconds. Handing each column of each row through the driver costs more
//! than that, so SQLite joins the columns of two thousand rows into one text, which is cut up here while the driver's
//! thread makes the next one. The separators are control characters, which no stored text contains.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use sqlx::SqliteConnection;
use tandem_registrar::Locations;

use crate::row::{Applied, RowRef};
use crate::{Clock, Sockets, Store, StoreError};

/// What [`Store::load_locations`] read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Bindings that are in the location service now.
    pub taken: u64,
    /// Rows whose time had passed.
    pub expired: u64,
    /// Rows of contacts that the location service had already.
    pub present: u64,
    /// Rows that did not fit: the location service is full.
    pub refused: u64,
    /// Rows that can't be bindings, and why, for the first hundred of them.
    pub bad: u64,
    /// The first of the bad rows: after which `id`, and what is wrong.
    pub bad_rows: Vec<(i64, &'static str)>,
}

const ROWS_PER_READ: i64 = 2000;
const BAD_ROWS_MAX: usize = 100;
/// Rows that ended longer ago than this are deleted at start; younger ones may only look so to a wrong clock.
const KEPT_AFTER_END_SECS: i64 = 86_400;

/// Two thousand rows as one text; `printf` is the cheapest of SQLite's ways to join them.
const READ: &str = concat!(
    "SELECT coalesce(max(id), -1), count(*), coalesce(group_concat(printf('",
    "%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%d\x1f%d\x1f%s\x1f%d\x1f%d\x1f%s\x1f%s\x1f%s\x1f%d', ",
    "username, domain, contact, received, path, expires, CAST(q * 1000 + 0.5 AS INTEGER), callid, cseq, ",
    "last_modified, user_agent, socket, instance, reg_id), char(30)), '') FROM location WHERE id > ?1 AND id <= ",
    "coalesce((SELECT id FROM location WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2), 9223372036854775807)",
);

impl Store {
    /// Reads all bindings that live into `locations`.
    ///
    /// A bad row is counted and left where it is; it does not keep the others out.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, with the remedy.
    pub async fn load_locations(
        &self,
        locations: &Locations,
        sockets: &Sockets,
        clock: &Clock,
    ) -> Result<LoadReport, StoreError> {
        let mut db = self.connection().await;
        let times = clock();
        let mut report = LoadReport::default();
        let read =
            read_pages(&mut db, READ, |page| report.take(page, |row| row.apply(locations, sockets, times)));
        read.await.map_err(|error| self.error(&error))?;
        let gone = times.unix.saturating_sub(KEPT_AFTER_END_SECS);
        let deleted =
            sqlx::query("DELETE FROM location WHERE expires < ?").bind(gone).execute(&mut *db).await;
        deleted.map_err(|error| self.error(&error))?;
        Ok(report)
    }
}

/// Some rows, joined into one text.
pub(crate) struct Page {
    /// The rows have an `id` above this.
    pub(crate) after: i64,
    last: i64,
    count: i64,
    text: String,
}

impl Page {
    /// The rows, each as its fields.
    pub(crate) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        self.text.split('\x1e').map(|row| row.split('\x1f'))
    }
}

/// Runs a query such as [`READ`] until it finds no more rows.
pub(crate) async fn read_pages(
    db: &mut SqliteConnection,
    sql: &'static str,
    mut take: impl FnMut(&Page),
) -> Result<(), sqlx::Error> {
    let mut page = read(db, sql, -1).await?;
    while page.count > 0 {
        let after = page.last;
        let mut next = pin!(read(db, sql, after));
        // The first poll hands the query to the driver's thread, which works on it while we cut up the last one.
        let early = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await;
        take(&page);
        page = match early {
            Poll::Ready(read) => read?,
            Poll::Pending => next.await?,
        };
    }
    Ok(())
}

async fn read(db: &mut SqliteConnection, sql: &'static str, after: i64) -> Result<Page, sqlx::Error> {
    let row = sqlx::query_as::<_, (i64, i64, String)>(sql).bind(after).bind(ROWS_PER_READ - 1);
    let (last, count, text) = row.fetch_one(db).await?;
    Ok(Page { after, last, count, text })
}

impl LoadReport {
    fn take(&mut self, page: &Page, apply: impl Fn(&RowRef<'_>) -> Applied) {
        let mut rows = 0;
        for fields in page.rows() {
            rows += 1;
            match RowRef::from_fields(fields).map(|row| apply(&row)) {
                Some(Applied::Taken) => self.taken += 1,
                Some(Applied::Expired) => self.expired += 1,
                Some(Applied::Present) => self.present += 1,
                Some(Applied::Full) => self.refused += 1,
                Some(Applied::Bad(why)) => self.bad_row(page.after, why),
                None => self.bad_row(page.after, "a number or the count of columns is wrong"),
            }
        }
        // A separator inside a text makes more rows than there are.
        for _ in rows..page.count {
            self.bad_row(page.after, "not readable");
        }
    }

    fn bad_row(&mut self, after: i64, why: &'static str) {
        self.bad += 1;
        if self.bad_rows.len() < BAD_ROWS_MAX {
            self.bad_rows.push((after, why));
        }
    }
}
