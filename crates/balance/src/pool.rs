//! A shard's view of a pool: settings, loads, who is eligible, and the policy that picks.
//!
//! The owner of calls and requests (the call table) tells it when one begins and ends; nothing else changes a load.
//! What other shards do is merged from the [`Board`] at most once a millisecond, what health and the operator say
//! as soon as the board's version moves.

use core::time::Duration;
use std::sync::Arc;

use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::Method;

use crate::board::{Health, Reason, slow_start_share};
use crate::explain::{Record, Trail, Why};
use crate::members::{Member, Members};
use crate::policy::{Pick, Policy};
use crate::{Board, DestinationId, PoolSettings, Slot, State, Weights};

/// How often other shards' figures are merged, and slow starts moved on.
const MERGE_EVERY: Duration = Duration::from_millis(1);
const SLOW_START_STEP: Duration = Duration::from_millis(100);
/// Asked of callers when nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a request weighs, in thousandths of a plain request.
///
/// [`Pool::request_began`] returns it and [`Pool::request_ended`] takes the same back, so that a change of weights
/// in between leaves nothing behind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Work(pub u32);

impl Work {
    /// A plain request.
    pub const ONE: Self = Self(1000);
}

/// What a destination has to do at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Calls that it holds.
    pub calls: u32,
    /// Requests that it hasn't answered.
    pub transactions: u32,
    /// What these requests weigh together, in thousandths of a plain request.
    pub work: u64,
}

impl Load {
    /// True without calls and requests.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.calls == 0 && self.transactions == 0
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            transactions: self.transactions.saturating_add(other.transactions),
            work: self.work.saturating_add(other.work),
        }
    }
}

/// What is known of a request when its destination is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The Call-ID's octets.
    pub call_id: &'a [u8],
    /// The user part that the two-stage policies go by; see [`user_of`](crate::user_of).
    pub user: Option<&'a [u8]>,
    /// The request's method.
    pub method: Method,
    /// Destinations that have failed this request.
    pub tried: &'a [Slot],
}

/// Nobody may get this request: the answer is 503 with this Retry-After.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no destination may get the request; perhaps in {} s", retry_after.as_secs())]
pub struct NoDestination {
    /// When the first one that is held down is free again, or a default of 5 s; at least 1 s.
    pub retry_after: Duration,
}

/// How a request fared at a destination: passive health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Any response, also an error of the request's own.
    Answered,
    /// No response until the transaction timed out.
    TimedOut,
    /// ICMP or a refused connection.
    Unreachable,
    /// A 503, with its Retry-After if it had one.
    Unavailable(Option<Duration>),
}

/// A destination as operators see it.
#[derive(Clone, PartialEq, Debug)]
pub struct DestinationView {
    /// Its name.
    pub id: DestinationId,
    /// Its row.
    pub slot: Slot,
    /// Its state.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// Since when.
    pub since: Instant,
    /// Gets no new calls for this long, though it is up.
    pub held: Option<Duration>,
    /// It left the configuration and still has calls.
    pub leaving: bool,
    /// What it has to do, in all shards.
    pub load: Load,
    /// What the policy compares, in its own unit; `None` for policies that compare nothing.
    pub figure: Option<f64>,
    /// As configured.
    pub weight: u16,
    /// Part of its full share in thousandths: below 1000 in slow start.
    pub share: u32,
    /// As configured.
    pub capacity: Option<u32>,
    /// As configured.
    pub tier: u8,
    /// Changes of health since it was added.
    pub changes: u32,
}

/// See the module.
pub struct Pool {
    settings: Arc<PoolSettings>,
    board: Arc<Board>,
    shard: usize,
    key: HashKey,
    trail_key: HashKey,
    rng: Rng,
    policy: Box<dyn Policy>,
    members: Members,
    own: Vec<Load>,
    others: Vec<Load>,
    total: Vec<Load>,
    seen_version: u64,
    merged_at: Instant,
    /// When eligibility or a share changes without anyone saying so: the end of a hold, a step of a slow start.
    next_change: Option<Instant>,
    /// Who was down when last looked at, by slot.
    down: Vec<bool>,
    fallen: Vec<Slot>,
    /// Decrements of what was zero: a defect of the caller, shown by the audit.
    underflows: u64,
    trail: Trail,
}

