//! Taking over users and bindings from a Kamailio: `subscriber` (version 6 and later) and `location` (version 8); and
//! reading, for whoever turns them into configuration, `dispatcher` (Kamailio) and `load_balancer` (OpenSIPS).
//!
//! A source gives the rows of the tables it was asked for, one at a time ([`Source`]): a dump of MySQL, MariaDB,
//! PostgreSQL or SQLite ([`dump`]), or Kamailio's own SQLite file ([`sqlite`]). A row that can't be taken is counted with its reason and place, and the
//! next one is looked at. Bindings go into the location service first and from there into the file, as a REGISTER's
//! do; a contact that is registered already is left as it is.
//!
//! Kamailio keeps times as local time without saying which; the caller says how far that is from UTC.

mod dump;
mod file;
mod sqlite;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sqlx::Connection;
use tandem_auth::Ha1;
use tandem_registrar::{Locations, write_canonical_parts};

pub use dump::Dump;
pub use file::ImportFile;
pub use sqlite::SqliteFile;

use crate::batch::{Statements, write_batch};
use crate::row::{Applied, LocationRow, read_q};
use crate::users::{UserRow, insert};
use crate::{Clock, Sockets, Store, StoreError, StoreErrorKind, Times};

/// The tables that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Users.
    Subscriber,
    /// Bindings.
    Location,
    /// Kamailio's sets of destinations.
    Dispatcher,
    /// OpenSIPS's groups of destinations.
    LoadBalancer,
}

impl Table {
    /// What [`Store::import`] takes over.
    pub const SUBSCRIBERS: &'static [Self] = &[Self::Subscriber, Self::Location];
    /// What describes pools.
    pub const POOLS: &'static [Self] = &[Self::Dispatcher, Self::LoadBalancer];

    /// Its name in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Subscriber => "subscriber",
            Self::Location => "location",
            Self::Dispatcher => "dispatcher",
            Self::LoadBalancer => "load_balancer",
        }
    }
}

/// What a source gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// A row.
    Row(RawRow),
    /// Something in the place of a row that can't be read.
    Broken {
        /// Of which table.
        table: Table,
        /// In which line, or after which row.
        line: u64,
        /// What is wrong.
        why: &'static str,
    },
}

/// A row as it stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawRow {
    /// Of which table.
    pub table: Table,
    /// In which line of a dump, or under which `rowid`.
    pub line: u64,
    columns: Arc<[String]>,
    values: Vec<Option<Vec<u8>>>,
}

impl RawRow {
    /// The value of a column as text; empty for NULL and for a column that is not there.
    ///
    /// # Errors
    ///
    /// That it is no UTF-8.
    pub fn text(&self, column: &str) -> Result<&str, &'static str> {
        let place = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column));
        let value = place.and_then(|place| self.values.get(place)?.as_deref()).unwrap_or_default();
        std::str::from_utf8(value).map_err(|_| "text is not UTF-8")
    }
}

/// Gives rows one at a time.
pub trait Source {
    /// The next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// What keeps the rest from being read.
    fn next(&mut self) -> impl Future<Output = Result<Option<Item>, String>> + Send;
}

/// How rows are taken over.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Only count.
    pub dry_run: bool,
    /// Replace users that are there already; else they are left as they are.
    pub replace_users: bool,
    /// The domain of rows that have none (Kamailio without `use_domain`).
    pub domain: Option<String>,
    /// The realm that the `ha1` column was made with, and that new hashes are made with; `None` is the domain.
    pub realm: Option<String>,
    /// How many seconds the server's local time was ahead of UTC.
    pub utc_offset_secs: i64,
}

/// What became of the rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportCount {
    /// Rows taken, or that would be.
    pub taken: u64,
    /// Rows not taken, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// The first hundred of them by line.
    pub first_skipped: Vec<(u64, &'static str)>,
}

