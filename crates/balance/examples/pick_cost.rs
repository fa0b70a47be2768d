//! What a pick costs, by policy and number of destinations: `cargo run --release -p tandem-balance --example pick_cost`.
//!
//! Nanoseconds of CPU time, the least of several interleaved rounds. `pick` is the pick alone, with the record that
//! explains it; `call` is all that a call of six messages asks of a pool: a pick, the call and its two requests begun
//! and ended. Some calls are open all the while, so that the loads differ.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tandem_balance::{
    Board, Choice, Destination, HealthSettings, Letters, POLICIES, PolicySettings, Pool, PoolSettings, Slot,
    Work,
};
use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{Hop, ListenerId, Method};

const SIZES: [usize; 3] = [8, 100, 1000];
const ROUNDS: usize = 9;
const CALLS: usize = 20_000;

struct Subject {
    pool: Pool,
    open: VecDeque<(Slot, Work)>,
    next: usize,
}

impl Subject {
    fn new(policy: &str, n: usize) -> Self {
        let hop = Hop::udp(ListenerId(0), ([192, 0, 2, 1], 5060).into());
        let destinations = (0..n).map(|index| Destination::new(&format!("server-{index}"), hop)).collect();
        let mut policy = PolicySettings::new(policy);
        policy.letters = vec![Letters { from: b'a', to: b'z', cluster: "server-3".into() }];
        let health = HealthSettings { slow_start: Duration::ZERO, ..HealthSettings::default() };
        let settings =
            Arc::new(PoolSettings::new("bench", policy, health, destinations).expect("it is sound"));
        let board = Arc::new(Board::new(1024, 1));
        let pool = Pool::new(settings, board, 0, HashKey::from_bytes([1; 16]), Rng::from_seed(1));
        let mut subject = Self { pool, open: VecDeque::new(), next: 0 };
        let ids = call_ids();
        for _ in 0..3 * n {
            subject.begin(&ids);
        }
        subject
    }

    fn pick(&mut self, ids: &[String]) -> Slot {
        let call_id = ids.get(self.next % ids.len()).map_or(b"".as_slice(), |id| id.as_bytes());
        self.next += 1;
        let choice = Choice { call_id, user: Some(call_id), method: Method::Invite, tried: &[] };
        self.pool.pick(Instant::from_secs(1), &choice).unwrap_or(Slot(0))
    }

    /// An INVITE goes out.
    fn begin(&mut self, ids: &[String]) {
        let slot = self.pick(ids);
        self.pool.call_began(slot);
        self.open.push_back((slot, self.pool.request_began(slot, Method::Invite)));
    }

    /// One call begins, and an older one is answered and hung up.
    fn call(&mut self, ids: &[String]) {
        const TOOK: Option<Duration> = Some(Duration::from_millis(3));
        self.begin(ids);
        if let Some((slot, work)) = self.open.pop_front() {
            self.pool.request_ended(slot, Method::Invite, work, TOOK);
            let work = self.pool.request_began(slot, Method::Bye);
            self.pool.request_ended(slot, Method::Bye, work, TOOK);
            self.pool.call_ended(slot);
        }
    }
}

/// As SIPp makes them.
fn call_ids() -> Vec<String> {
    (0..4096).map(|call| format!("{call}-4242@192.0.2.17")).collect()
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn nanos_each(times: usize, mut run: impl FnMut()) -> f64 {
    let start = cpu();
    for _ in 0..times {
        run();
    }
    (cpu() - start).as_nanos() as f64 / times as f64
}

fn main() {
    let ids = call_ids();
    let mut subjects: Vec<(&str, usize, Subject, f64, f64)> = POLICIES
        .iter()
        .flat_map(|policy| SIZES.map(|n| (policy.name, n, Subject::new(policy.name, n), f64::MAX, f64::MAX)))
        .collect();
    for _ in 0..ROUNDS {
        for (_, _, subject, pick, call) in &mut subjects {
            *pick = pick.min(nanos_each(CALLS, || {
                core::hint::black_box(subject.pick(&ids));
            }));
            *call = call.min(nanos_each(CALLS, || subject.call(&ids)));
        }
    }
    println!("ns of CPU time        pick at {SIZES:?}          call at {SIZES:?}");
    for of_policy in subjects.chunks(SIZES.len()) {
        let name = of_policy.first().map_or("", |(name, ..)| name);
        let column = |value: fn(&(&str, usize, Subject, f64, f64)) -> f64| -> String {
            of_policy.iter().map(|subject| format!("{:>9.0}", value(subject))).collect()
        };
        println!("{name:<16}{}{}", column(|subject| subject.3), column(|subject| subject.4));
    }
}
