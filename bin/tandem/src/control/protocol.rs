//! What is asked and answered on the control socket.
//!
//! A request is `{"op": "users-add", ...}`, its answer `{"ok": ...}` or `{"error": {"code": ..., "message": ...}}`.
//! Unknown operations and fields are refused, so that a typo is never half obeyed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Octets of a request line.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Octets of an answer line; a list comes in pages below it.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Entries of one page of a list.
pub(crate) const PAGE_MAX: usize = 10_000;
/// What the node is asked to do.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// How the node is.
    Status {},
    /// Adds a user, who must not exist.
    UsersAdd { user: String, password: String },
    /// Changes the password of a user, who must exist.
    UsersPasswd { user: String, password: String },
    /// Removes a user and the user's bindings.
    UsersDel { user: String },
    /// A page of users, those behind `after` in order.
    UsersList { after: Option<String> },
    /// A page of bindings: of `user` alone, or those behind `after` in order.
    BindingsList { user: Option<String>, after: Option<String> },
    /// Removes the bindings of `user`, or the one of `contact`.
    BindingsRemove { user: String, contact: Option<String> },
    /// Takes over Kamailio's `subscriber` and `location` from a file that the node can read.
    Import { file: PathBuf, dry_run: bool, replace: bool, domain: Option<String>, utc_offset_secs: i64 },
    /// Reads the configuration again.
    Reload {},
    /// Takes no new calls; those in progress go on.
    Drain {},
    /// Drains, then exits.
    Shutdown {},
    /// The text of `/metrics`.
    Metrics {},
    /// Changes what is logged until the next reload.
    LogLevel { level: String },
    /// The pools, or one, with their destinations and live load.
    PoolList { pool: Option<String> },
    /// Puts a destination, `ID` or `POOL/ID`, into a state.
    PoolState { destination: String, state: PoolState },
    /// Another weight until the next reload.
    PoolWeight { destination: String, weight: u16 },
    /// Another destination until the next reload.
    PoolAdd {
        destination: String,
        address: String,
        weight: u16,
        capacity: Option<u32>,
        priority: u8,
        cluster: Option<String>,
    },
    /// No new calls for a destination, until the next reload; those that it has go on.
    PoolRemove { destination: String },
    /// Why a call went where it went.
    PoolWhy { call_id: String },
}

/// A password never shows, not even in a debugger's print.
impl core::fmt::Debug for Request {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Request {
    /// The operation's name, for the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Status {} => "status",
            Self::UsersAdd { .. } => "users-add",
            Self::UsersPasswd { .. } => "users-passwd",
            Self::UsersDel { .. } => "users-del",
            Self::UsersList { .. } => "users-list",
            Self::BindingsList { .. } => "bindings-list",
            Self::BindingsRemove { .. } => "bindings-remove",
            Self::Import { .. } => "import",
            Self::Reload {} => "reload",
            Self::Drain {} => "drain",
            Self::Shutdown {} => "shutdown",
            Self::Metrics {} => "metrics",
            Self::LogLevel { .. } => "log-level",
            Self::PoolList { .. } => "pool-list",
            Self::PoolState { .. } => "pool-state",
            Self::PoolWeight { .. } => "pool-weight",
            Self::PoolAdd { .. } => "pool-add",
            Self::PoolRemove { .. } => "pool-remove",
            Self::PoolWhy { .. } => "pool-why",
        }
    }

    /// Whether it changes anything, which is worth a line in the log.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(
            self,
            Self::Status {}
                | Self::UsersList { .. }
                | Self::BindingsList { .. }
                | Self::Metrics {}
                | Self::PoolList { .. }
                | Self::PoolWhy { .. }
        )
    }
}

/// The answer's line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// Done; what was asked for.
    Ok(Value),
    /// Not done.
    Error(Failure),
}

/// Why a request was not done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// The kind of a failure, which a script may branch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Code {
    /// The line is no request.
    Malformed,
    /// What is asked for is not possible as asked.
    Invalid,
    /// No such user or binding.
    NotFound,
    /// The user exists.
    Exists,
    /// A table is full, or the disk refused.
    Unavailable,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What a request gives: something to show, or a reason.
pub(crate) type Outcome = Result<Value, Failure>;

/// The answer to [`Request::Status`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) node: String,
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) uptime_secs: u64,
    /// `ready` or `not ready`.
    pub(crate) state: String,
    /// Why it is not ready.
    pub(crate) reasons: Vec<String>,
    pub(crate) domains: Vec<String>,
    pub(crate) listen: Vec<String>,
    pub(crate) shards: usize,
    pub(crate) users: usize,
    pub(crate) aors: usize,
    pub(crate) bindings: usize,
    /// Transactions kept, finished ones that absorb retransmissions included.
    pub(crate) transactions: u64,
    /// Forwarded requests and registrations not yet answered.
    pub(crate) in_progress: u64,
    /// The file in force, if any.
    pub(crate) config: Option<String>,
    /// Keys that wait for a restart since a reload.
    pub(crate) restart_pending: Vec<String>,
}

