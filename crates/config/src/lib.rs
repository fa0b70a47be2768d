//! From TOML text to a checked configuration.
//!
//! Two types: [`RawConfig`] holds what was typed, with the place of each value; [`Config`] holds what it means, with
//! nothing left to check. [`Config::check`] reports every mistake at once, each with its line, column, key and remedy.
//! One table of keys ([`SECTIONS`]) feeds the checker, the structs, the sample, `docs/CONFIG.md` and the reload diff,
//! so that they cannot tell different stories.
//!
//! Left out: reading files and making secrets, which are the binary's to do; nothing here touches the disk.

mod check;
mod diff;
mod keys;
mod kind;
mod mistake;
mod nearest;
mod raw;
mod show;
mod sight;
mod value;

#[cfg(test)]
mod tests;

pub use check::{CheckResult, Config, read_letters};
pub use diff::{Change, Diff};
pub use keys::{
    Admin, Algorithm, Auth, Balancer, Challenge, Durability, Fork, Listen, Log, LogFormat, LogLevel, Node,
    PathPolicy, Pool, PoolPath, PoolPolicy, Proxy, ProxyMode, Registrar, SECTIONS, SipLimits, Steer, Store,
    Top, Transaction,
};
pub use kind::{Key, Kind, Reload, Section, Word};
pub use mistake::{Mistake, Warning};
pub use raw::RawConfig;
pub use show::{reference, sample};
pub use value::{
    Address, Cores, Destination, HostPort, ListenUri, Network, Secret, Value, read_destination_parts,
};
