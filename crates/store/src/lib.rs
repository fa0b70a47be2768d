//! Users and locations in SQLite, written off the data path.
//!
//! Memory is the truth: the node reads `tandem_registrar::Locations` and never the file. The file is loaded at start
//! ([`Store::load_locations`]), follows by a thread that writes in batches ([`Writer`]), and takes in what other
//! servers left.

mod batch;
mod clock;
mod error;
mod import;
mod load;
mod row;
mod schema;
mod store;
mod users;
mod writer;

pub use clock::{Clock, Times};
pub use error::{StoreError, StoreErrorKind};
pub use import::{
    Dump, ImportCount, ImportFile, ImportOptions, ImportReport, Item, RawRow, Source, SqliteFile, Table,
};
pub use load::LoadReport;
pub use row::Sockets;
pub use store::{Options, Store, run};
pub use users::UserRow;
pub use writer::{Writer, WriterEvent, WriterHandle, WriterOptions, WriterStats};
