//! Measures the node beside Debian's Kamailio, doing the same job with one child, and beside a bare UDP forwarder.
//!
//! Every subject takes its turn in every round, so that a noisy minute hits all of them; the median of the rounds
//! counts. The server has one core, the load driver (`tandem stone`) another; a run in which the driver was the
//! bottleneck is void and counts for nothing. Each measurement starts its server anew.
//!
//! Left out: what several cores gain when the load generator needs one of two; see the two-shard rows for what can
//! be said here.

mod driver;
mod generator;
mod kinds;
mod memory;
mod peak;
mod report;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use crate::driver::{Driver, Load};
use crate::kinds::{Job, Subject};
use crate::report::{Report, Rows};

/// Measures CPU time per call, peak rates and memory of the node, Kamailio and a bare forwarder.
#[derive(Debug, Parser)]
struct Args {
    /// A run of some minutes in place of an hour: one round, short loads. Its figures are rough.
    #[arg(long)]
    quick: bool,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only these parts, separated by commas: proxy200, register, balance, memory, shards, generator, or subjects' names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Calls or registrations a second of the sparse load.
    #[arg(long, default_value_t = 4_000.0)]
    sparse: f64,
    /// The node's binary; the one beside this program if not given.
    #[arg(long, env = "TANDEM_BIN")]
    tandem: Option<PathBuf>,
    /// Core of the server under test.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the load driver.
    #[arg(long, default_value_t = 1)]
    driver_core: usize,
    /// Where the results are written: bench.json and PERFORMANCE.md's table.
    #[arg(long, default_value = "out/bench")]
    out: PathBuf,
    /// Lists parts and subjects.
    #[arg(long)]
    list: bool,
}

impl Args {
    /// True if a part or subject was asked for, by its own name or by that of its part.
    fn wants(&self, part: &str, subject: Option<Subject>) -> bool {
        self.only.is_empty()
            || self
                .only
                .iter()
                .any(|only| only == part || subject.is_some_and(|subject| subject.name() == only))
    }
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Load that is measured.
    window: Duration,
    /// Load before that: users registered, caches warm.
    warm_up: Duration,
    /// The same for a server that keeps finished transactions for 64·T1 = 32 s (RFC 3261 §17.2.2, timer J), so that
    /// it forgets as many as it learns.
    warm_up_stateful: Duration,
    /// Load of one step of the search for the peak.
    step: Duration,
    /// The search ends when its bounds are this close.
    precision: f64,
}

impl Pace {
    const FULL: Self = Self {
        window: Duration::from_secs(10),
        warm_up: Duration::from_secs(3),
        warm_up_stateful: Duration::from_secs(36),
        step: Duration::from_secs(5),
        precision: 0.03,
    };
    const QUICK: Self = Self {
        window: Duration::from_secs(3),
        warm_up: Duration::from_secs(1),
        warm_up_stateful: Duration::from_secs(1),
        step: Duration::from_secs(1),
        precision: 0.15,
    };
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.list {
        for subject in Subject::ALL {
            println!("{:24} {}", subject.name(), subject.job().name());
        }
        for part in ["memory", "shards", "generator"] {
            println!("{part:24} {part}");
        }
        return Ok(());
    }
    let known = |only: &String| {
        ["memory", "shards", "generator"].contains(&only.as_str())
            || Job::ALL.iter().any(|job| job.name() == only)
            || Subject::ALL.iter().any(|subject| subject.name() == only)
    };
    if let Some(unknown) = args.only.iter().find(|only| !known(only)) {
        bail!("`{unknown}` is neither a part nor a subject; --list names them");
    }
    let tandem = match &args.tandem {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.parent().context("this program lies in a folder")?.join("tandem"),
    };
    if !tandem.exists() {
        bail!("{} is missing: `make build` builds it", tandem.display());
    }
    let tandem = tandem.canonicalize()?;
    let pace = if args.quick { Pace::QUICK } else { Pace::FULL };
    let rounds = if args.quick { 1 } else { args.rounds };
    let driver = Driver { tandem: tandem.clone(), core: args.driver_core };
    let mut report = Report::new(args.quick, rounds);
    let place = server::Place { tandem, core: args.server_core };

