//! What the shards of one process share about a pool's destinations: atomics only, so that a pick never locks.
//!
//! One row per destination says what may be done with it. One column per shard holds the load that this shard's
//! calls put on each destination; a shard writes only its own column and reads the others'. Whoever changes a row
//! raises [`Board::version`], and the shards look again. Figures are read one by one, not as a snapshot: they may
//! be a moment apart, which a pick doesn't mind.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use tandem_base::Instant;

use crate::{Load, Slot};

/// What the operator wants of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Admin {
    /// It takes calls.
    #[default]
    Active,
    /// It keeps its calls and gets no new ones.
    Draining,
    /// As draining, and it isn't probed either.
    Disabled,
}

/// What is known of a destination's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Health {
    /// It answers, or nothing is known against it yet.
    #[default]
    Up,
    /// It was down and answers again, but not yet often enough.
    Probing,
    /// It doesn't answer.
    Down,
}

/// What operators are shown: what the operator wants first, then health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It takes calls.
    Active,
    /// It keeps its calls and gets no new ones.
    Draining,
    /// It gets no new calls and no probes.
    Disabled,
    /// It answers again; calls follow after a few more answers.
    Probing,
    /// It doesn't answer.
    Down,
}

impl State {
    /// The state in one lower-case word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Disabled => "disabled",
            Self::Probing => "probing",
            Self::Down => "down",
        }
    }
}

/// Why a destination is in its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Reason {
    /// Nothing has happened since it was added.
    #[default]
    Added = 0,
    /// The operator's order.
    Operator = 1,
    /// It left the configuration or the DNS answer; its calls go on.
    Removed = 2,
    /// It answered enough probes in a row.
    ProbesAnswered = 3,
    /// It answered a probe, but not yet enough of them.
    ProbeAnswered = 4,
    /// Probes went unanswered.
    ProbesTimedOut = 5,
    /// Probes were answered with a 5xx or 6xx.
    ProbesRefused = 6,
    /// Requests of calls went unanswered.
    RequestsTimedOut = 7,
    /// The network said that nobody is there (ICMP, connection refused).
    Unreachable = 8,
    /// It answered 503: held down for as long as its Retry-After asked.
    Unavailable = 9,
    /// It answered a request of a call.
    RequestAnswered = 10,
}

impl Reason {
    /// The reason in words that end the sentence "it is down because ...".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "nothing is known against it yet",
            Self::Operator => "the operator said so",
            Self::Removed => "it left the pool; its calls go on",
            Self::ProbesAnswered => "it answers probes",
            Self::ProbeAnswered => "it answers probes again, but not yet often enough",
            Self::ProbesTimedOut => "probes went unanswered",
            Self::ProbesRefused => "probes were answered with an error",
            Self::RequestsTimedOut => "requests of calls went unanswered",
            Self::Unreachable => "the network says that nobody is there",
            Self::Unavailable => "it answered 503",
            Self::RequestAnswered => "it answers requests",
        }
    }

    const fn from_u8(value: u8) -> Self {
        match value {
            1 => Self::Operator,
            2 => Self::Removed,
            3 => Self::ProbesAnswered,
            4 => Self::ProbeAnswered,
            5 => Self::ProbesTimedOut,
            6 => Self::ProbesRefused,
            7 => Self::RequestsTimedOut,
            8 => Self::Unreachable,
            9 => Self::Unavailable,
            10 => Self::RequestAnswered,
            _ => Self::Added,
        }
    }
}

/// One destination's state.
#[derive(Debug, Default)]
struct Row {
    admin: AtomicU8,
    health: AtomicU8,
    reason: AtomicU8,
    /// Failures of real traffic since the last answer.
    failures: AtomicU32,
    /// Changes of health, for operators who look for flapping.
    changes: AtomicU32,
    since: AtomicU64,
    held_until: AtomicU64,
    /// When it came up after being down; 0 means never, so it starts at full share.
    slow_since: AtomicU64,
}

/// A shard's figures for one destination.
#[derive(Debug, Default)]
struct Cell {
    calls: AtomicU32,
    transactions: AtomicU32,
    work: AtomicU64,
}

