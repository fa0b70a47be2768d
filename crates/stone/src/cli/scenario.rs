//! `stone scenario FILE.xml`.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;

use clap::Args;

use super::load::control;
use super::{Done, args, stop};
use crate::arrivals::Spacing;
use crate::error::StoneError;
use crate::scenario::{PlayLimits, Script, parse, play};
use crate::users::User;

/// Options of a scenario.
#[derive(Args, Clone, Debug)]
pub struct ScenarioArgs {
    /// The scenario: SIPp's XML, or one of `uac`, `uas` for a built-in one.
    file: String,
    /// Where a calling scenario sends.
    #[arg(long, value_name = "URI", default_value = "127.0.0.1:5060")]
    target: String,
    /// Address to bind.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    local: SocketAddr,
    /// Calls begun a second.
    #[arg(long, short, default_value_t = 10.0)]
    rate: f64,
    /// Spacing of calls, unless --calls is given.
    #[arg(long, value_enum, default_value_t = Spacing::Poisson)]
    arrivals: Spacing,
    /// Calls in all.
    #[arg(long, short = 'm')]
    calls: Option<u64>,
    /// How long calls are begun, or an answering scenario runs.
    #[arg(long = "for", value_parser = args::seconds, value_name = "TIME")]
    length: Option<Duration>,
    /// `[service]`.
    #[arg(long, short, default_value = "service")]
    service: String,
    /// User file: `[field0]` is its first column, columns are separated by semicolons.
    #[arg(long, value_name = "FILE")]
    inf: Option<PathBuf>,
    /// User of `[authentication]` [default: the service].
    #[arg(long)]
    user: Option<String>,
    /// Password of `[authentication]`.
    #[arg(long, default_value = "password")]
    password: String,
    /// Length of `<pause/>` without its own.
    #[arg(long, value_parser = args::seconds, default_value = "0s", value_name = "TIME")]
    pause: Duration,
    /// How long a `<recv>` without its own timeout waits.
    #[arg(long, value_parser = args::seconds, default_value = "32s", value_name = "TIME")]
    patience: Duration,
    /// Most calls at once.
    #[arg(long, default_value_t = 100_000)]
    calls_max: usize,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ScenarioArgs) -> Done {
    let source = match args.file.as_str() {
        "uac" => include_str!("../../scenarios/uac.xml").to_owned(),
        "uas" => include_str!("../../scenarios/uas.xml").to_owned(),
        file => std::fs::read_to_string(file).map_err(|error| StoneError::file(file.as_ref(), &error))?,
    };
    let scenario = parse(&source, &args.file)?;
    let rows = match &args.inf {
        Some(path) => rows(&std::fs::read_to_string(path).map_err(|error| StoneError::file(path, &error))?),
        None => Vec::new(),
    };
    let user = args.user.as_deref().unwrap_or(&args.service);
    let remote = args::target(&args.target, None)?;
    let remote = remote.first().map_or(args.local, |target| target.addr);
    let script = Script {
        scenario,
        remote,
        local: args.local,
        service: args.service.clone(),
        rows,
        user: User { name: user.into(), password: args.password.as_str().into() },
        rate: args.rate,
        spacing: args.arrivals,
        calls: args.calls,
        length: args.length,
        limits: PlayLimits {
            calls_max: args.calls_max,
            pause: args.pause,
            patience: args.patience,
            seed: args.seed,
        },
    };
    let control = control();
    stop::on_signal(&control.stop, None);
    let played = play(&script, &control.stop)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&played).unwrap_or_default());
    } else {
        print!("{played}");
    }
    if played.failed == 0 && played.shed == 0 {
        return Ok(true);
    }
    Err(StoneError::Target(format!(
        "{} of {} calls failed, {} could not begin",
        played.failed, played.started, played.shed
    )))
}

/// Rows of a user file: its first line says SEQUENTIAL or RANDOM (taken in order here), `#` begins a comment.
fn rows(text: &str) -> Vec<Vec<Vec<u8>>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines =
        lines.filter(|line| !["SEQUENTIAL", "RANDOM", "USER"].iter().any(|order| line.starts_with(order)));
    lines.map(|line| line.split(';').map(|field| field.as_bytes().to_vec()).collect()).collect()
}