    for job in Job::ALL {
        let subjects: Vec<Subject> = Subject::ALL
            .into_iter()
            .filter(|subject| {
                subject.job() == job && !subject.is_sharded() && args.wants(job.name(), Some(*subject))
            })
            .collect();
        let rows = measure(&place, &driver, &subjects, &pace, rounds, args.sparse)?;
        report.add(job, rows);
    }
    if args.wants("shards", None) {
        let subjects = [(Subject::TandemStateless, 1.0), (Subject::TandemStatelessTwo, 2.0)];
        let rows = sharded(&place, &driver, subjects, &pace, rounds, args.sparse)?;
        report.add_sharded(rows);
    }
    if args.wants("memory", None) {
        report.memory = Some(memory::measure(&place, &driver, args.quick)?);
    }
    if args.wants("generator", None) {
        report.generator = Some(generator::measure(&driver, args.server_core, pace.window)?);
    }
    report.write(&args.out)?;
    println!("\n{}", report.markdown());
    println!("written: {}", args.out.display());
    Ok(())
}

/// Sparse, peak and busy for each subject, interleaved, round by round.
fn measure(
    place: &server::Place,
    driver: &Driver,
    subjects: &[Subject],
    pace: &Pace,
    rounds: usize,
    sparse: f64,
) -> Result<Rows> {
    let mut rows = Rows::default();
    for round in 1..=rounds {
        for &subject in subjects {
            let sample = once(place, driver, subject, pace, sparse)?;
            say(round, subject, "sparse", &sample);
            rows.row(subject).sparse.push(sample);
        }
        for &subject in subjects {
            let known = rows.row(subject).peak();
            let peak = peak::search(known, pace.precision, |rate| {
                peak::step(place, driver, subject, pace.step, rate)
            })?;
            eprintln!("round {round}  {:24} peak    {:9.0}/s{}", subject.name(), peak.rate, peak.remark());
            rows.row(subject).peaks.push(peak);
        }
        for &subject in subjects {
            let Some(peak) = rows.row(subject).peak().filter(|peak| *peak > 0.0) else { continue };
            let sample = once(place, driver, subject, pace, peak / 2.0)?;
            say(round, subject, "busy", &sample);
            rows.row(subject).busy.push(sample);
        }
    }
    Ok(rows)
}

/// Calls a second for each shard where it is busy: two shards and the driver together must fit on two cores.
const BUSY_SHARD: f64 = 8_000.0;

/// The same load for each shard of one and of two: what does a call cost more where there is a second shard? Nothing
/// more means that two carry twice as much where each has a core; with the driver on one of two they can't show it.
fn sharded(
    place: &server::Place,
    driver: &Driver,
    subjects: [(Subject, f64); 2],
    pace: &Pace,
    rounds: usize,
    sparse: f64,
) -> Result<Rows> {
    let mut rows = Rows::default();
    for round in 1..=rounds {
        for (subject, shards) in subjects {
            let sample = once(place, driver, subject, pace, sparse * shards)?;
            say(round, subject, "sparse", &sample);
            rows.row(subject).sparse.push(sample);
        }
        for (subject, shards) in subjects {
            let sample = once(place, driver, subject, pace, BUSY_SHARD * shards)?;
            say(round, subject, "busy", &sample);
            rows.row(subject).busy.push(sample);
        }
    }
    Ok(rows)
}

/// One measurement; on a shared machine, one that the driver spoilt is taken again, twice at most.
fn once(
    place: &server::Place,
    driver: &Driver,
    subject: Subject,
    pace: &Pace,
    rate: f64,
) -> Result<driver::Sample> {
    let warm_up = if subject.is_stateful() { pace.warm_up_stateful } else { pace.warm_up };
    let warm_up = warm_up.max(subject.job().warm_up());
    let load = Load { job: subject.job(), rate, warm_up, window: pace.window };
    let run = || driver.run(&server::Server::start(place, subject)?, &load);
    let mut sample = run()?;
    for _ in 0..2 {
        if sample.void.is_empty() {
            break;
        }
        sample = run()?;
    }
    Ok(sample)
}

fn say(round: usize, subject: Subject, load: &str, sample: &driver::Sample) {
    eprintln!(
        "round {round}  {:24} {load:7} {:9.0}/s  {:6.2} µs/call  success {:.4} %{}",
        subject.name(),
        sample.rate,
        sample.server_us,
        sample.success * 100.0,
        sample.remark()
    );
}
