//! `stone search`: the rate that the target carries.

use core::time::Duration;

use clap::{Args, ValueEnum};

use super::args::{self, LoadArgs};
use super::load::{control, line};
use super::{Done, stop};
use crate::error::StoneError;
use crate::load::Workload;
use crate::report::write_folder;
use crate::run::Roles;
use crate::search::{Method, Search, search};

/// What is searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Goal {
    /// The whole curve: up by --step until 50 % fail (Singh and Schulzrinne).
    Steps,
    /// Highest rate at a success of 99.99 % (Jiang, Zou).
    FourNines,
    /// Highest rate at a success of 95 % (SIPstone).
    Sipstone,
}

/// Options of a search.
#[derive(Args, Clone, Debug)]
pub struct SearchArgs {
    /// What is searched. It begins at --rate.
    #[arg(long, value_enum, default_value_t = Goal::Steps)]
    goal: Goal,
    /// Attempts a second added each time, for `steps`.
    #[arg(long, default_value_t = 100.0)]
    step: f64,
    /// Relative precision, for the others.
    #[arg(long, default_value_t = 0.03)]
    precision: f64,
    /// Runs at each rate.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Shell command run before each run, such as one that restarts the server and waits until it is up.
    #[arg(long, value_name = "COMMAND")]
    before: Option<String>,
    /// Rest after each run.
    #[arg(long, value_parser = args::seconds, default_value = "1s", value_name = "TIME")]
    pause: Duration,
    /// No rate above this is tried.
    #[arg(long, default_value_t = 1e6)]
    rate_max: f64,
    /// The workload, unless --mix names several.
    #[arg(long, default_value = "proxy200")]
    workload: Workload,
    #[command(flatten)]
    load: LoadArgs,
}

pub(super) fn run(args: &SearchArgs) -> Done {
    let load = &args.load;
    let workload = if load.mix == "proxy200:1" { Some(args.workload) } else { None };
    let run = load.to_run(workload, Roles::Both)?;
    let method = match args.goal {
        Goal::Steps => Method::Steps { step: args.step, fail: 0.5 },
        Goal::FourNines => Method::Highest { success: 0.9999, within: args.precision },
        Goal::Sipstone => Method::Highest { success: 0.95, within: args.precision },
    };
    if args.step <= 0.0 || !(args.precision > 0.0 && args.precision < 1.0) {
        return Err(StoneError::plan(
            "step, precision",
            "",
            "a step is above 0, a precision between 0 and 1",
        ));
    }
    let plan = Search {
        method,
        runs: args.runs,
        before: args.before.clone(),
        pause: args.pause,
        rate_max: args.rate_max,
    };
    let control = control();
    stop::on_signal(&control.stop, None);
    let quiet = load.quiet;
    let found = search(
        &run,
        &plan,
        control,
        &mut |progress| {
            if !quiet {
                line(progress);
            }
        },
        &mut |r| {
            eprintln!(
                "rate {:>9.0}/s  success {:>8.4} %  carried {:>9.0}/s  p50 {:>8.3} ms  p99 {:>8.3} ms{}",
                r.rate,
                r.success * 100.0,
                r.success_rate,
                r.first().p50_us / 1e3,
                r.first().p99_us / 1e3,
                r.void.first().map(|reason| format!("  VOID: {reason}")).unwrap_or_default()
            );
        },
    )?;
    if let Some(folder) = &load.out {
        write_folder(folder, &found.reports)?;
    }
    if load.json {
        println!("{}", serde_json::to_string_pretty(&found.reports).unwrap_or_default());
    }
    match found.rate {
        Some(rate) if found.generator_limited => {
            println!("highest rate: at least {rate:.0} a second; the generator was the limit above")
        }
        Some(rate) => println!("highest rate: {rate:.0} a second, {:.0} an hour", rate * 3600.0),
        None => println!("highest rate: below every rate tried"),
    }
    Ok(found.rate.is_some())
}