impl Pool {
    /// The view of shard number `shard`. The policies that hash under a key do so under `key`: balancers that share
    /// it choose alike. `rng` breaks ties.
    #[must_use]
    pub fn new(settings: Arc<PoolSettings>, board: Arc<Board>, shard: usize, key: HashKey, rng: Rng) -> Self {
        let slots = settings.slots();
        let mut pool = Self {
            policy: settings.entry().make(&settings),
            seen_version: 0,
            merged_at: Instant::ZERO,
            next_change: None,
            down: Vec::new(),
            fallen: Vec::new(),
            members: Members::default(),
            own: vec![Load::default(); slots],
            others: vec![Load::default(); slots],
            total: vec![Load::default(); slots],
            underflows: 0,
            trail: Trail::new(),
            trail_key: key.derive(b"picks"),
            settings,
            board,
            shard,
            key,
            rng,
        };
        pool.reshape(Instant::ZERO);
        pool
    }

    /// Chooses a destination for the first request of a call, or for a request outside calls.
    ///
    /// # Errors
    ///
    /// [`NoDestination`] if none is eligible that wasn't tried.
    pub fn pick(&mut self, now: Instant, choice: &Choice<'_>) -> Result<Slot, NoDestination> {
        self.refresh(now);
        let mut pick = Pick { choice, members: &self.members, rng: &mut self.rng, key: &self.key };
        let Some(slot) = self.policy.pick(&mut pick) else {
            return Err(self.refusal(now));
        };
        debug_assert!(self.members.is_eligible(slot) && !choice.tried.contains(&slot), "{slot:?}");
        self.trail.push(Record {
            call: self.trail_key.hash64(&[choice.call_id]),
            at: now,
            slot,
            tried: u8::try_from(choice.tried.len()).unwrap_or(u8::MAX),
            method: choice.method,
            load: self.total.get(slot.index()).copied().unwrap_or_default(),
            eligible: u16::try_from(self.members.eligible()).unwrap_or(u16::MAX),
            generation: self.settings.generation(),
        });
        Ok(slot)
    }

    /// A call was given to this destination.
    pub fn call_began(&mut self, slot: Slot) {
        self.change(slot, |load| {
            load.calls = load.calls.saturating_add(1);
            true
        });
    }

    /// A call of this destination ended, in whatever way.
    pub fn call_ended(&mut self, slot: Slot) {
        self.change(slot, |load| match load.calls.checked_sub(1) {
            Some(calls) => {
                load.calls = calls;
                true
            }
            None => false,
        });
    }

    /// A request was sent to this destination. Give what is returned to [`Pool::request_ended`].
    pub fn request_began(&mut self, slot: Slot, method: Method) -> Work {
        let work = self.policy.weigh(method);
        self.change(slot, |load| {
            load.transactions = load.transactions.saturating_add(1);
            load.work = load.work.saturating_add(u64::from(work.0));
            true
        });
        work
    }

    /// A request got its final answer (`took`: since it was sent), or never will (`None`).
    ///
    /// RWMA and the learned weights go by `took`; for an INVITE that rings, give the time to its first response.
    pub fn request_ended(&mut self, slot: Slot, method: Method, work: Work, took: Option<Duration>) {
        self.change(slot, |load| {
            let (Some(transactions), Some(rest)) =
                (load.transactions.checked_sub(1), load.work.checked_sub(u64::from(work.0)))
            else {
                return false;
            };
            load.transactions = transactions;
            load.work = rest;
            true
        });
        if let Some(took) = took {
            self.policy.answered(slot, method, took);
        }
    }

