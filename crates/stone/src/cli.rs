//! The command line of the load tool: `stone WORKLOAD ...`, the two ends alone, the bars.

mod args;
mod bars;
mod load;
mod roles;
mod scenario;
mod search;
mod stop;

use std::process::ExitCode;

use clap::Subcommand;

pub use args::LoadArgs;
pub use bars::{ForwarderArgs, ReflectorArgs};
pub use roles::{ControllerArgs, HelperArgs};
pub use scenario::ScenarioArgs;
pub use search::{Goal, SearchArgs};

use crate::error::StoneError;
use crate::load::Workload;
use crate::roles::Role;
use crate::run::Roles;

/// Exit code of a run that says nothing about the target.
const VOID: u8 = 4;
/// Exit code of a run that could not begin or go on.
const FAILED: u8 = 1;

/// What the load tool does.
#[derive(Subcommand, Clone, Debug)]
pub enum Stone {
    /// Registered users call each other through the target: INVITE, 180, 200, ACK, BYE, 200 (SIPstone's Proxy 200).
    Proxy200(LoadArgs),
    /// Calls whose Request-URI names the answering end (SIPstone's outbound proxy test; also for `stone forwarder`).
    Outbound(LoadArgs),
    /// INVITEs that the target answers with 3xx (SIPstone's redirect test).
    Redirect(LoadArgs),
    /// Registrations; with --password, through a challenge. First-time, or refreshes after --register-first.
    Register(LoadArgs),
    /// OPTIONS to the target.
    Options(LoadArgs),
    /// Instant messages to registered users (RFC 3428).
    Message(LoadArgs),
    /// Subscriptions to presence (RFC 6665).
    Subscribe(LoadArgs),
    /// Publications of presence (RFC 3903).
    Publish(LoadArgs),
    /// Several workloads at once, by weight: --mix proxy200:3,register:1.
    Mix(LoadArgs),
    /// Calls that last: ramp, hold times normal 60 s / 30 s, 10 min warm-up, 3 min run.
    UacCall(LoadArgs),
    /// The rate that the target carries: steps until it breaks, or the highest at a given success.
    Search(SearchArgs),
    /// Only the calling end; who answers is someone else.
    Uac(LoadArgs),
    /// Only the answering end, until it is interrupted or for --for.
    Uas(LoadArgs),
    /// One load over several processes or hosts, by a plan file; starts its loaders and handlers unless told otherwise.
    Controller(ControllerArgs),
    /// A calling end that takes its part from a controller.
    Loader(HelperArgs),
    /// An answering end that takes its part from a controller.
    Handler(HelperArgs),
    /// A scenario in SIPp's XML, the common subset, as calling or answering end.
    Scenario(ScenarioArgs),
    /// The bare forwarder: 6 datagrams in, 6 out, per call. The bar for proxies.
    Forwarder(ForwarderArgs),
    /// The bare reflector: a 200 for every request. The bar for registrars.
    Reflector(ReflectorArgs),
}

/// Does it; prints to standard output and, where something is wrong, one line to standard error.
#[must_use]
pub fn run(stone: Stone) -> ExitCode {
    // A virtual machine may take 7 ms to find and clear 2 MiB that a growing table touches for the first time: longer
    // than a load may be late. Kernels before 3.15 cannot switch that off, and the audit tells.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let done = match stone {
        Stone::Proxy200(args) => load::run(&args, Some(Workload::Proxy200), Roles::Both),
        Stone::Outbound(args) => load::run(&args, Some(Workload::Outbound), Roles::Both),
        Stone::Redirect(args) => load::run(&args, Some(Workload::Redirect), Roles::Both),
        Stone::Register(args) => load::run(&args, Some(Workload::Register), Roles::Both),
        Stone::Options(args) => load::run(&args, Some(Workload::Options), Roles::Both),
        Stone::Message(args) => load::run(&args, Some(Workload::Message), Roles::Both),
        Stone::Subscribe(args) => load::run(&args, Some(Workload::Subscribe), Roles::Both),
        Stone::Publish(args) => load::run(&args, Some(Workload::Publish), Roles::Both),
        Stone::Mix(args) => load::run(&args, None, Roles::Both),
        Stone::UacCall(args) => load::run(&args.with_profile(), Some(Workload::Proxy200), Roles::Both),
        Stone::Search(args) => search::run(&args),
        Stone::Uac(args) => load::run(&args, Some(Workload::Proxy200), Roles::Caller),
        Stone::Uas(args) => load::run(&args, Some(Workload::Proxy200), Roles::Callee),
        Stone::Controller(args) => roles::controller(&args),
        Stone::Loader(args) => roles::helper(&args, Role::Loader),
        Stone::Handler(args) => roles::helper(&args, Role::Handler),
        Stone::Scenario(args) => scenario::run(&args),
        Stone::Forwarder(args) => bars::forwarder(&args),
        Stone::Reflector(args) => bars::reflector(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(VOID),
        Err(error) => {
            eprintln!("tandem stone: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// Whether what was done stands.
type Done = Result<bool, StoneError>;
