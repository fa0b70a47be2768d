//! B2: clusters larger than ten.

use core::time::Duration;

use tandem_balance::Mistake;

use super::ratio;
use crate::bench::Bench;
use crate::figures::Figures;
use crate::finding::{Claim, Finding, Table};
use crate::model::{Hold, Profile};
use crate::world::simulate;

const POLICIES: [&str; 3] = ["tlwl", "round-robin", "hash"];
const LOAD: f64 = 0.9;

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let counts: &[usize] = if bench.is_quick() { &[100] } else { &[100, 1000] };
    let jobs: Vec<(&'static str, usize)> =
        counts.iter().flat_map(|&count| POLICIES.iter().map(move |&policy| (policy, count))).collect();
    let all = bench.each(&jobs, |&(policy, count)| {
        let secs = Duration::from_secs;
        // Short holds and runs: a thousand nodes begin 270,000 calls each second.
        let (hold, judged) = if count > 100 { (2, secs(4)) } else { (5, secs(10)) };
        let hold = Hold { mean: secs(hold), deviation: secs(hold) / 2 };
        let mut run = bench.run(count, policy, bench.profile(1.0, hold));
        let rate = LOAD * run.capacity();
        run.profile = Profile { rate, ramp: secs(1), warm_up: hold.mostly_over(), judged, ..run.profile };
        let figures = simulate(&run)?;
        bench.say(&format!("many: {policy}, {count} nodes: {:.2} ms", figures.invite_times.mean_ms()));
        Ok(figures)
    })?;
    let mut table = Table::new(
        "At 90 % of capacity",
        &[
            "policy",
            "nodes",
            "calls/s",
            "success %",
            "INVITE mean ms",
            "p99",
            "find fewer than 2 %",
            "most ahead",
        ],
    );
    for ((policy, count), figures) in jobs.iter().zip(&all) {
        #[expect(clippy::cast_precision_loss, reason = "a thousand nodes")]
        let rate = LOAD * bench.model.costs.capacity() * *count as f64;
        table.row(vec![
            (*policy).to_owned(),
            count.to_string(),
            format!("{rate:.0}"),
            format!("{:.3}", figures.success() * 100.0),
            format!("{:.2}", figures.invite_times.mean_ms()),
            format!("{:.1}", figures.invite_times.quantile_ms(0.99)),
            format!("{:.2}", figures.share_below(2) * 100.0),
            figures.ahead_max().to_string(),
        ]);
    }
    let of = |wanted: &str, nodes: usize, value: fn(&Figures) -> f64| {
        let found = jobs.iter().zip(&all).find(|((policy, count), _)| *policy == wanted && *count == nodes);
        found.map_or(0.0, |(_, figures)| value(figures))
    };
    let mean: fn(&Figures) -> f64 = |figures| figures.invite_times.mean_ms();
    let claims = counts
        .iter()
        .map(|&count| {
            let tlwl = of("tlwl", count, mean);
            let others = of("round-robin", count, mean).min(of("hash", count, mean));
            Claim::new(
                "B2",
                format!("{count} nodes: TLWL answers all requests, 10 times as fast as round robin and Hash"),
                "not measured beyond 10",
                format!("{tlwl:.2} ms against {others:.2} ms ({:.0} x)", ratio(others, tlwl)),
                others >= 10.0 * tlwl && of("tlwl", count, Figures::success) >= 0.9999,
                "fewer servers stand still in so short a run than in the long ones",
            )
        })
        .collect();
    Ok(Finding {
        name: "many",
        question: "what of 100 and 1,000 destinations?".into(),
        setup: vec![
            "At 90 % of capacity, with stalls; holds of 5 s / 2.5 s (100 nodes) and 2 s / 1 s (1,000 nodes), 10 s and 4 s \
             judged."
                .into(),
        ],
        claims,
        controls: Vec::new(),
        tables: vec![table],
        plots: Vec::new(),
        took_s: 0,
    })
}
