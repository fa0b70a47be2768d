//! Writes a result to a folder: JSON, CSV and HTML.

use std::path::Path;

use super::Report;
use super::csv::{csv, rates_csv};
use super::html::html;
use crate::error::StoneError;

/// Writes `result.json`, `stat.csv` (of the last run), `report.html` and, for several runs, `rates.csv`.
///
/// # Errors
///
/// [`StoneError::File`] if the folder or a file cannot be written.
pub fn write_folder(folder: &Path, reports: &[Report]) -> Result<(), StoneError> {
    std::fs::create_dir_all(folder).map_err(|error| StoneError::file(folder, &error))?;
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| StoneError::file(&path, &error))
    };
    let json = match reports {
        [one] => one.to_json(),
        several => serde_json::to_string_pretty(several).unwrap_or_default(),
    };
    write("result.json", json)?;
    write("stat.csv", reports.last().map(csv).unwrap_or_default())?;
    if reports.len() > 1 {
        write("rates.csv", rates_csv(reports))?;
    }
    write("report.html", html(reports)?)
}
