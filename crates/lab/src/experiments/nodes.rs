//! A10, figure 9: peak throughput against the number of nodes.

use tandem_balance::Mistake;

use super::ratio;
use crate::bench::Bench;
use crate::finding::{Claim, Finding, Table};
use crate::peak;
use crate::plot::{Curve, Plot};

const POLICIES: [&str; 3] = ["tlwl", "round-robin", "hash"];

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let counts: &[u16] = if bench.is_quick() { &[1, 2, 4, 8] } else { &[1, 2, 4, 8, 10] };
    let jobs: Vec<(&'static str, u16)> =
        POLICIES.iter().flat_map(|&policy| counts.iter().map(move |&count| (policy, count))).collect();
    let peaks = bench.each(&jobs, |&(policy, count)| {
        let run = bench.run(usize::from(count), policy, bench.profile(1.0, bench.hold()));
        let peak = peak::find(&run, bench.tolerance())?;
        bench.say(&format!("nodes: {policy}, {count} nodes: {:.0} calls/s", peak.rate));
        Ok(peak.rate)
    })?;
    let mut table = Table::new("Peak throughput", &["policy", "nodes", "peak calls/s", "a node"]);
    let mut curves = Vec::new();
    for policy in POLICIES {
        let these = || jobs.iter().zip(&peaks).filter(|((of, _), _)| *of == policy);
        curves.push(Curve {
            name: policy.to_owned(),
            points: these().map(|((_, count), peak)| (f64::from(*count), *peak)).collect(),
        });
        for ((_, count), peak) in these() {
            let each = peak / f64::from(*count);
            table.row(vec![policy.to_owned(), count.to_string(), format!("{peak:.0}"), format!("{each:.0}")]);
        }
    }
    let each = |policy: &str, count: u16| {
        let found = jobs.iter().zip(&peaks).find(|((of, nodes), _)| *of == policy && *nodes == count);
        found.map_or(0.0, |(_, peak)| peak / f64::from(count))
    };
    let last = counts.last().copied().unwrap_or(1);
    let (half, most) = (each("tlwl", 4), each("tlwl", last));
    let gain = |count| ratio(each("tlwl", count), each("hash", count));
    Ok(Finding {
        name: "nodes",
        question: "does throughput grow with the number of nodes?".into(),
        setup: vec!["As `peak`, with pauses and stalls.".into()],
        claims: vec![
            Claim::new(
                "A10",
                format!("TLWL is linear: a node of {last} carries within 5 % of what one of 4 does, or more"),
                "linear to 10 nodes",
                format!("{half:.0} and {most:.0} calls/s a node"),
                most >= 0.95 * half,
                "the search's steps are 2 % of capacity",
            ),
            Claim::new(
                "A10",
                "what TLWL gains over Hash does not shrink as nodes are added",
                "lines diverge",
                format!("{:.2} x at 2 nodes, {:.2} x at {last}", gain(2), gain(last)),
                gain(last) >= 0.95 * gain(2),
                "the search's steps are 2 % of capacity",
            ),
        ],
        controls: Vec::new(),
        tables: vec![table],
        plots: vec![Plot {
            title: "Peak throughput".into(),
            x: "nodes".into(),
            y: "calls/s".into(),
            log_y: false,
            curves,
        }],
        took_s: 0,
    })
}