    /// What a request told of its destination's health. Any shard may; all see the result.
    pub fn report(&mut self, now: Instant, slot: Slot, outcome: Outcome) {
        let health = self.settings.health();
        let failed = |reason| {
            let failures = self.board.failed(slot);
            if health.passive_fall == 0 || failures < health.passive_fall {
            } else if health.interval.is_some() {
                self.board.set_health(slot, Health::Down, reason, now);
            } else if self.board.standing(slot).held_until <= now {
                self.board.hold(slot, now + health.hold, reason, now);
            }
        };
        match outcome {
            Outcome::Answered => self.board.answered(slot),
            Outcome::TimedOut => failed(Reason::RequestsTimedOut),
            Outcome::Unreachable => failed(Reason::Unreachable),
            Outcome::Unavailable(retry_after) => {
                let hold = retry_after.unwrap_or(health.hold).min(health.hold_max);
                self.board.hold(slot, now + hold, Reason::Unavailable, now);
            }
        }
    }

    /// Takes over the next generation. Destinations keep their figures, by id. The slots whose destination is gone
    /// for good come back: what the caller still knows of them must be forgotten.
    pub fn reconfigure(&mut self, now: Instant, settings: Arc<PoolSettings>) -> Vec<Slot> {
        let old = core::mem::replace(&mut self.settings, settings);
        let slots = self.settings.slots().max(self.own.len());
        for loads in [&mut self.own, &mut self.others, &mut self.total] {
            loads.resize(slots, Load::default());
        }
        let gone = |(slot, before): (Slot, &crate::Destination)| {
            let stays = self.settings.destination(slot).is_some_and(|now| now.id == before.id);
            (!stays).then_some(slot)
        };
        let gone: Vec<Slot> = old.iter().filter_map(gone).collect();
        for &slot in &gone {
            if self.own.get(slot.index()).is_some_and(|load| !load.is_idle()) {
                self.underflows += 1;
            }
            self.set_own(slot, Load::default());
        }
        if self.settings.policy() != old.policy() {
            self.policy = self.settings.entry().make(&self.settings);
        }
        self.merge();
        self.reshape(now);
        gone
    }

    /// Merges what other shards, health and the operator did, if it is time. [`Pool::pick`] does it itself.
    pub fn refresh(&mut self, now: Instant) {
        if self.board.shards() > 1 && now >= self.merged_at + MERGE_EVERY {
            self.merged_at = now;
            self.merge();
        }
        if self.board.version() != self.seen_version || self.next_change.is_some_and(|at| at <= now) {
            self.reshape(now);
        }
    }

    /// Destinations that went down since the last time.
    pub(crate) fn take_fallen(&mut self) -> Vec<Slot> {
        core::mem::take(&mut self.fallen)
    }

    /// Every destination's load, in all shards as last merged.
    pub fn loads(&self) -> impl Iterator<Item = (Slot, Load)> {
        self.settings.iter().filter_map(|(slot, _)| Some((slot, *self.total.get(slot.index())?)))
    }

    /// The load that this shard's calls alone make.
    #[must_use]
    pub fn own_load(&self, slot: Slot) -> Load {
        self.own.get(slot.index()).copied().unwrap_or_default()
    }

    /// Decrements of what was zero so far. Anything but 0 is a defect in the call table.
    #[must_use]
    pub const fn underflows(&self) -> u64 {
        self.underflows
    }

    /// The settings in force.
    #[must_use]
    pub const fn settings(&self) -> &Arc<PoolSettings> {
        &self.settings
    }

    /// The board that the shards share.
    #[must_use]
    pub const fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Rows for operators, in the order of slots.
    pub fn view(&self, now: Instant) -> impl Iterator<Item = DestinationView> {
        self.settings.iter().map(move |(slot, destination)| {
            let standing = self.board.standing(slot);
            let held = standing.held_until.saturating_since(now);
            DestinationView {
                id: destination.id.clone(),
                slot,
                state: if self.settings.is_leaving(slot) { State::Draining } else { standing.state() },
                reason: standing.reason,
                since: standing.since,
                held: (!held.is_zero()).then_some(held),
                leaving: self.settings.is_leaving(slot),
                load: self.board.load(slot),
                figure: self.policy.figure(slot),
                weight: destination.weight,
                share: slow_start_share(&standing, self.settings.health().slow_start, now),
                capacity: destination.capacity,
                tier: destination.tier,
                changes: standing.changes,
            }
        })
    }