/// A destination's state as read from the board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// What the operator wants.
    pub admin: Admin,
    /// What is known of its health.
    pub health: Health,
    /// Why.
    pub reason: Reason,
    /// Since when.
    pub since: Instant,
    /// No new calls before this moment, though it is up.
    pub held_until: Instant,
    /// When it came up after being down; its share grows from then on.
    pub slow_since: Option<Instant>,
    /// Changes of health since it was added.
    pub changes: u32,
}

impl Standing {
    /// What operators are shown.
    #[must_use]
    pub const fn state(&self) -> State {
        match (self.admin, self.health) {
            (Admin::Disabled, _) => State::Disabled,
            (Admin::Draining, _) => State::Draining,
            (Admin::Active, Health::Up) => State::Active,
            (Admin::Active, Health::Probing) => State::Probing,
            (Admin::Active, Health::Down) => State::Down,
        }
    }

    /// True if new calls may go there at `now`.
    #[must_use]
    pub fn is_eligible(&self, now: Instant) -> bool {
        self.state() == State::Active && self.held_until <= now
    }
}

/// See the module.
#[derive(Debug)]
pub struct Board {
    version: AtomicU64,
    rows: Box<[Row]>,
    columns: Box<[Box<[Cell]>]>,
}

impl Board {
    /// A board for at most `destinations` rows and `shards` columns; 64 bytes a row and 16 a row and shard.
    #[must_use]
    pub fn new(destinations: u16, shards: usize) -> Self {
        let column = || (0..destinations).map(|_| Cell::default()).collect();
        Self {
            version: AtomicU64::new(1),
            rows: (0..destinations).map(|_| Row::default()).collect(),
            columns: (0..shards.max(1)).map(|_| column()).collect(),
        }
    }

