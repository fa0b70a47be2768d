//! Keeps phone calls up: a SIP cluster in one binary.

mod check;
mod cli;
mod completions;
mod config;
mod control;
mod ctl;
mod exit;
mod files;
mod man;
mod password;
mod serve;
mod stone;

use clap::Parser as _;
use std::process::ExitCode;

/// A million bindings, each its own allocation of some hundred octets, take less room in it than in the system's
/// allocator (docs/PERFORMANCE.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match cli.command {
        cli::Command::Serve(args) => serve::run(&args),
        cli::Command::Check(args) => check::run(&args),
        cli::Command::Config(args) => config::run(&args),
        cli::Command::Ctl(args) => ctl::run(&args),
        cli::Command::Completions(args) => completions::run(&args),
        cli::Command::Stone(args) => return stone::run(*args),
        cli::Command::Lab(args) => return tandem_lab::cli::run(args.lab),
        cli::Command::Man(args) => man::run(&args),
    };
    exit::report(result)
}