    /// What the methods weigh at present, given or learned by this shard; `None` for a policy that weighs nothing.
    #[must_use]
    pub fn weights(&self) -> Option<Weights> {
        self.policy.weights()
    }

    /// What a request of this method weighs at present, in thousandths.
    #[must_use]
    pub fn weight_of(&self, method: Method) -> Work {
        self.policy.weigh(method)
    }

    /// Why the call went where it went, if this shard chose for it among the last 4,096 picks.
    #[must_use]
    pub fn why(&self, call_id: &[u8]) -> Option<Why> {
        let record = self.trail.find(self.trail_key.hash64(&[call_id]))?;
        Some(Why::new(record, &self.settings))
    }

    fn refusal(&self, now: Instant) -> NoDestination {
        let free = self.settings.iter().filter_map(|(slot, _)| {
            let standing = self.board.standing(slot);
            (standing.state() == State::Active).then(|| standing.held_until.saturating_since(now))
        });
        let free = free.filter(|wait| !wait.is_zero()).min().unwrap_or(RETRY_AFTER);
        NoDestination { retry_after: free.max(Duration::from_secs(1)) }
    }

    fn change(&mut self, slot: Slot, change: impl FnOnce(&mut Load) -> bool) {
        let Some(mut load) = self.own.get(slot.index()).copied() else {
            self.underflows += 1;
            return;
        };
        if change(&mut load) {
            self.set_own(slot, load);
        } else {
            self.underflows += 1;
        }
    }

    fn set_own(&mut self, slot: Slot, load: Load) {
        let at = slot.index();
        if let (Some(own), Some(others), Some(total)) =
            (self.own.get_mut(at), self.others.get(at), self.total.get_mut(at))
        {
            *own = load;
            *total = load.plus(others);
            self.board.publish(self.shard, slot, &load);
            self.policy.load_changed(slot, total);
        }
    }

    fn merge(&mut self) {
        for (slot, _) in self.settings.iter() {
            let at = slot.index();
            let (Some(own), Some(others), Some(total)) =
                (self.own.get(at), self.others.get_mut(at), self.total.get_mut(at))
            else {
                continue;
            };
            let fresh = self.board.load_of_others(slot, self.shard);
            if fresh != *others {
                *others = fresh;
                *total = own.plus(&fresh);
                self.policy.load_changed(slot, total);
            }
        }
    }

    /// Works out anew who is eligible and with what share.
    fn reshape(&mut self, now: Instant) {
        self.seen_version = self.board.version();
        let mut next_change: Option<Instant> = None;
        let mut earliest = |at: Instant| next_change = Some(next_change.map_or(at, |next| next.min(at)));
        let slow_start = self.settings.health().slow_start;
        let board = &self.board;
        let (down, fallen) = (&mut self.down, &mut self.fallen);
        down.resize(self.settings.slots(), false);
        let member = |(slot, place): (Slot, Option<&crate::settings::Place>)| {
            let place = place?;
            let standing = board.standing(slot);
            if let Some(was_down) = down.get_mut(slot.index()) {
                let is_down = standing.health == Health::Down;
                if is_down && !core::mem::replace(was_down, is_down) {
                    fallen.push(slot);
                }
                *was_down = is_down;
            }
            if standing.held_until > now {
                earliest(standing.held_until);
            }
            let share = slow_start_share(&standing, slow_start, now);
            if share < 1000 {
                earliest(now + SLOW_START_STEP);
            }
            let eligible = !place.leaving && place.destination.weight > 0 && standing.is_eligible(now);
            Some(Member::new(&place.destination, eligible, !place.leaving, share))
        };
        let places = (0..self.settings.slots()).map(crate::destination::slot);
        let members = places.map(|slot| (slot, self.settings.place(slot))).map(member).collect();
        self.members = Members::new(members);
        self.next_change = next_change;
        self.policy.reshape(&self.members, &self.total);
    }
}
