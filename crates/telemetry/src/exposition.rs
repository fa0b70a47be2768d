//! Prometheus' text format, version 0.0.4: families by name, their series by label.

use core::fmt::Write as _;
use core::time::Duration;
use std::collections::BTreeMap;

/// The metrics of one scrape. Numbers for the same name and labels are added up.
#[derive(Debug)]
pub struct Exposition {
    fixed: String,
    families: BTreeMap<String, Family>,
}

#[derive(Debug)]
struct Family {
    help: String,
    kind: &'static str,
    series: BTreeMap<String, Sample>,
}

#[derive(Debug)]
enum Sample {
    Number(u64),
    Seconds(Duration),
    Histogram { bounds: Vec<Duration>, counts: Vec<u64>, sum: Duration },
}

impl Exposition {
    pub(crate) fn new(fixed: &[(&'static str, String)]) -> Self {
        let fixed: Vec<(&str, &str)> = fixed.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Self { fixed: labels_text(&fixed), families: BTreeMap::new() }
    }

    /// Adds to a counter, whose `name` ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.number(name, help, "counter", labels, value);
    }

    /// Adds to a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.number(name, help, "gauge", labels, value);
    }

    /// Adds to a gauge of time, told in seconds.
    pub fn gauge_seconds(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: Duration) {
        match self.sample(name, help, "gauge", labels, Sample::Seconds(Duration::ZERO)) {
            Sample::Seconds(sum) => *sum = sum.saturating_add(value),
            Sample::Number(_) | Sample::Histogram { .. } => debug_assert!(false, "{name} is of two kinds"),
        }
    }

    /// Adds to a counter of time, told in seconds; `name` ends in `_seconds_total`.
    pub fn counter_seconds(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: Duration) {
        match self.sample(name, help, "counter", labels, Sample::Seconds(Duration::ZERO)) {
            Sample::Seconds(sum) => *sum = sum.saturating_add(value),
            Sample::Number(_) | Sample::Histogram { .. } => debug_assert!(false, "{name} is of two kinds"),
        }
    }

    /// Adds to a histogram of time: the count of each bucket (not cumulative), one more than there are bounds.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        bounds: &[Duration],
        counts: &[u64],
        sum: Duration,
    ) {
        let empty =
            Sample::Histogram { bounds: bounds.to_vec(), counts: vec![0; counts.len()], sum: Duration::ZERO };
        match self.sample(name, help, "histogram", labels, empty) {
            Sample::Histogram { bounds: known, counts: all, sum: total } => {
                debug_assert!(known == bounds, "{name} has two sets of bounds");
                for (all, count) in all.iter_mut().zip(counts) {
                    *all = all.wrapping_add(*count);
                }
                *total = total.saturating_add(sum);
            }
            Sample::Number(_) | Sample::Seconds(_) => debug_assert!(false, "{name} is of two kinds"),
        }
    }

    fn number(&mut self, name: &str, help: &str, kind: &'static str, labels: &[(&str, &str)], value: u64) {
        match self.sample(name, help, kind, labels, Sample::Number(0)) {
            Sample::Number(sum) => *sum = sum.wrapping_add(value),
            Sample::Seconds(_) | Sample::Histogram { .. } => debug_assert!(false, "{name} is of two kinds"),
        }
    }

    fn sample(
        &mut self,
        name: &str,
        help: &str,
        kind: &'static str,
        labels: &[(&str, &str)],
        empty: Sample,
    ) -> &mut Sample {
        let mut text = self.fixed.clone();
        let own = labels_text(labels);
        if !text.is_empty() && !own.is_empty() {
            text.push(',');
        }
        text.push_str(&own);
        self.families
            .entry(name.to_owned())
            .or_insert_with(|| Family { help: help.to_owned(), kind, series: BTreeMap::new() })
            .series
            .entry(text)
            .or_insert(empty)
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        let mut text = String::new();
        for (name, Family { help, kind, series }) in &self.families {
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for (labels, sample) in series {
                let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
                let _ = match sample {
                    Sample::Number(number) => writeln!(text, "{name}{braced} {number}"),
                    Sample::Seconds(time) => writeln!(text, "{name}{braced} {}", time.as_secs_f64()),
                    Sample::Histogram { bounds, counts, sum } => {
                        write_histogram(&mut text, name, labels, bounds, counts);
                        let count: u64 = counts.iter().fold(0, |sum, count| sum.wrapping_add(*count));
                        writeln!(
                            text,
                            "{name}_sum{braced} {}\n{name}_count{braced} {count}",
                            sum.as_secs_f64()
                        )
                    }
                };
            }
        }
        text
    }
}

fn write_histogram(text: &mut String, name: &str, labels: &str, bounds: &[Duration], counts: &[u64]) {
    let comma = if labels.is_empty() { "" } else { "," };
    let ends = bounds.iter().map(|bound| bound.as_secs_f64().to_string()).chain(["+Inf".to_owned()]);
    let mut below = 0u64;
    for (end, count) in ends.zip(counts) {
        below = below.wrapping_add(*count);
        let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {below}");
    }
}

fn labels_text(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{}{name}=\"{value}\"", if text.is_empty() { "" } else { "," });
    }
    text
}
