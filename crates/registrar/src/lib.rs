//! The registrar and the location service: RFC 3261 §10.
//!
//! [`register()`] decides what a REGISTER does to the bindings of one address-of-record, [`Locations`] keeps the
//! bindings of all of them where every shard can read them without waiting, [`write_canonical_aor`] says which
//! spelling of an address-of-record is the index.

mod aor;
mod locations;
mod record;
mod register;
mod wire;

pub use aor::{split_aor, write_canonical_aor, write_canonical_parts};
pub use locations::{Change, Locations, LocationsFull};
pub use record::{Binding, Bindings, Q_DEFAULT, Record, RecordBuilder};
pub use register::{
    ContactWish, Contacts, Outcome, PathPolicy, Policy, Refusal, Register, Registered, grant_expires,
    register,
};
pub use wire::{parse_q, write_q};