/// A page of a list; `next` is the `after` of the next page.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) next: Option<String>,
}

/// One user of a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct UserEntry {
    pub(crate) user: String,
    /// What is known of the password, as `SHA-256 MD5`.
    pub(crate) digests: String,
}

/// One binding of a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct BindingEntry {
    pub(crate) user: String,
    pub(crate) contact: String,
    pub(crate) expires_in_secs: u64,
    /// In thousandths.
    pub(crate) q: u16,
    pub(crate) path: String,
    pub(crate) received: Option<String>,
    pub(crate) user_agent: String,
}

/// What an operator wants of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PoolState {
    /// It takes calls.
    Active,
    /// It keeps its calls and gets no new ones.
    Draining,
    /// As draining, and it is not probed.
    Disabled,
}

/// One pool of [`Request::PoolList`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct PoolEntry {
    pub(crate) pool: String,
    pub(crate) policy: String,
    pub(crate) generation: u64,
    /// How its names in DNS stand, if it has any.
    pub(crate) dns: Option<DnsEntry>,
    /// What requests weigh; none where the policy weighs nothing.
    pub(crate) weights: Vec<WeightEntry>,
    /// The least and the most that can be learned, in thousandths; none where all weights are given.
    pub(crate) weight_bounds_thousandths: Option<(u32, u32)>,
    pub(crate) destinations: Vec<DestinationEntry>,
}

/// What a method's requests weigh in a pool; each shard learns by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct WeightEntry {
    /// The method, or `others`.
    pub(crate) method: String,
    /// The least of any shard.
    pub(crate) least_thousandths: u32,
    /// The most of any shard.
    pub(crate) most_thousandths: u32,
    /// How many shards learned it; on the others it is as given.
    pub(crate) learned_by_shards: usize,
}

/// How the names of a pool in DNS stand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DnsEntry {
    /// For how long its servers are what DNS said once and not what it says now.
    pub(crate) stale_secs: Option<u64>,
    /// Why.
    pub(crate) because: Option<String>,
}

/// One destination of a pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct DestinationEntry {
    pub(crate) id: String,
    pub(crate) address: String,
    /// `active`, `draining`, `disabled`, `probing` or `down`.
    pub(crate) state: String,
    /// Why.
    pub(crate) reason: String,
    pub(crate) since_secs: u64,
    /// For how long it gets no new calls though it is up.
    pub(crate) held_secs: Option<u64>,
    pub(crate) calls: u32,
    /// Requests that it has not answered.
    pub(crate) requests: u32,
    pub(crate) work_thousandths: u64,
    /// What the policy compares.
    pub(crate) figure: Option<f64>,
    pub(crate) weight: u16,
    /// Below 1000 in slow start.
    pub(crate) share_thousandths: u32,
    pub(crate) capacity: Option<u32>,
    pub(crate) priority: u8,
    /// It left the pool and still has calls.
    pub(crate) leaving: bool,
}

/// The answer to [`Request::PoolWhy`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct WhyEntry {
    pub(crate) pool: String,
    /// Where the call is, while the table knows it.
    pub(crate) destination: Option<String>,
    pub(crate) address: Option<String>,
    /// How far the call is, as `INV` or `BYE_200`.
    pub(crate) state: Option<String>,
    /// `policy`, `failover` or `learned`.
    pub(crate) cause: Option<String>,
    /// Calls that were ahead of it.
    pub(crate) ahead: Option<u16>,
    pub(crate) since_secs: Option<u64>,
    /// The choice in a sentence, while it is remembered.
    pub(crate) explanation: Option<String>,
}

/// The answer to [`Request::Reload`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Reloaded {
    /// What was applied, as `log.level: "info" -> "debug"`.
    pub(crate) applied: Vec<String>,
    /// What waits for a restart.
    pub(crate) restart: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// The answer to [`Request::Import`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Imported {
    pub(crate) users: ImportedTable,
    pub(crate) bindings: ImportedTable,
}

/// What became of the rows of one table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct ImportedTable {
    pub(crate) taken: u64,
    /// Rows not taken, by reason.
    pub(crate) skipped: BTreeMap<String, u64>,
    /// The first of them: line or row, and reason.
    pub(crate) first_skipped: Vec<(u64, String)>,
}
