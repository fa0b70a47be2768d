//! B3, A9: instant messages and presence besides calls.

use tandem_balance::Mistake;

use super::{of, ratio};
use crate::bench::Bench;
use crate::figures::Figures;
use crate::finding::{Claim, Finding, Table};
use crate::world::simulate;

const POLICIES: [&str; 6] = ["tlwl", "tjsq", "cjsq", "round-robin", "hash", "rwma"];
/// Of 8 nodes' capacity: 50 % by calls, 30 % by what is outside calls.
const CALLS: f64 = 0.5;
const SINGLES: f64 = 0.3;

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let costs = bench.model.costs;
    let rate = CALLS * 8.0 * costs.capacity();
    let singles = SINGLES * 8.0 / (costs.bye() * costs.single_to_bye);
    let all = bench.each(&POLICIES, |policy| {
        let mut run = bench.run(8, policy, bench.profile(rate, bench.hold()));
        run.profile.singles = singles;
        let figures = simulate(&run)?;
        bench.say(&format!("mixed: {policy}: {:.2} ms", figures.invite_times.mean_ms()));
        Ok(figures)
    })?;
    let mut table = Table::new(
        "Calls and single requests",
        &[
            "policy",
            "success %",
            "INVITE mean ms",
            "INVITE p99",
            "single mean ms",
            "single p99",
            "BYE mean ms",
        ],
    );
    for (policy, figures) in POLICIES.iter().zip(&all) {
        table.row(vec![
            (*policy).to_owned(),
            format!("{:.3}", figures.success() * 100.0),
            format!("{:.2}", figures.invite_times.mean_ms()),
            format!("{:.1}", figures.invite_times.quantile_ms(0.99)),
            format!("{:.2}", figures.single_times.mean_ms()),
            format!("{:.1}", figures.single_times.quantile_ms(0.99)),
            format!("{:.2}", figures.bye_times.mean_ms()),
        ]);
    }
    let value = |value: fn(&Figures) -> f64| -> Vec<(&str, f64)> {
        POLICIES.iter().zip(&all).map(|(policy, figures)| (*policy, value(figures))).collect()
    };
    let claim = |what: &str, list: &[(&str, f64)]| {
        let fast = of(list, "tlwl").max(of(list, "tjsq"));
        let slow = of(list, "round-robin").min(of(list, "hash"));
        Claim::new(
            "B3",
            format!("{what}: TLWL and TJSQ answer at least 3 times as fast as round robin and Hash"),
            "not measured",
            format!("{fast:.2} ms against {slow:.2} ms ({:.1} x)", ratio(slow, fast)),
            slow >= 3.0 * fast,
            "stalls of this length cost the policies that don't look too little",
        )
    };
    Ok(Finding {
        name: "mixed",
        question: "do the policies keep their order with instant messages and presence in the mix?".into(),
        setup: vec![format!(
            "8 nodes; {rate:.0} calls/s and {singles:.0} MESSAGE, PUBLISH, SUBSCRIBE a second, each as dear as a BYE; together \
             80 % of capacity. Requests outside calls are free to go anywhere (A9)."
        )],
        claims: vec![
            claim("INVITEs", &value(|figures| figures.invite_times.mean_ms())),
            claim("requests outside calls", &value(|figures| figures.single_times.mean_ms())),
        ],
        controls: Vec::new(),
        tables: vec![table],
        plots: Vec::new(),
        took_s: 0,
    })
}
