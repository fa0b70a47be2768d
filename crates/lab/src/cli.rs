//! The command line of the laboratory.

use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::bench::{Bench, Scale};
use crate::clock::Clock;
use crate::experiments::{EXPERIMENTS, Experiment};
use crate::finding::Finding;
use crate::model::{Model, Stalls};
use crate::page;
use crate::real;
pub use crate::real::UasKind;
pub use crate::real::server::ServerArgs;

/// The experiment with real processes.
const REAL: &str = "real";
/// Exit code where a claim does not hold.
const DOES_NOT_HOLD: u8 = 5;

const AFTER: &str = "\
Each claim is printed as: the paper's value | ours | holds or not, and if not, why. Everything follows from the seed, so
that two runs with the same options give the same figures on any machine. What is modelled: docs/LAB.md.

Examples:
  tandem lab balancer --list                     the experiments
  tandem lab balancer --quick                    all of them, in some minutes
  tandem lab balancer peak response --out found  two of them in full, with page, CSV and JSON in ./found
  tandem lab balancer peak --stall 0ms           the same with servers that never stand still
  tandem lab balancer real                       SIPp under a quota of the CPU behind a node, half an hour
  tandem lab balancer real --uas model --quick   real processes without a cgroup

Exit codes:
  0 every claim holds   1 it could not be done   2 the command line makes no sense   5 a claim does not hold";

/// What the laboratory does.
#[derive(Subcommand, Clone, Debug)]
pub enum Lab {
    /// The papers' experiments with balancing policies, on the balancer that ships.
    #[command(after_help = AFTER)]
    Balancer(BalancerArgs),
    /// One modelled server on a UDP port, as `balancer real` starts them: it carries so many calls a second and stands
    /// still now and then.
    Server(ServerArgs),
}

/// Options of `lab balancer`.
#[derive(Args, Clone, Debug)]
pub struct BalancerArgs {
    /// The experiments to do, by name; all in virtual time if none is named.
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// List the experiments and do nothing.
    #[arg(long)]
    pub list: bool,
    /// Write report.html, result.json and a CSV per table there.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Short holds and runs, fewer points.
    #[arg(long)]
    pub quick: bool,
    /// The papers' own profile: a call a second and node more each second, 10 min warm-up, 3 min judged. Hours.
    #[arg(long, conflicts_with = "quick")]
    pub paper: bool,
    /// Seed of all that is drawn.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Threads [default: as many as the machine has].
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Mean length of a server's stalls; drawn evenly up to a third more or less. 0 for none.
    #[arg(long, value_name = "MS", value_parser = millis, default_value = "900ms")]
    pub stall: Duration,
    /// Mean time between a server's stalls, in seconds.
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    pub stall_every: f64,
    /// Callers give up after so many seconds without a final answer.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub give_up: f64,
    /// For `real`: the program whose `serve` and `stone` are run [default: this one].
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// For `real`: who answers.
    #[arg(long, value_enum, default_value_t = UasKind::Sipp)]
    pub uas: UasKind,
    /// For `real`: how much of one CPU an answering end gets, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub cap: f64,
    /// For `real`: so many of the four answering ends get half of that [default: none, then two].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=4))]
    pub halves: Option<u8>,
    /// What a repeated request costs, as a part of the first one's.
    #[arg(long, value_name = "PART", default_value_t = 0.25)]
    pub repeat_cost: f64,
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("there is no experiment `{0}`; `tandem lab balancer --list` names them")]
    NoSuch(String),
    #[error("{0}")]
    Pool(#[from] tandem_balance::Mistake),
    #[error("{0}")]
    Real(#[from] real::RealError),
    #[error("{0}")]
    Folder(#[from] page::NotWritten),
}

/// Does it: findings to standard output, progress to standard error.
#[must_use]
pub fn run(lab: Lab) -> ExitCode {
    let args = match lab {
        Lab::Balancer(args) => args,
        Lab::Server(args) => {
            return match real::server::serve(&args) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("tandem lab server: {}: {error}", args.listen);
                    ExitCode::from(1)
                }
            };
        }
    };
    if args.list {
        for experiment in EXPERIMENTS {
            println!("{:<14} {}", experiment.name, experiment.about);
        }
        println!("{REAL:<14} real processes on loopback, their CPU capped by cgroups; only if it is named");
        return ExitCode::SUCCESS;
    }
    match balancer(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DOES_NOT_HOLD),
        Err(failed @ Failed::NoSuch(_)) => {
            eprintln!("tandem lab: {failed}");
            ExitCode::from(2)
        }
        Err(failed) => {
            eprintln!("tandem lab: {failed}");
            ExitCode::from(1)
        }
    }
}

