//! B10: several balancers in front of one pool, none of which knows what the others send.

use tandem_balance::Mistake;

use super::ratio;
use crate::bench::Bench;
use crate::finding::{Claim, Finding, Table};
use crate::peak;
use crate::plot::{Curve, Plot};
use crate::world::simulate;

const POLICIES: [&str; 2] = ["tlwl", "round-robin"];
const LOAD: f64 = 0.7;

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let counts: &[u16] = if bench.is_quick() { &[1, 4] } else { &[1, 2, 4] };
    let jobs: Vec<(&'static str, u16)> =
        POLICIES.iter().flat_map(|&policy| counts.iter().map(move |&count| (policy, count))).collect();
    let all = bench.each(&jobs, |&(policy, count)| {
        let mut run = bench.run(8, policy, bench.profile(1.0, bench.hold()));
        run.balancers = usize::from(count);
        run.profile.rate = LOAD * run.capacity();
        let figures = simulate(&run)?;
        let peak = peak::find(&run, bench.tolerance() * 1.5)?.rate;
        let mean = figures.invite_times.mean_ms();
        bench.say(&format!("several: {policy}, {count} balancers: {mean:.2} ms, peak {peak:.0}"));
        Ok((figures, peak))
    })?;
    let mut table = Table::new(
        "8 nodes behind several balancers",
        &["policy", "balancers", "INVITE mean ms at 70 %", "p99", "find fewer than 2 %", "peak calls/s"],
    );
    for ((policy, count), (figures, peak)) in jobs.iter().zip(&all) {
        table.row(vec![
            (*policy).to_owned(),
            count.to_string(),
            format!("{:.2}", figures.invite_times.mean_ms()),
            format!("{:.1}", figures.invite_times.quantile_ms(0.99)),
            format!("{:.2}", figures.share_below(2) * 100.0),
            format!("{peak:.0}"),
        ]);
    }
    let find = |wanted: &str, balancers: u16| {
        let found =
            jobs.iter().zip(&all).find(|((policy, count), _)| *policy == wanted && *count == balancers);
        found.map_or((0.0, 0.0), |(_, (figures, peak))| (figures.invite_times.mean_ms(), *peak))
    };
    let curves = POLICIES
        .iter()
        .map(|&policy| Curve {
            name: policy.to_owned(),
            points: counts.iter().map(|&count| (f64::from(count), find(policy, count).0)).collect(),
        })
        .collect();
    let ((one_ms, one), (four_ms, four)) = (find("tlwl", 1), find("tlwl", 4));
    let (blind_ms, _) = find("round-robin", 4);
    Ok(Finding {
        name: "several",
        question: "what does it cost that several balancers know nothing of each other's calls?".into(),
        setup: vec![
            "Each call comes by one balancer, drawn evenly, and stays with it. A balancer sees its own calls only; shards of \
             one node share what they know and are one balancer here."
                .into(),
        ],
        claims: vec![
            Claim::new(
                "B10",
                "with four balancers TLWL answers at least 3 times as fast as round robin, at 70 % load",
                "not measured",
                format!("{four_ms:.2} ms against {blind_ms:.2} ms; one balancer {one_ms:.2} ms"),
                four_ms * 3.0 <= blind_ms,
                "each balancer sees a quarter of the load, and idle servers look alike to it",
            ),
            Claim::new(
                "B10",
                "four balancers carry at least 0.95 of what one does",
                "not measured",
                format!("{four:.0} and {one:.0} calls/s ({:.2})", ratio(four, one)),
                four >= 0.95 * one,
                "each balancer sees a quarter of a stalled server's backlog, and so avoids it less",
            ),
        ],
        controls: Vec::new(),
        tables: vec![table],
        plots: vec![Plot {
            title: "Mean response time of INVITEs at 70 % load".into(),
            x: "balancers".into(),
            y: "ms".into(),
            log_y: true,
            curves,
        }],
        took_s: 0,
    })
}