impl ImportCount {
    fn skip(&mut self, line: u64, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
        if self.first_skipped.len() < 100 {
            self.first_skipped.push((line, why));
        }
    }
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Users.
    pub subscribers: ImportCount,
    /// Bindings.
    pub locations: ImportCount,
}

/// Rows per transaction.
const BATCH: usize = 1000;

impl Store {
    /// Takes over what `source` has. `user` is called with each user that is in the file now, so that the node can
    /// put it into its memory; `locations` must have been loaded from this store.
    ///
    /// # Errors
    ///
    /// What is wrong with our file or keeps the source from being read; batches before that stay taken.
    pub async fn import(
        &self,
        source: &mut impl Source,
        options: &ImportOptions,
        locations: &Locations,
        sockets: &Sockets,
        clock: &Clock,
        mut user: impl FnMut(&UserRow),
    ) -> Result<ImportReport, StoreError> {
        let mut report = ImportReport::default();
        let mut users: Vec<(u64, UserRow)> = Vec::new();
        let mut aors: BTreeSet<Vec<u8>> = BTreeSet::new();
        let statements = Statements::new();
        loop {
            let item = source.next().await;
            let item = item.map_err(|error| StoreError::new(StoreErrorKind::Input, self.path(), error))?;
            let times = clock();
            let end = item.is_none();
            match item {
                Some(Item::Row(row)) if row.table == Table::Subscriber => match user_row(&row, options) {
                    Ok(found) => users.push((row.line, found)),
                    Err(why) => report.subscribers.skip(row.line, why),
                },
                Some(Item::Row(row)) if row.table == Table::Location => {
                    match location_row(&row, options, times) {
                        Ok(found) => {
                            let count = &mut report.locations;
                            let applied = if options.dry_run {
                                found.check(times)
                            } else {
                                found.apply(locations, sockets, times)
                            };
                            match applied {
                                Applied::Taken => {
                                    count.taken += 1;
                                    aors.insert(found.aor());
                                }
                                Applied::Expired => count.skip(row.line, "expired"),
                                Applied::Present => count.skip(row.line, "registered here already"),
                                Applied::Bad(why) => count.skip(row.line, why),
                                Applied::Full => count.skip(row.line, "location service is full"),
                            }
                        }
                        Err(why) => report.locations.skip(row.line, why),
                    }
                }
                Some(Item::Broken { table: Table::Subscriber, line, why }) => {
                    report.subscribers.skip(line, why)
                }
                Some(Item::Broken { table: Table::Location, line, why }) => report.locations.skip(line, why),
                // Not asked for.
                Some(Item::Row(_) | Item::Broken { .. }) | None => {}
            }
            if users.len() >= BATCH || end {
                let users = std::mem::take(&mut users);
                self.import_users(users, options, &mut report.subscribers, &mut user).await?;
            }
            if aors.len() >= BATCH || end {
                let aors = std::mem::take(&mut aors);
                if !options.dry_run && !aors.is_empty() {
                    let mut db = self.connection().await;
                    let aors = aors.iter().map(Vec::as_slice);
                    let written = write_batch(&mut db, &statements, aors, locations, sockets, times).await;
                    written.map_err(|error| self.error(&error))?;
                }
            }
            if end {
                return Ok(report);
            }
        }
    }

    async fn import_users(
        &self,
        users: Vec<(u64, UserRow)>,
        options: &ImportOptions,
        count: &mut ImportCount,
        user: &mut impl FnMut(&UserRow),
    ) -> Result<(), StoreError> {
        if users.is_empty() {
            return Ok(());
        }
        let mut db = self.connection().await;
        let mut added = Vec::with_capacity(users.len());
        let work = async {
            let mut tx = db.begin_with("BEGIN IMMEDIATE").await?;
            for (_, row) in &users {
                added.push(insert(&mut tx, row, options.replace_users).await?);
            }
            if options.dry_run { tx.rollback().await } else { tx.commit().await }
        };
        work.await.map_err(|error| self.error(&error))?;
        for ((line, row), added) in users.iter().zip(added) {
            if !added {
                count.skip(*line, "user exists");
                continue;
            }
            count.taken += 1;
            if !options.dry_run {
                user(row);
            }
        }
        Ok(())
    }
}