fn balancer(args: &BalancerArgs) -> Result<bool, Failed> {
    let chosen: Vec<Option<&Experiment>> = if args.experiments.is_empty() {
        EXPERIMENTS.iter().map(Some).collect()
    } else {
        let find = |name: &String| {
            let found = EXPERIMENTS.iter().find(|experiment| experiment.name == *name);
            if found.is_some() || name == REAL { Ok(found) } else { Err(Failed::NoSuch(name.clone())) }
        };
        args.experiments.iter().map(find).collect::<Result<_, _>>()?
    };
    let clock = Clock::start();
    let progress = |text: &str| eprintln!("{:>6.1} s  {text}", clock.elapsed().as_secs_f64());
    let bench = Bench {
        seed: args.seed,
        scale: match (args.quick, args.paper) {
            (true, _) => Scale::Quick,
            (_, true) => Scale::Paper,
            (false, false) => Scale::Full,
        },
        model: model(args),
        jobs: args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        progress: &progress,
    };
    let parameters = parameters(&bench);
    println!("{parameters}");
    let mut findings: Vec<Finding> = Vec::new();
    for experiment in chosen {
        let before = clock.elapsed();
        progress(&format!("{}: begins", experiment.map_or(REAL, |experiment| experiment.name)));
        let mut finding = match experiment {
            Some(experiment) => (experiment.run)(&bench)?,
            None => real::run(&bench, &real_options(args))?,
        };
        finding.took_s = (clock.elapsed().saturating_sub(before)).as_secs();
        print!("{}", page::claims_text(&finding));
        for table in &finding.tables {
            print!("{}", page::table_text(table));
        }
        findings.push(finding);
        if let Some(folder) = &args.out {
            page::write_folder(folder, &findings, &parameters)?;
        }
    }
    let claims = || findings.iter().flat_map(|finding| &finding.claims);
    let holding = claims().filter(|claim| claim.holds).count();
    println!("\n{holding} of {} claims hold.", claims().count());
    if let Some(folder) = &args.out {
        println!("{}", folder.join("report.html").display());
    }
    Ok(findings.iter().all(Finding::holds))
}

fn real_options(args: &BalancerArgs) -> real::Options {
    real::Options {
        program: args.program.clone(),
        uas: args.uas,
        cap_percent: args.cap,
        halves: args.halves.map(usize::from),
    }
}

fn model(args: &BalancerArgs) -> Model {
    let mut model = Model::default();
    model.costs.repeat = args.repeat_cost;
    model.give_up = Duration::from_secs_f64(args.give_up.max(0.5));
    model.stalls = (!args.stall.is_zero()).then(|| Stalls {
        every: Duration::from_secs_f64(args.stall_every.max(0.1)),
        least: args.stall * 2 / 3,
        most: args.stall * 4 / 3,
    });
    model
}

/// The model's parameters, as they are printed above every result.
fn parameters(bench: &Bench<'_>) -> String {
    let Model { costs, stalls, queue_max, one_way, give_up } = bench.model;
    let stalls = stalls.map_or_else(
        || "none".to_owned(),
        |stalls| format!("{:?} to {:?}, about every {:?}", stalls.least, stalls.most, stalls.every),
    );
    format!(
        "seed {}   scale {:?}\n\
         server: {:.0} calls/s, INVITE {:.2} ms, BYE {:.2} ms on average (gamma, shape {}), a repeated request {} of that\n\
         stalls: {stalls}   queue: {queue_max} messages   wire: {one_way:?} each way   callers give up after {give_up:?}",
        bench.seed,
        bench.scale,
        costs.capacity(),
        costs.invite() * 1e3,
        costs.bye() * 1e3,
        costs.shape,
        costs.repeat,
    )
}

fn millis(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").unwrap_or(text);
    number.parse().map(Duration::from_millis).map_err(|_| "give milliseconds, as 900ms".to_owned())
}
