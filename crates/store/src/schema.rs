//! The tables, and how a file of an older version becomes one of this.
//!
//! `subscriber` and `location` keep Kamailio's names (subscriber version 6, location version 8) for what means the
//! same, so that an operator's queries and eyes work here too. What differs: `expires` and `last_modified` are Unix
//! seconds; `batch` is ours (the number of the transaction that wrote the row); there is no clear-text password.
//! `username` has `%` and control octets escaped, so that any user part of a URI comes back as it was.
//!
//! The statements keep to what SQLite, MariaDB and PostgreSQL share, but for the upsert's `ON CONFLICT`.

use sqlx::{Connection, SqliteConnection};

/// Each step from one version to the next; the version is how many were taken.
const STEPS: &[&[&str]] = &[&[
    "CREATE TABLE subscriber (
        id INTEGER PRIMARY KEY,
        username VARCHAR(255) NOT NULL,
        domain VARCHAR(255) NOT NULL,
        realm VARCHAR(255) NOT NULL,
        ha1 VARCHAR(32) NOT NULL DEFAULT '',
        ha1_sha256 VARCHAR(64) NOT NULL DEFAULT '',
        UNIQUE (username, domain)
    )",
    "CREATE TABLE location (
        id INTEGER PRIMARY KEY,
        username VARCHAR(255) NOT NULL,
        domain VARCHAR(255) NOT NULL,
        contact VARCHAR(4096) NOT NULL,
        received VARCHAR(255) NOT NULL DEFAULT '',
        path VARCHAR(4096) NOT NULL DEFAULT '',
        expires BIGINT NOT NULL,
        q DOUBLE PRECISION NOT NULL DEFAULT 1,
        callid VARCHAR(4096) NOT NULL,
        cseq BIGINT NOT NULL DEFAULT 1,
        last_modified BIGINT NOT NULL,
        user_agent VARCHAR(4096) NOT NULL DEFAULT '',
        socket VARCHAR(255) NOT NULL DEFAULT '',
        instance VARCHAR(4096) NOT NULL DEFAULT '',
        reg_id BIGINT NOT NULL DEFAULT 0,
        batch BIGINT NOT NULL DEFAULT 0,
        UNIQUE (username, domain, contact)
    )",
    "CREATE TABLE batch (last BIGINT NOT NULL)",
    "INSERT INTO batch (last) VALUES (0)",
]];

/// Brings the file to this version; `Err(Ok(found))` if a later one wrote it.
pub(crate) async fn migrate(db: &mut SqliteConnection) -> Result<(), Result<i64, sqlx::Error>> {
    let run = async |db: &mut SqliteConnection| {
        let mut tx = db.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
            .execute(&mut *tx)
            .await?;
        let found: Option<i64> =
            sqlx::query_scalar("SELECT max(version) FROM schema_version").fetch_one(&mut *tx).await?;
        let taken = usize::try_from(found.unwrap_or_default()).unwrap_or(usize::MAX);
        if taken > STEPS.len() {
            return Ok(found);
        }
        for (version, step) in (1_i64..).zip(STEPS).skip(taken) {
            for statement in *step {
                sqlx::query(*statement).execute(&mut *tx).await?;
            }
            sqlx::query("DELETE FROM schema_version").execute(&mut *tx).await?;
            sqlx::query("INSERT INTO schema_version (version) VALUES (?)")
                .bind(version)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(None)
    };
    match run(db).await {
        Ok(None) => Ok(()),
        Ok(Some(found)) => Err(Ok(found)),
        Err(error) => Err(Err(error)),
    }
}
