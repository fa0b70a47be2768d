use super::*;
use crate::{Choice, Destination, HealthSettings, Outcome, PolicySettings, Pool, State};
use tandem_base::Rng;
use tandem_sip::{ListenerId, Method};

const MS: Duration = Duration::from_millis(1);

fn settings(health: HealthSettings, ids: &[&str]) -> PoolSettings {
    let hop = Hop::udp(ListenerId(0), "192.0.2.1:5060".parse().unwrap());
    let destinations = ids.iter().map(|id| Destination::new(id, hop)).collect();
    PoolSettings::new("test", PolicySettings::new("tjsq"), health, destinations).unwrap()
}

/// A pool, its board, its watch, and destinations that answer probes as told.
struct Bench {
    now: Instant,
    watch: Watch,
    pool: Pool,
    board: Arc<Board>,
    /// When a probe went out.
    probes: Vec<(u64, Slot)>,
}

impl Bench {
    fn new(health: HealthSettings, ids: &[&str]) -> Self {
        let settings = Arc::new(settings(health, ids));
        let board = Arc::new(Board::new(16, 2));
        let key = HashKey::from_bytes([1; 16]);
        let pool = Pool::new(settings.clone(), board.clone(), 0, key, Rng::from_seed(1));
        let watch = Watch::new(Instant::ZERO, settings, board.clone(), key);
        Self { now: Instant::ZERO, watch, pool, board, probes: Vec::new() }
    }

    /// Lets time pass; `answer` says what becomes of each probe, at once, `None` for nothing.
    fn run(&mut self, span: Duration, mut answer: impl FnMut(Slot) -> Option<ProbeOutcome>) {
        let end = self.now + span;
        while let Some(at) = self.watch.poll_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.watch.handle_timeout(self.now);
            while let Some(probe) = self.watch.poll_probe() {
                self.probes.push((self.now.as_millis(), probe.slot));
                if let Some(outcome) = answer(probe.slot) {
                    self.watch.handle_outcome(self.now, probe.slot, probe.number, outcome);
                }
            }
        }
        self.now = end;
    }

    fn state(&self, slot: Slot) -> (State, Reason) {
        let standing = self.board.standing(slot);
        (standing.state(), standing.reason)
    }

    fn pick(&mut self, call: u64) -> Option<Slot> {
        let choice = Choice { call_id: &call.to_le_bytes(), user: None, method: Method::Invite, tried: &[] };
        self.pool.pick(self.now, &choice).ok()
    }
}

const OK: Option<ProbeOutcome> = Some(ProbeOutcome::Answered(200, None));
const A: Slot = Slot(0);
const B: Slot = Slot(1);

/// Interval 1 s, timeout 300 ms, fall 3, rise 2: three probes unanswered are 2.3 s to 3.3 s, not a transaction's 32 s.
#[test]
fn a_silent_destination_is_down_after_fall_probes_and_back_after_rise() {
    let health = HealthSettings {
        interval: Some(1000 * MS),
        timeout: 300 * MS,
        slow_start: Duration::ZERO,
        ..HealthSettings::default()
    };
    let mut bench = Bench::new(health, &["a", "b"]);
    bench.run(5000 * MS, |_| OK);
    assert_eq!(bench.state(A).0, State::Active);
    let silent = bench.now;
    bench.run(3300 * MS, |slot| OK.filter(|_| slot == B));
    assert_eq!(bench.state(A), (State::Down, Reason::ProbesTimedOut));
    let since = bench.board.standing(A).since.saturating_since(silent);
    assert!(since >= 2300 * MS, "{since:?}");
    assert!((0..20).all(|call| bench.pick(call) == Some(B)));
    bench.run(1000 * MS, |_| OK);
    assert_eq!(bench.state(A), (State::Probing, Reason::ProbeAnswered));
    assert!((0..20).all(|call| bench.pick(call) == Some(B)));
    bench.run(1000 * MS, |_| OK);
    assert_eq!(bench.state(A), (State::Active, Reason::ProbesAnswered));
    assert!((0..40).any(|call| bench.pick(call) == Some(A)));
}

/// With rise 2, one answer between failures doesn't bring it up; with fall 3, two failures don't bring it down.
#[test]
fn a_flapping_destination_neither_falls_on_two_failures_nor_rises_on_one_answer() {
    let health = HealthSettings { interval: Some(1000 * MS), timeout: 300 * MS, ..HealthSettings::default() };
    let mut bench = Bench::new(health, &["a", "b"]);
    let mut turn = 0;
    bench.run(30_000 * MS, |slot| {
        turn += u32::from(slot == A);
        OK.filter(|_| slot == B || turn % 3 == 0)
    });
    assert_eq!((bench.state(A).0, bench.board.standing(A).changes), (State::Active, 0));
    bench.run(5000 * MS, |_| None);
    let mut turn = 0;
    bench.run(30_000 * MS, |slot| {
        turn += u32::from(slot == A);
        OK.filter(|_| slot == B || turn % 2 == 0)
    });
    assert_ne!(bench.state(A).0, State::Active);
    assert_eq!(bench.state(B).0, State::Active);
}

