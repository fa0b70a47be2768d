//! What was found: medians, a table for people, JSON for programs.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::driver::Sample;
use crate::generator::Generator;
use crate::kinds::{Job, Subject};
use crate::memory::Memory;
use crate::peak::{Peak, SUCCESS};

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    quick: bool,
    rounds: usize,
    machine: Machine,
    proxy200: Rows,
    register: Rows,
    balance: Rows,
    pauses: Rows,
    shards: Rows,
    pub(crate) memory: Option<Memory>,
    pub(crate) generator: Option<Generator>,
}

/// Where it was measured.
#[derive(Debug, Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
}

/// One row a subject.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Rows(Vec<Row>);

/// One subject's samples.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    subject: Subject,
    pub(crate) sparse: Vec<Sample>,
    pub(crate) busy: Vec<Sample>,
    pub(crate) peaks: Vec<Peak>,
}

impl Rows {
    /// The subject's row, made when first asked for.
    pub(crate) fn row(&mut self, subject: Subject) -> &mut Row {
        let at = self.0.iter().position(|row| row.subject == subject).unwrap_or_else(|| {
            self.0.push(Row { subject, sparse: Vec::new(), busy: Vec::new(), peaks: Vec::new() });
            self.0.len() - 1
        });
        self.0.get_mut(at).expect("just found or made")
    }

    fn find(&self, subject: Subject) -> Option<&Row> {
        self.0.iter().find(|row| row.subject == subject)
    }
}

impl Row {
    /// The median peak.
    pub(crate) fn peak(&self) -> Option<f64> {
        median(self.peaks.iter().map(|peak| peak.rate))
    }

    fn sparse_us(&self) -> Option<f64> {
        cpu(&self.sparse)
    }

    fn busy_us(&self) -> Option<f64> {
        cpu(&self.busy)
    }
}

/// Median CPU time of the runs that stand.
fn cpu(samples: &[Sample]) -> Option<f64> {
    median(
        samples
            .iter()
            .filter(|s| s.void.is_empty() && s.success >= SUCCESS - 0.001 && s.server_us > 0.0)
            .map(|s| s.server_us),
    )
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(*values.get(low)?, *values.get(high)?))
}

impl Report {
    pub(crate) fn new(quick: bool, rounds: usize) -> Self {
        Self {
            quick,
            rounds,
            machine: Machine::here(),
            proxy200: Rows::default(),
            register: Rows::default(),
            balance: Rows::default(),
            pauses: Rows::default(),
            shards: Rows::default(),
            memory: None,
            generator: None,
        }
    }

    pub(crate) fn add(&mut self, job: Job, rows: Rows) {
        match job {
            Job::Proxy200 => self.proxy200 = rows,
            Job::Register => self.register = rows,
            Job::Balance => self.balance = rows,
            Job::Pauses => self.pauses = rows,
        }
    }

    pub(crate) fn add_sharded(&mut self, rows: Rows) {
        self.shards = rows;
    }

    /// Writes `bench.json` and `bench.md` into `dir`.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join("bench.json"), serde_json::to_string_pretty(self)?)?;
        std::fs::write(dir.join("bench.md"), self.markdown())?;
        Ok(())
    }

    /// The tables of `docs/PERFORMANCE.md`.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        let Machine { cpu, cores, kernel } = &self.machine;
        let rounds = if self.rounds == 1 { "one round" } else { "median of the rounds" };
        let _ = writeln!(text, "{cpu}, {cores} cores, Linux {kernel}; {} rounds, {rounds}.", self.rounds);
        if self.quick {
            text.push_str(
                "Quick run: short loads, finished transactions not yet forgotten. Rough figures.\n",
            );
        }
        table(&mut text, "Proxy 200", "call", &self.proxy200, Subject::Forwarder);
        table(&mut text, "REGISTER, bindings in RAM", "REGISTER", &self.register, Subject::Reflector);
        table(&mut text, "Proxy 200 over a pool", "call", &self.balance, Subject::BalanceForwarder);
        table(
            &mut text,
            "Proxy 200 over a pool, calls that last (Jiang et al.: 5,500 at most)",
            "call",
            &self.pauses,
            Subject::BalanceForwarder,
        );
        table(
            &mut text,
            "Two shards, each with the load of the one",
            "call",
            &self.shards,
            Subject::TandemStateless,
        );
        if let Some(generator) = &self.generator {
            generator.write(&mut text);
        }
        if let Some(memory) = &self.memory {
            memory.write(&mut text);
        }
        text
    }
}

fn table(text: &mut String, title: &str, unit: &str, rows: &Rows, bar: Subject) {
    if rows.0.is_empty() {
        return;
    }
    let bar = rows.find(bar);
    let _ = writeln!(
        text,
        "\n| {title} | sparse, µs/{unit} | × bar | busy, µs/{unit} | × bar | peak, {unit}s/s |"
    );
    text.push_str("|---|---|---|---|---|---|\n");
    for row in &rows.0 {
        let figure =
            |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |v| format!("{v:.digits$}"));
        let times = |value: Option<f64>, bar: Option<f64>| {
            let ratio = value.zip(bar).filter(|(_, bar)| *bar > 0.0).map(|(value, bar)| value / bar);
            figure(ratio, 2)
        };
        let title = if row.subject.is_ours() {
            format!("**{}**", row.subject.title())
        } else {
            row.subject.title().to_owned()
        };
        let at_least = if row.peaks.iter().any(|peak| peak.at_least) { "≥ " } else { "" };
        let _ = writeln!(
            text,
            "| {title} | {} | {} | {} | {} | {at_least}{} |",
            figure(row.sparse_us(), 1),
            times(row.sparse_us(), bar.and_then(Row::sparse_us)),
            figure(row.busy_us(), 1),
            times(row.busy_us(), bar.and_then(Row::busy_us)),
            row.peak().filter(|peak| *peak > 0.0).map_or("–".to_owned(), thousands),
        );
    }
}

/// `52900.0` as `52,900`.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Machine {
    fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
        Self {
            cpu: cpu.trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(server_us: f64, void: bool) -> Sample {
        let void = if void { vec!["late".to_owned()] } else { Vec::new() };
        Sample { server_us, success: 1.0, void, ..Sample::default() }
    }

    #[test]
    fn a_void_run_counts_for_nothing() {
        assert_eq!(
            cpu(&[sample(1.0, true), sample(30.0, false), sample(20.0, false), sample(90.0, false)]),
            Some(30.0)
        );
        assert_eq!(cpu(&[sample(1.0, true)]), None);
    }

    #[test]
    fn a_row_is_shown_beside_its_bar() {
        let mut report = Report::new(true, 1);
        let mut rows = Rows::default();
        rows.row(Subject::Forwarder).sparse.push(sample(20.0, false));
        rows.row(Subject::TandemStateless).sparse.push(sample(28.0, false));
        rows.row(Subject::TandemStateless).peaks.push(Peak { rate: 38_000.0, at_least: true });
        report.add(Job::Proxy200, rows);
        assert!(
            report.markdown().contains("| **Tandem, stateless** | 28.0 | 1.40 | – | – | ≥ 38,000 |"),
            "{}",
            report.markdown()
        );
    }
}