fn user_row(row: &RawRow, options: &ImportOptions) -> Result<UserRow, &'static str> {
    let username = row.text("username")?;
    let domain = domain(row, options)?;
    let password = row.text("password")?;
    let realm = options.realm.as_deref();
    let user = if password.is_empty() {
        let ha1 = Ha1::from_md5_hex(row.text("ha1")?.as_bytes()).ok_or("neither password nor ha1")?;
        let realm = realm.unwrap_or(&domain).to_owned();
        UserRow { username: username.to_owned(), domain, realm, ha1 }
    } else {
        UserRow::from_password(username, &domain, realm, password)
    };
    user.defect().map_or(Ok(user), Err)
}

fn location_row(row: &RawRow, options: &ImportOptions, times: Times) -> Result<LocationRow, &'static str> {
    let time = |column| row.text(column).map(|text| unix_time(text, options.utc_offset_secs));
    let number = |column| row.text(column).map(|text| text.parse().unwrap_or_default());
    let q = row.text("q")?;
    let (username, domain) = canonical(row.text("username")?, &domain(row, options)?);
    Ok(LocationRow {
        username,
        domain,
        contact: row.text("contact")?.to_owned(),
        received: row.text("received")?.to_owned(),
        path: row.text("path")?.to_owned(),
        expires: time("expires")?.ok_or("expires is no time")?,
        q: if q.is_empty() { 1000 } else { read_q(q).ok_or("q is no number up to 1")? },
        callid: row.text("callid")?.to_owned(),
        cseq: number("cseq")?,
        last_modified: time("last_modified")?.unwrap_or(times.unix),
        user_agent: row.text("user_agent")?.to_owned(),
        socket: row.text("socket")?.to_owned(),
        instance: row.text("instance")?.trim_matches('"').to_owned(),
        reg_id: number("reg_id")?,
    })
}

fn domain(row: &RawRow, options: &ImportOptions) -> Result<String, &'static str> {
    let domain = match row.text("domain")? {
        "" => options.domain.as_deref().ok_or("no domain, and none given for such rows")?,
        domain => domain,
    };
    Ok(domain.to_ascii_lowercase())
}

/// The columns of the canonical address-of-record, as our own rows have them.
fn canonical(username: &str, domain: &str) -> (String, String) {
    let mut aor = Vec::new();
    write_canonical_parts(username.as_bytes(), domain.as_bytes(), None, &mut aor);
    crate::row::aor_columns(&aor)
}

/// Unix seconds from digits, or from `2026-11-21 22:30:00` in local time.
fn unix_time(text: &str, utc_offset_secs: i64) -> Option<i64> {
    if let Ok(secs) = text.parse() {
        return Some(secs);
    }
    let mut numbers = text.split(['-', ' ', 'T', ':', '.', '+']).map(str::parse::<i64>);
    let mut next = |low: i64, high: i64| numbers.next()?.ok().filter(|n| (low..=high).contains(n));
    let (year, month, day) = (next(0, 9999)?, next(1, 12)?, next(1, 31)?);
    let (hour, minute, second) = (next(0, 23)?, next(0, 59)?, next(0, 60)?);
    // Days since 1970-01-01 of the proleptic Gregorian calendar, with the year beginning in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second - utc_offset_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_time_becomes_unix_seconds() {
        assert_eq!(unix_time("1970-01-01 00:00:00", 0), Some(0));
        assert_eq!(unix_time("2000-02-29 12:00:00", 0), Some(951_825_600));
        assert_eq!(unix_time("2030-05-28 21:32:15", 7200), Some(1_906_227_135));
        assert_eq!(unix_time("1900000000", 7200), Some(1_900_000_000));
        assert_eq!(unix_time("2030-13-01 00:00:00", 0), None);
        assert_eq!(unix_time("", 0), None);
    }
}
