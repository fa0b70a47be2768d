//! Which configuration file is meant, and reading it.

use anyhow::Context as _;
use std::path::{Path, PathBuf};
use tandem_config::{CheckResult, Config, Warning};

/// Where a file is looked for when none is given.
const SEARCH_PATH: [&str; 2] = ["tandem.toml", "/etc/tandem/tandem.toml"];
/// Octets of a configuration file; more is a mistake in the file's name.
const BYTES_MAX: u64 = 16 << 20;

/// A file that was read and checked.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The file; none means the newcomer's defaults.
    pub(crate) path: Option<PathBuf>,
    pub(crate) config: Config,
    pub(crate) warnings: Vec<Warning>,
}

/// The file that is meant: the one given, else the first of the search path that exists.
pub(crate) fn find(given: Option<&Path>) -> Option<PathBuf> {
    match given {
        Some(path) => Some(path.to_owned()),
        None => SEARCH_PATH.iter().map(PathBuf::from).find(|path| path.exists()),
    }
}

/// Reads and checks `path`.
///
/// # Errors
///
/// That it can't be read; the inner error has its mistakes.
pub(crate) fn check(path: &Path) -> anyhow::Result<CheckResult> {
    let reading = || format!("reading {}", path.display());
    let size = std::fs::metadata(path).with_context(reading)?.len();
    anyhow::ensure!(size <= BYTES_MAX, "{} has {size} octets, which no configuration needs", path.display());
    let bytes = std::fs::read(path).with_context(reading)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{}: octet {at} is not UTF-8; save the file as UTF-8", path.display())
    })?;
    Ok(Config::check(&text, &path.display().to_string()))
}

/// Reads and checks the file that is meant; its mistakes go to standard error, one a line.
///
/// # Errors
///
/// [`crate::exit::Refused`] if it has mistakes; else that it can't be read.
pub(crate) fn load(given: Option<&Path>) -> anyhow::Result<Loaded> {
    let Some(path) = find(given) else {
        return Ok(Loaded { path: None, config: Config::default(), warnings: Vec::new() });
    };
    match check(&path)? {
        Ok((config, warnings)) => Ok(Loaded { path: Some(path), config, warnings }),
        Err(mistakes) => {
            for mistake in mistakes {
                eprintln!("{mistake}");
            }
            Err(crate::exit::Refused.into())
        }
    }
}
