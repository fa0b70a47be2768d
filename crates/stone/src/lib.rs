//! The load tool: offered load, both ends, and the bare forwarder.
//!
//! A load is an open loop: attempts begin when their time has come, whatever became of the earlier ones. The calling
//! end ([`Uac`]) and the answering end ([`Uas`]) are machines without socket or clock; one thread drives one pair of
//! them. Their messages are prepared once and patched as they are copied into the send buffer, and carry their own
//! index, so that an answer finds its call without a search.

mod arrivals;
mod audit;
mod bare;
mod calls;
pub mod cli;
mod clock;
mod cpu;
mod dialog;
mod dice;
mod digest;
mod dns;
mod drive;
mod error;
mod follow;
mod lines;
mod load;
mod messages;
mod outcome;
mod plan;
mod reply;
mod report;
pub mod roles;
mod run;
pub mod scenario;
mod search;
mod tally;
mod target;
mod template;
mod timers;
mod times;
mod token;
mod uac;
mod uas;
mod users;

#[cfg(test)]
mod tests;

pub use arrivals::{Ramp, Spacing};
pub use audit::Limits;
pub use bare::{Pair, Passed, forward, reflect};
pub use clock::now;
pub use cpu::CpuOf;
pub use dns::targets;
pub use drive::Control;
pub use error::StoneError;
pub use follow::Progress;
pub use load::{Hold, InDialog, Load, Retransmit, Target, Workload};
pub use plan::Plan;
pub use report::{Point, Report, csv, html, merge_reports, rates_csv, write_folder};
pub use run::{Prepared, Roles, Run};
pub use search::{Found, Method, Search, search};
pub use tally::{CalleeCounts, CallerCounts, Kinds, Latency, Summary, Unexpected};
pub use target::Span;
pub use times::{Second, Times};
pub use uac::Uac;
pub use uas::{Answering, Uas};
pub use users::{Choice, User, Users};
