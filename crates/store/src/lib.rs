//! Users and locations in SQLite, written off the data path.
