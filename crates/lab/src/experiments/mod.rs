//! The experiments, one a file.

mod hashes;
mod heterogeneous;
mod learned;
mod many;
mod mixed;
mod nodes;
mod occupancy;
mod peaks;
mod response;
mod several;
mod stages;

use tandem_balance::Mistake;

use crate::bench::Bench;
use crate::finding::Finding;

/// One experiment.
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it shows, with its row of the checklist.
    pub about: &'static str,
    /// Does it.
    pub run: fn(&Bench<'_>) -> Result<Finding, Mistake>,
}

/// All experiments in virtual time, in the order in which they are done.
#[rustfmt::skip]
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: "hashes", about: "A6: buckets that the hash of OpenSER and FNV reach with 300,000 Call-IDs", run: hashes::run },
    Experiment { name: "occupancy", about: "A12: what a new call finds ahead of it, 4 nodes, 600 calls/s", run: occupancy::run },
    Experiment { name: "response", about: "A11: response time against load, 8 nodes", run: response::run },
    Experiment { name: "peak", about: "A10: peak throughput of 8 nodes at 99.99 % success, policy by policy", run: peaks::run },
    Experiment { name: "heterogeneous", about: "A13, A8: two nodes, one at half speed, capacity unknown and known", run: heterogeneous::run },
    Experiment { name: "nodes", about: "A10 (figure 9): peak throughput of 1 to 10 nodes", run: nodes::run },
    Experiment { name: "many", about: "B2: 100 and 1,000 destinations", run: many::run },
    Experiment { name: "mixed", about: "B3, A9: instant messages and presence besides calls", run: mixed::run },
    Experiment { name: "learned", about: "B9: learned weights where an INVITE costs 1, 4 or 10 BYEs", run: learned::run },
    Experiment { name: "several", about: "B10: several balancers that know nothing of each other", run: several::run },
    Experiment { name: "stages", about: "L9: two clusters by user, even and 60:40; who moves when a cluster joins", run: stages::run },
];

/// The policies of the paper, in the order of its figures.
const PAPER: [&str; 7] = ["tlwl", "tjsq", "cjsq", "round-robin", "hash", "fnv", "rwma"];

/// `value / of`, 0 if there is nothing to divide by.
pub(crate) fn ratio(value: f64, of: f64) -> f64 {
    if of > 0.0 { value / of } else { 0.0 }
}

fn percent(part: f64) -> String {
    format!("{:.3} %", part * 100.0)
}

/// The value that belongs to a name; 0 if there is none.
fn of(list: &[(&str, f64)], name: &str) -> f64 {
    list.iter().find(|(of, _)| *of == name).map_or(0.0, |(_, value)| *value)
}