/// RFC 3261 §21.5.4: no requests for as long as Retry-After says; a shorter one later doesn't shorten it.
#[test]
fn a_503_holds_a_destination_down_for_its_retry_after_and_everyone_hears_when_to_come_back() {
    let mut bench = Bench::new(HealthSettings { interval: None, ..HealthSettings::default() }, &["a", "b"]);
    let secs = Duration::from_secs;
    bench.pool.report(bench.now, A, Outcome::Unavailable(Some(secs(60))));
    bench.pool.report(bench.now, A, Outcome::Unavailable(Some(secs(2))));
    bench.now += secs(59);
    assert!((0..20).all(|call| bench.pick(call) == Some(B)));
    assert_eq!(bench.state(A).1, Reason::Unavailable);
    bench.pool.report(bench.now, B, Outcome::Unavailable(Some(secs(86_400))));
    let choice = Choice { call_id: b"x", user: None, method: Method::Invite, tried: &[] };
    let refusal = bench.pool.pick(bench.now, &choice).unwrap_err();
    assert_eq!(refusal.retry_after, secs(1), "a is free in one second");
    bench.now += secs(1);
    assert!((0..20).all(|call| bench.pick(call) == Some(A)));
    // B asked for a day and gets `hold_max`, five minutes.
    bench.now += secs(299);
    assert!((0..40).any(|call| bench.pick(call) == Some(B)));
}

#[test]
fn three_requests_unanswered_in_a_row_bring_a_destination_down_and_an_answer_between_forgives() {
    let mut bench = Bench::new(HealthSettings::default(), &["a", "b"]);
    let now = bench.now;
    for outcome in [Outcome::TimedOut, Outcome::TimedOut, Outcome::Answered, Outcome::TimedOut] {
        bench.pool.report(now, A, outcome);
    }
    assert_eq!(bench.state(A).0, State::Active);
    bench.pool.report(now, A, Outcome::TimedOut);
    bench.pool.report(now, A, Outcome::Unreachable);
    assert_eq!(bench.state(A), (State::Down, Reason::Unreachable));
    assert!((0..20).all(|call| bench.pick(call) == Some(B)));
}

#[test]
fn without_probes_a_failing_destination_is_held_off_and_then_tried_again() {
    let health = HealthSettings { interval: None, ..HealthSettings::default() };
    let mut bench = Bench::new(health, &["a", "b"]);
    for _ in 0..3 {
        bench.pool.report(bench.now, A, Outcome::TimedOut);
    }
    assert!((0..20).all(|call| bench.pick(call) == Some(B)));
    bench.now += Duration::from_secs(10);
    assert!((0..40).any(|call| bench.pick(call) == Some(A)));
}

/// 64 nodes probe 4 destinations every 2 s. In 20 windows of 100 ms 12.8 probes are expected with a deviation of 3.5;
/// 32 would be a storm's beginning, and unspread probes would be 256 in one.
#[test]
fn probes_of_many_nodes_are_spread_over_the_interval() {
    let health = HealthSettings { interval: Some(2000 * MS), ..HealthSettings::default() };
    let settings = Arc::new(settings(health, &["a", "b", "c", "d"]));
    let mut windows = [0u32; 20];
    for node in 0..64 {
        let board = Arc::new(Board::new(4, 1));
        let mut watch = Watch::new(Instant::ZERO, settings.clone(), board, HashKey::from_bytes([node; 16]));
        while let Some(at) = watch.poll_timeout().filter(|at| at.as_millis() < 2000) {
            watch.handle_timeout(at);
            while watch.poll_probe().is_some() {
                windows[usize::try_from(at.as_millis() / 100).unwrap()] += 1;
            }
        }
    }
    assert_eq!(windows.iter().sum::<u32>(), 256);
    assert!(windows.iter().all(|&probes| probes < 32), "{windows:?}");
}

#[test]
fn a_probe_is_over_before_the_next_even_if_the_timeout_is_set_longer() {
    let health =
        HealthSettings { interval: Some(100 * MS), timeout: 5000 * MS, fall: 2, ..HealthSettings::default() };
    let mut bench = Bench::new(health, &["a"]);
    bench.run(400 * MS, |_| None);
    assert_eq!(bench.state(A), (State::Down, Reason::ProbesTimedOut));
    // Late, doubled and unknown answers change nothing.
    for number in 0..10 {
        bench.watch.handle_outcome(bench.now, A, number, ProbeOutcome::Unreachable);
    }
    let before = bench.probes.len();
    bench.run(1000 * MS, |_| None);
    assert_eq!(bench.probes.len() - before, 10);
}

