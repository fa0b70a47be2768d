//! Users: the `subscriber` table, which knows hashes of passwords and no password.
//!
//! Each change is one transaction; whoever made it puts it into the node's memory (`tandem_auth::Users`) as well.

use sqlx::SqliteConnection;
use tandem_auth::{Ha1, Users};

use crate::load::read_pages;
use crate::{Store, StoreError, StoreErrorKind};

/// One user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRow {
    /// The user part of the address-of-record, as the digest's `username` has it.
    pub username: String,
    /// The domain, in lower case.
    pub domain: String,
    /// The realm that the hashes were made with; usually the domain.
    pub realm: String,
    /// The hashes.
    pub ha1: Ha1,
}

impl UserRow {
    /// A user from a password in the clear. `realm` of `None` is the domain.
    #[must_use]
    pub fn from_password(username: &str, domain: &str, realm: Option<&str>, password: &str) -> Self {
        let domain = domain.to_ascii_lowercase();
        let realm = realm.unwrap_or(&domain).to_owned();
        let ha1 = Ha1::from_password(username.as_bytes(), realm.as_bytes(), password.as_bytes());
        Self { username: username.to_owned(), domain, realm, ha1 }
    }

    /// The key under which `tandem_auth::Users` has the user: `user@realm`.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        format!("{}@{}", self.username, self.realm).into_bytes()
    }

    /// Why the row can't be a user.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        if self.username.is_empty() || self.domain.is_empty() {
            return Some("no user name or domain");
        }
        // A colon would end the name inside the hash; an `@` would move the domain.
        if self.username.contains([':', '@']) {
            return Some("`:` or `@` in the user name");
        }
        let texts = [&self.username, &self.domain, &self.realm];
        if texts.iter().any(|text| text.contains(char::is_control)) {
            return Some("control character in a text");
        }
        (self.ha1.md5.is_none() && self.ha1.sha256.is_none()).then_some("neither password nor ha1")
    }

    fn from_fields<'a>(mut fields: impl Iterator<Item = &'a str>) -> Option<Self> {
        let (username, domain, realm) = (fields.next()?.into(), fields.next()?.into(), fields.next()?.into());
        let ha1 = Ha1 { md5: unhex(fields.next()?)?, sha256: unhex(fields.next()?)? };
        let row = Self { username, domain, realm, ha1 };
        (fields.next().is_none() && row.defect().is_none()).then_some(row)
    }
}

const READ: &str = concat!(
    "SELECT coalesce(max(id), -1), count(*), coalesce(group_concat(printf('%s\x1f%s\x1f%s\x1f%s\x1f%s', ",
    "username, domain, realm, ha1, ha1_sha256), char(30)), '') FROM subscriber WHERE id > ?1 AND id <= ",
    "coalesce((SELECT id FROM subscriber WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2), 9223372036854775807)",
);

impl Store {
    /// Adds a user.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Conflict`] if there is one of that name, [`StoreErrorKind::Input`] if the name can't be one,
    /// or what is wrong with the file.
    pub async fn add_user(&self, user: &UserRow) -> Result<(), StoreError> {
        self.check_user(user)?;
        let mut db = self.connection().await;
        match insert(&mut db, user, false).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.user_error(StoreErrorKind::Conflict, user, "exists")),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// Changes a user's hashes, and with them the password.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Conflict`] if there is no such user, or what is wrong with the file.
    pub async fn set_password(&self, user: &UserRow) -> Result<(), StoreError> {
        self.check_user(user)?;
        let mut db = self.connection().await;
        let sql =
            "UPDATE subscriber SET realm = ?, ha1 = ?, ha1_sha256 = ? WHERE username = ? AND domain = ?";
        let query =
            sqlx::query(sql).bind(&user.realm).bind(hex_of(user.ha1.md5)).bind(hex_of(user.ha1.sha256));
        let done = query.bind(&user.username).bind(&user.domain).execute(&mut *db).await;
        match done.map_err(|error| self.error(&error))?.rows_affected() {
            0 => Err(self.user_error(StoreErrorKind::Conflict, user, "does not exist")),
            _ => Ok(()),
        }
    }

    /// Removes a user; `false` if there was none.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub async fn delete_user(&self, username: &str, domain: &str) -> Result<bool, StoreError> {
        let mut db = self.connection().await;
        let query = sqlx::query("DELETE FROM subscriber WHERE username = ? AND domain = ?");
        let done = query.bind(username).bind(domain.to_ascii_lowercase()).execute(&mut *db).await;
        Ok(done.map_err(|error| self.error(&error))?.rows_affected() > 0)
    }

    /// Hands every user to `each`, in the order they were added; returns how many rows can't be users.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub async fn for_each_user(&self, mut each: impl FnMut(UserRow)) -> Result<u64, StoreError> {
        let mut db = self.connection().await;
        let mut bad = 0;
        let read = read_pages(&mut db, READ, |page| {
            for fields in page.rows() {
                match UserRow::from_fields(fields) {
                    Some(row) => each(row),
                    None => bad += 1,
                }
            }
        });
        read.await.map_err(|error| self.error(&error))?;
        Ok(bad)
    }

    /// Puts every user into `users`; returns how many, and how many rows can't be users.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub async fn load_users(&self, users: &Users) -> Result<(u64, u64), StoreError> {
        let mut count = 0;
        let bad = self.for_each_user(|row| {
            users.insert(&row.key(), row.ha1);
            count += 1;
        });
        let bad = bad.await?;
        Ok((count, bad))
    }

    fn check_user(&self, user: &UserRow) -> Result<(), StoreError> {
        match user.defect() {
            Some(defect) => Err(self.user_error(StoreErrorKind::Input, user, defect)),
            None => Ok(()),
        }
    }

    fn user_error(&self, kind: StoreErrorKind, user: &UserRow, what: &str) -> StoreError {
        StoreError::new(kind, self.path(), format!("user {:?} of {:?}: {what}", user.username, user.domain))
    }
}

/// Adds a user; `false` if there is one and it may not be replaced.
pub(crate) async fn insert(
    db: &mut SqliteConnection,
    user: &UserRow,
    replace: bool,
) -> Result<bool, sqlx::Error> {
    let sql = if replace {
        "INSERT INTO subscriber (username, domain, realm, ha1, ha1_sha256) VALUES (?, ?, ?, ?, ?) \
         ON CONFLICT (username, domain) DO UPDATE SET realm = excluded.realm, ha1 = excluded.ha1, \
         ha1_sha256 = excluded.ha1_sha256"
    } else {
        "INSERT INTO subscriber (username, domain, realm, ha1, ha1_sha256) VALUES (?, ?, ?, ?, ?) \
         ON CONFLICT (username, domain) DO NOTHING"
    };
    let query = sqlx::query(sql).bind(&user.username).bind(&user.domain).bind(&user.realm);
    let done = query.bind(hex_of(user.ha1.md5)).bind(hex_of(user.ha1.sha256)).execute(db).await?;
    Ok(done.rows_affected() > 0)
}

fn hex_of<const N: usize>(bytes: Option<[u8; N]>) -> String {
    bytes.iter().flatten().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a column of digits; an empty one is `Some(None)`, a broken one `None`.
fn unhex<const N: usize>(text: &str) -> Option<Option<[u8; N]>> {
    if text.is_empty() {
        return Some(None);
    }
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(Some(bytes))
}
