//! `tandem config`: the values in force, a sample, the reference, other servers' pools.

mod pools;

use crate::cli::{ConfigArgs, ConfigCommand};
use crate::files;
use std::io::Write as _;

/// Prints what was asked for.
pub(crate) fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let text = match &args.command {
        ConfigCommand::Show { config } => {
            let loaded = files::load(config.as_deref())?;
            for warning in &loaded.warnings {
                eprintln!("{warning}");
            }
            let from = loaded.path.map_or("defaults, no file".to_owned(), |path| path.display().to_string());
            format!("# {from}\n{}", loaded.config.show())
        }
        ConfigCommand::Sample => tandem_config::sample(),
        ConfigCommand::Reference => tandem_config::reference(),
        ConfigCommand::Import { file } => pools::import(file)?,
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
