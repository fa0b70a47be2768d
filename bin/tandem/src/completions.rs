//! `tandem completions`: what makes the shell complete commands and options.

use crate::cli::{Cli, CompletionsArgs};
use clap::CommandFactory as _;
use std::io::Write as _;

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tandem", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}
