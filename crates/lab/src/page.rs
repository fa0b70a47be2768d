//! Results as text, as one HTML page, and as files.

use core::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::finding::{Claim, Control, Finding, Table};
use crate::plot::escape;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#1b1f24}\
    h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em}h3{font-size:1em}table{border-collapse:collapse;font-size:14px}\
    td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}\
    .yes{color:#1b7f3b}.no{color:#c62828;font-weight:bold}svg{max-width:100%;height:auto}";

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write {}: {error}", path.display())]
pub struct NotWritten {
    path: PathBuf,
    error: std::io::Error,
}

/// Claims as lines of text.
#[must_use]
pub fn claims_text(finding: &Finding) -> String {
    let mut text = format!("\n{}: {}\n", finding.name, finding.question);
    // Writing to a string cannot fail.
    for claim in &finding.claims {
        let Claim { row, claim: what, paper, ours, holds, why } = claim;
        let verdict = if *holds { "holds" } else { "DOES NOT HOLD" };
        let _ = writeln!(text, "  {row:<5} {what}\n        paper: {paper} | ours: {ours} | {verdict}");
        if !holds {
            let _ = writeln!(text, "        why: {why}");
        }
    }
    for Control { row, reason, setting, found, is_confirmed } in &finding.controls {
        let verdict = if *is_confirmed { "confirmed" } else { "NOT CONFIRMED" };
        let _ =
            writeln!(text, "  control of {row}: {reason}\n        {setting} | found: {found} | {verdict}");
    }
    text
}

/// A table as lines of text.
#[must_use]
pub fn table_text(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.chain(table.columns.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut text = String::from(" ");
        for (nth, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            let _ = if nth == 0 { write!(text, " {cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.push('\n');
        text
    };
    let mut text = format!("\n  {}\n{}", table.title, line(&table.columns));
    for row in &table.rows {
        text.push_str(&line(row));
    }
    text
}

/// All findings as one page that needs nothing else.
#[must_use]
pub fn html(findings: &[Finding], parameters: &str) -> String {
    let title = "tandem lab balancer";
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style><h1>{title}</h1><p>The balancer that ships, in virtual time, in front \
         of modelled servers. What is modelled and what is not: docs/LAB.md.</p><pre>{}</pre>",
        escape(parameters)
    );
    page.push_str("<h2>Claims</h2><table><tr><th>row<th>claim<th>paper<th>ours<th>holds?</tr>");
    for claim in findings.iter().flat_map(|finding| &finding.claims) {
        let (class, word) = if claim.holds { ("yes", "yes") } else { ("no", "no") };
        let _ = write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td class=\"{class}\">{word}{}{}</tr>",
            claim.row,
            escape(&claim.claim),
            escape(&claim.paper),
            escape(&claim.ours),
            if claim.holds { "" } else { ": " },
            escape(&claim.why)
        );
    }
    page.push_str("</table>");
    page.push_str(
        "<h2>Controls</h2><p>Whether a suspected reason for a difference is one.</p>\
         <table><tr><th>row<th>reason<th>setting<th>found<th>confirmed?</tr>",
    );
    for control in findings.iter().flat_map(|finding| &finding.controls) {
        let (class, word) = if control.is_confirmed { ("yes", "yes") } else { ("no", "no") };
        let _ = write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td class=\"{class}\">{word}</tr>",
            control.row,
            escape(&control.reason),
            escape(&control.setting),
            escape(&control.found),
        );
    }
    page.push_str("</table>");
    for finding in findings {
        let _ = write!(page, "<h2>{}: {}</h2>", finding.name, escape(&finding.question));
        for line in &finding.setup {
            let _ = write!(page, "<p>{}</p>", escape(line));
        }
        for plot in &finding.plots {
            page.push_str(&plot.svg());
        }
        for table in &finding.tables {
            let _ = write!(page, "<h3>{}</h3><table><tr>", escape(&table.title));
            for column in &table.columns {
                let _ = write!(page, "<th>{}", escape(column));
            }
            page.push_str("</tr>");
            for row in &table.rows {
                page.push_str("<tr>");
                for cell in row {
                    let _ = write!(page, "<td>{}", escape(cell));
                }
                page.push_str("</tr>");
            }
            page.push_str("</table>");
        }
    }
    page.push_str("</html>\n");
    page
}

/// Writes `report.html`, `result.json` and one CSV a table.
///
/// # Errors
///
/// [`NotWritten`] if the folder or a file can't be written.
pub fn write_folder(folder: &Path, findings: &[Finding], parameters: &str) -> Result<(), NotWritten> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| NotWritten { path, error }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(failed(&path))
    };
    write("report.html", html(findings, parameters))?;
    write("result.json", serde_json::to_string_pretty(findings).unwrap_or_default())?;
    for finding in findings {
        for (number, table) in (1..).zip(&finding.tables) {
            write(&format!("{}-{number}.csv", finding.name), table.csv())?;
        }
    }
    Ok(())
}
