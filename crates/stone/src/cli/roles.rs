//! `stone controller`, `stone loader`, `stone handler`.

use std::path::PathBuf;

use clap::{Args, Parser};

use super::args::LoadArgs;
use super::load::control;
use super::{Done, stop};
use crate::error::StoneError;
use crate::load::Workload;
use crate::plan::Plan;
use crate::report::write_folder;
use crate::roles::{Part, Role, control as run_plan, help};
use crate::run::{Roles, Run};

/// Options of the controller.
#[derive(Args, Clone, Debug)]
pub struct ControllerArgs {
    /// The plan: TOML with `workload`, `loaders`, `handlers`, `listen`, `local`, `wait` and, under `[load]`, the options
    /// of `stone WORKLOAD`.
    plan: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Write result.json, stat.csv and report.html there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Options of a loader or handler.
#[derive(Args, Clone, Debug)]
pub struct HelperArgs {
    /// Where the controller waits.
    #[arg(long, value_name = "HOST:PORT")]
    controller: String,
}

/// The options of a load by themselves, as a plan holds them.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Options {
    #[command(flatten)]
    load: LoadArgs,
}

fn to_run(part: &Part) -> Result<Run, StoneError> {
    let options = Options::try_parse_from(&part.options).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        StoneError::plan(
            "load",
            &line.replace("--", ""),
            "the keys of [load] are the options of `stone WORKLOAD`",
        )
    })?;
    if part.workload == "mix" {
        return options.load.to_run(None, Roles::Both);
    }
    if part.workload == "uac-call" {
        return options.load.with_profile().to_run(Some(Workload::Proxy200), Roles::Both);
    }
    let workload: Workload =
        part.workload.parse().map_err(|why: String| StoneError::plan("workload", &part.workload, &why))?;
    options.load.to_run(Some(workload), Roles::Both)
}

pub(super) fn controller(args: &ControllerArgs) -> Done {
    let plan = Plan::read(&args.plan)?;
    let (whole, parts) = run_plan(&plan, &to_run, &mut |address| {
        eprintln!("waiting at {address} for {} loaders and {} handlers", plan.loaders, plan.handlers);
    })?;
    if let Some(folder) = &args.out {
        write_folder(folder, std::slice::from_ref(&whole))?;
        for (place, part) in parts.iter().enumerate() {
            write_folder(&folder.join(format!("part-{place}")), std::slice::from_ref(part))?;
        }
    }
    if args.json {
        println!("{}", whole.to_json());
    } else {
        print!("{whole}");
    }
    Ok(whole.stands())
}

pub(super) fn helper(args: &HelperArgs, role: Role) -> Done {
    let control = control();
    stop::on_signal(&control.stop, None);
    help(&args.controller, role, control, &to_run)?;
    Ok(true)
}
