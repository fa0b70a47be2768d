//! `tandem man`: the manual pages, one a command, from the same text as `--help`.

use crate::cli::{Cli, ManArgs};
use anyhow::Context as _;
use clap::CommandFactory as _;

/// Writes the pages into the directory.
pub(crate) fn run(args: &ManArgs) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.directory))
        .with_context(|| format!("writing manual pages to {}", args.directory.display()))
}
