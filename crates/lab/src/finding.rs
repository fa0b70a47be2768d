//! What an experiment found: claims, tables, plots.

use serde::Serialize;

use crate::plot::Plot;

/// A claim of a paper, or of ours, and whether it holds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// The row of docs/CHECKLIST.md.
    pub row: &'static str,
    /// What is claimed, with the bound that decides.
    pub claim: String,
    /// The paper's value.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// Whether it holds here.
    pub holds: bool,
    /// Why not, where it doesn't.
    pub why: String,
}

impl Claim {
    /// A claim; `why` is shown only if it does not hold.
    #[must_use]
    pub fn new(
        row: &'static str,
        claim: impl Into<String>,
        paper: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
        why: impl Into<String>,
    ) -> Self {
        let why = if holds { String::new() } else { why.into() };
        Self { row, claim: claim.into(), paper: paper.into(), ours: ours.into(), holds, why }
    }
}

/// A control experiment: whether the suspected reason for a difference is one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Control {
    /// The row of docs/CHECKLIST.md that it belongs to.
    pub row: &'static str,
    /// The reason that is tested, and what must come out if it is one.
    pub reason: String,
    /// What was changed for that.
    pub setting: String,
    /// What came out.
    pub found: String,
    /// Whether that confirms it.
    pub is_confirmed: bool,
}

impl Control {
    /// A control experiment's result.
    #[must_use]
    pub fn new(
        row: &'static str,
        reason: impl Into<String>,
        setting: impl Into<String>,
        found: impl Into<String>,
        is_confirmed: bool,
    ) -> Self {
        Self { row, reason: reason.into(), setting: setting.into(), found: found.into(), is_confirmed }
    }
}

/// Rows of figures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table {
    /// Above it; the CSV's name too.
    pub title: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// As comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace(',', ";")).collect();
            cells.join(",") + "\n"
        };
        let mut text = line(&self.columns);
        for row in &self.rows {
            text.push_str(&line(row));
        }
        text
    }
}

/// The result of one experiment.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Finding {
    /// The experiment's name.
    pub name: &'static str,
    /// What it asks.
    pub question: String,
    /// How it was done, and with what.
    pub setup: Vec<String>,
    /// The claims.
    pub claims: Vec<Claim>,
    /// Controls of suspected reasons.
    pub controls: Vec<Control>,
    /// The figures.
    pub tables: Vec<Table>,
    /// The plots.
    pub plots: Vec<Plot>,
    /// Seconds it took.
    pub took_s: u64,
}

impl Finding {
    /// Whether every claim holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }
}