#[test]
fn a_draining_destination_is_probed_and_gets_no_calls_and_a_disabled_one_neither() {
    let health = HealthSettings { interval: Some(1000 * MS), ..HealthSettings::default() };
    let mut bench = Bench::new(health, &["a", "b"]);
    bench.board.set_admin(A, Admin::Draining, bench.now);
    assert!((0..20).all(|call| bench.pick(call) == Some(B)));
    bench.run(3000 * MS, |_| OK);
    assert_eq!(bench.state(A), (State::Draining, Reason::Operator));
    assert!(bench.probes.iter().any(|&(_, slot)| slot == A));
    bench.board.set_admin(A, Admin::Disabled, bench.now);
    bench.probes.clear();
    bench.run(3000 * MS, |_| OK);
    assert!(bench.probes.iter().all(|&(_, slot)| slot == B));
    bench.board.set_admin(A, Admin::Active, bench.now);
    assert!((0..40).any(|call| bench.pick(call) == Some(A)));
}

/// TJSQ divides by the share: a tenth at first, so that of two equal ones the starting one carries 1 of 11 requests;
/// half of the time later 0.55 of 1.55, at the end a half.
#[test]
fn a_destination_that_comes_back_takes_a_growing_share() {
    let health = HealthSettings { interval: None, slow_start: 20_000 * MS, ..HealthSettings::default() };
    let mut bench = Bench::new(health, &["a", "b"]);
    bench.board.set_health(A, Health::Down, Reason::ProbesTimedOut, bench.now);
    bench.now += 1000 * MS;
    bench.board.set_health(A, Health::Up, Reason::ProbesAnswered, bench.now);
    let mut share = |wait: Duration| {
        bench.now += wait;
        let mut begun = Vec::new();
        for call in 0..1100 {
            let slot = bench.pick(call).unwrap();
            begun.push((slot, bench.pool.request_began(slot, Method::Invite)));
        }
        let to_a = begun.iter().filter(|(slot, _)| *slot == A).count();
        for (slot, work) in begun {
            bench.pool.request_ended(slot, Method::Invite, work, None);
        }
        to_a
    };
    assert!((95..=105).contains(&share(Duration::ZERO)));
    assert!((385..=395).contains(&share(10_000 * MS)));
    assert!((545..=555).contains(&share(10_000 * MS)));
}

#[test]
fn a_destination_in_the_place_of_another_is_not_judged_by_its_answers() {
    let health = HealthSettings { interval: Some(1000 * MS), fall: 1, ..HealthSettings::default() };
    let mut bench = Bench::new(health.clone(), &["a"]);
    bench.watch.handle_timeout(Instant::from_secs(1));
    let probe = bench.watch.poll_probe().unwrap();
    let other = Arc::new(settings(health, &["z"]));
    bench.watch.reconfigure(Instant::from_secs(1), other);
    bench.watch.handle_outcome(Instant::from_secs(1), A, probe.number, ProbeOutcome::Unreachable);
    assert_eq!(bench.state(A).0, State::Active);
    bench.now = Instant::from_secs(1);
    bench.run(1000 * MS, |_| Some(ProbeOutcome::Unreachable));
    assert_eq!(bench.state(A).0, State::Down);
}

#[test]
fn a_destination_that_is_down_when_probes_are_switched_off_is_tried_again() {
    let health = HealthSettings { interval: Some(1000 * MS), ..HealthSettings::default() };
    let mut bench = Bench::new(health.clone(), &["a", "b"]);
    bench.run(5000 * MS, |slot| OK.filter(|_| slot == B));
    assert_eq!(bench.state(A).0, State::Down);
    let unprobed = Arc::new(settings(HealthSettings { interval: None, ..health }, &["a", "b"]));
    bench.watch.reconfigure(bench.now, unprobed);
    assert_eq!(bench.state(A), (State::Active, Reason::Operator));
}

/// What another shard learned or was told counts here at the next pick, and its calls count after a millisecond.
#[test]
fn a_shard_sees_what_another_found_out_and_what_it_carries() {
    let mut bench = Bench::new(HealthSettings::default(), &["a", "b"]);
    let (settings, board) = (bench.pool.settings().clone(), bench.board.clone());
    let mut other = Pool::new(settings, board, 1, HashKey::from_bytes([1; 16]), Rng::from_seed(2));
    for _ in 0..5 {
        other.request_began(A, Method::Invite);
    }
    bench.now += 2 * MS;
    assert!((0..20).all(|call| bench.pick(call) == Some(B)));
    for _ in 0..3 {
        other.report(bench.now, B, Outcome::TimedOut);
    }
    assert_eq!(bench.pick(1), Some(A));
}
