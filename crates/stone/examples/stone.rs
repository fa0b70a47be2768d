//! The load tool by itself.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    stone: tandem_stone::cli::Stone,
}

fn main() -> ExitCode {
    tandem_stone::cli::run(Arguments::parse().stone)
}