    /// Rows: the most destinations that the pool can have, with those that are leaving.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.rows.len()
    }

    /// Columns.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.columns.len()
    }

    /// Raised at every change of a row.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// A destination's state; that of a new one for a slot that the board hasn't.
    #[must_use]
    pub fn standing(&self, slot: Slot) -> Standing {
        let absent = Row::default();
        let row = self.rows.get(slot.index()).unwrap_or(&absent);
        let slow_since = row.slow_since.load(Relaxed);
        Standing {
            admin: match row.admin.load(Relaxed) {
                1 => Admin::Draining,
                2 => Admin::Disabled,
                _ => Admin::Active,
            },
            health: match row.health.load(Relaxed) {
                1 => Health::Probing,
                2 => Health::Down,
                _ => Health::Up,
            },
            reason: Reason::from_u8(row.reason.load(Relaxed)),
            since: Instant::from_nanos(row.since.load(Relaxed)),
            held_until: Instant::from_nanos(row.held_until.load(Relaxed)),
            slow_since: (slow_since != 0).then(|| Instant::from_nanos(slow_since)),
            changes: row.changes.load(Relaxed),
        }
    }

    /// The operator's order. Resuming a destination that was out begins its slow start.
    pub fn set_admin(&self, slot: Slot, admin: Admin, now: Instant) {
        let Some(row) = self.rows.get(slot.index()) else { return };
        let before = row.admin.swap(admin as u8, Relaxed);
        if before != admin as u8 {
            if admin == Admin::Active {
                row.slow_since.store(now.as_nanos().max(1), Relaxed);
            }
            self.note(row, Reason::Operator, now);
        }
    }

    /// What is known of a destination's health. Coming up from being down begins its slow start.
    pub fn set_health(&self, slot: Slot, health: Health, reason: Reason, now: Instant) {
        let Some(row) = self.rows.get(slot.index()) else { return };
        let before = row.health.swap(health as u8, Relaxed);
        if before != health as u8 {
            row.changes.fetch_add(1, Relaxed);
            if health == Health::Up {
                row.failures.store(0, Relaxed);
                row.slow_since.store(now.as_nanos().max(1), Relaxed);
            }
            self.note(row, reason, now);
        }
    }

    /// No new calls before `until`; a later moment set before stands.
    pub fn hold(&self, slot: Slot, until: Instant, reason: Reason, now: Instant) {
        let Some(row) = self.rows.get(slot.index()) else { return };
        if row.held_until.fetch_max(until.as_nanos(), Relaxed) < until.as_nanos() {
            self.note(row, reason, now);
        }
    }

    /// Ends a hold at once.
    pub fn release(&self, slot: Slot, now: Instant) {
        let Some(row) = self.rows.get(slot.index()) else { return };
        if row.held_until.swap(0, Relaxed) > now.as_nanos() {
            self.note(row, Reason::Operator, now);
        }
    }

    /// Counts a failure of real traffic; the number of them since the last answer.
    pub fn failed(&self, slot: Slot) -> u32 {
        self.rows.get(slot.index()).map_or(0, |row| row.failures.fetch_add(1, Relaxed).saturating_add(1))
    }

    /// Real traffic was answered: failures are forgotten.
    pub fn answered(&self, slot: Slot) {
        if let Some(row) = self.rows.get(slot.index())
            && row.failures.load(Relaxed) != 0
        {
            row.failures.store(0, Relaxed);
        }
    }

    /// A row begins anew: its destination was added, or left.
    pub fn reset(&self, slot: Slot, reason: Reason, now: Instant) {
        let Some(row) = self.rows.get(slot.index()) else { return };
        for (field, value) in [(&row.admin, Admin::Active as u8), (&row.health, Health::Up as u8)] {
            field.store(value, Relaxed);
        }
        row.failures.store(0, Relaxed);
        row.changes.store(0, Relaxed);
        row.held_until.store(0, Relaxed);
        row.slow_since.store(0, Relaxed);
        self.note(row, reason, now);
    }

    /// A destination came to a running pool: it starts slowly.
    pub(crate) fn start_slowly(&self, slot: Slot, now: Instant) {
        if let Some(row) = self.rows.get(slot.index()) {
            row.slow_since.store(now.as_nanos().max(1), Relaxed);
            self.version.fetch_add(1, Relaxed);
        }
    }

    /// The load that all shards together put on a destination.
    #[must_use]
    pub fn load(&self, slot: Slot) -> Load {
        self.sum(slot, |_| true)
    }

    /// The load that all shards but one put on a destination.
    pub(crate) fn load_of_others(&self, slot: Slot, shard: usize) -> Load {
        self.sum(slot, |other| other != shard)
    }

    /// A shard's own figures.
    pub(crate) fn publish(&self, shard: usize, slot: Slot, load: &Load) {
        if let Some(cell) = self.columns.get(shard).and_then(|column| column.get(slot.index())) {
            cell.calls.store(load.calls, Relaxed);
            cell.transactions.store(load.transactions, Relaxed);
            cell.work.store(load.work, Relaxed);
        }
    }

    fn sum(&self, slot: Slot, wanted: impl Fn(usize) -> bool) -> Load {
        let mut sum = Load::default();
        for (shard, column) in self.columns.iter().enumerate() {
            if let Some(cell) = column.get(slot.index())
                && wanted(shard)
            {
                sum.calls = sum.calls.saturating_add(cell.calls.load(Relaxed));
                sum.transactions = sum.transactions.saturating_add(cell.transactions.load(Relaxed));
                sum.work = sum.work.saturating_add(cell.work.load(Relaxed));
            }
        }
        sum
    }

    fn note(&self, row: &Row, reason: Reason, now: Instant) {
        row.reason.store(reason as u8, Relaxed);
        row.since.store(now.as_nanos(), Relaxed);
        self.version.fetch_add(1, Relaxed);
    }
}

/// The part of its full share, in thousandths, that a destination gets while it starts: a tenth at first, all of it
/// after `over`.
pub(crate) fn slow_start_share(standing: &Standing, over: Duration, now: Instant) -> u32 {
    let Some(since) = standing.slow_since else { return 1000 };
    let passed = now.saturating_since(since).as_millis();
    let whole = over.as_millis();
    if passed >= whole {
        return 1000;
    }
    u32::try_from(100 + 900 * passed / whole.max(1)).unwrap_or(1000)
}
