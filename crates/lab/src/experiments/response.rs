//! A11: response time against load.

use tandem_balance::Mistake;

use super::{PAPER, of, ratio};
use crate::bench::Bench;
use crate::figures::Figures;
use crate::finding::{Claim, Finding, Table};
use crate::plot::{Curve, Plot};
use crate::world::simulate;

const LOW: f64 = 200.0;
/// Nine tenths of what round robin and Hash carry here (`peak`).
const HIGH: f64 = 1700.0;

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let rates: &[f64] =
        if bench.is_quick() { &[LOW, 1000.0, HIGH] } else { &[LOW, 800.0, 1400.0, HIGH, 2000.0, 2200.0] };
    let jobs: Vec<(&'static str, f64)> =
        PAPER.iter().flat_map(|&policy| rates.iter().map(move |&rate| (policy, rate))).collect();
    let all = bench.each(&jobs, |&(policy, rate)| {
        let figures = simulate(&bench.run(8, policy, bench.profile(rate, bench.hold())))?;
        bench.say(&format!("response: {policy} at {rate}: {:.2} ms", figures.invite_times.mean_ms()));
        Ok(figures)
    })?;
    let found: Vec<(&str, f64, &Figures)> =
        jobs.iter().zip(&all).map(|(&(policy, rate), figures)| (policy, rate, figures)).collect();
    let at = |wanted: f64, value: fn(&Figures) -> f64| -> Vec<(&str, f64)> {
        let these = found.iter().filter(|(_, rate, _)| *rate == wanted);
        these.map(|(policy, _, figures)| (*policy, value(figures))).collect()
    };
    let mean = |figures: &Figures| figures.invite_times.mean_ms();
    let (low, high) = (at(LOW, mean), at(HIGH, mean));
    let low_bye = at(LOW, |figures| figures.bye_times.mean_ms());

    let mut table = Table::new(
        "Response times",
        &[
            "policy",
            "calls/s",
            "success %",
            "INVITE mean ms",
            "p50",
            "p99",
            "p99.9",
            "BYE mean ms",
            "repeated",
        ],
    );
    let plot = |title: &str, value: fn(&Figures) -> f64| Plot {
        title: title.into(),
        x: "calls/s offered to 8 nodes".into(),
        y: "ms".into(),
        log_y: true,
        curves: PAPER
            .iter()
            .map(|&name| Curve {
                name: name.to_owned(),
                points: found
                    .iter()
                    .filter(|(policy, _, _)| *policy == name)
                    .map(|(_, rate, figures)| (*rate, value(figures)))
                    .collect(),
            })
            .collect(),
    };
    for (policy, rate, figures) in &found {
        let times = &figures.invite_times;
        table.row(vec![
            (*policy).to_owned(),
            format!("{rate:.0}"),
            format!("{:.3}", figures.success() * 100.0),
            format!("{:.2}", times.mean_ms()),
            format!("{:.2}", times.quantile_ms(0.5)),
            format!("{:.1}", times.quantile_ms(0.99)),
            format!("{:.1}", times.quantile_ms(0.999)),
            format!("{:.2}", figures.bye_times.mean_ms()),
            figures.repeated.to_string(),
        ]);
    }
    Ok(Finding {
        name: "response",
        question: "how long does an INVITE wait for its 200, at which load, under which policy?".into(),
        setup: vec![
            "8 nodes, with pauses (normal 60 s / 30 s) and stalls; INVITE to 200, as the caller sees it."
                .into(),
        ],
        claims: claims(&low, &high, &low_bye),
        plots: vec![
            plot("Mean response time of INVITEs", |figures| figures.invite_times.mean_ms()),
            plot("99th percentile of INVITEs", |figures| figures.invite_times.quantile_ms(0.99)),
            plot("Mean response time of BYEs", |figures| figures.bye_times.mean_ms()),
        ],
        tables: vec![table],
        took_s: 0,
    })
}

fn claims(low: &[(&str, f64)], high: &[(&str, f64)], low_bye: &[(&str, f64)]) -> Vec<Claim> {
    let least = |list: &[(&str, f64)], names: &[&str]| {
        names.iter().map(|name| of(list, name)).fold(f64::INFINITY, f64::min)
    };
    let most =
        |list: &[(&str, f64)], names: &[&str]| names.iter().map(|name| of(list, name)).fold(0.0, f64::max);
    let few = ["tlwl", "tjsq"];
    let blind = ["round-robin", "hash", "fnv"];
    let (fast, slow) = (most(low, &few), least(low, &blind));
    let (cjsq, rwma) = (of(low, "cjsq"), of(low, "rwma"));
    let near = ratio(least(high, &blind), most(high, &few));
    let bye = ratio(least(low_bye, &blind), most(low_bye, &few));
    vec![
        Claim::new(
            "A11",
            "at 200 calls/s TLWL and TJSQ answer in a third of what round robin, Hash and FNV need, or less",
            "about 2 ms and 15 ms",
            format!("{fast:.1} ms and {slow:.1} ms"),
            fast * 3.0 <= slow,
            "stalls of this length cost the policies that don't look too little",
        ),
        Claim::new(
            "A11",
            "so does CJSQ need three times as long as TLWL and TJSQ, at 200 calls/s",
            "about 15 ms",
            format!("{cjsq:.1} ms"),
            cjsq >= 3.0 * fast,
            "while a server stands still, the calls of the others end and its own do not, so CJSQ soon avoids it: it stands \
             between the two groups here",
        ),
        Claim::new(
            "A11",
            "RWMA is slowest at 200 calls/s: at least twice the mean of any other",
            "about 65 ms",
            format!("{rwma:.1} ms, next {:.1} ms", most(low, &blind).max(cjsq)),
            rwma >= 2.0 * most(low, &blind).max(cjsq),
            "RWMA does herd (`occupancy` shows it), but our servers answer in 2 ms, so that at 8 % load a \
             herd is small",
        ),
        Claim::new(
            "A11",
            format!(
                "near the peak ({HIGH} calls/s) TLWL and TJSQ answer at least 30 times as fast as those that don't look"
            ),
            "two orders of magnitude",
            format!("{near:.0} times"),
            near >= 30.0,
            "the rate is further from the others' peak than the paper's was",
        ),
        Claim::new(
            "A11",
            "BYEs differ less than INVITEs, at 200 calls/s",
            "smaller differences",
            format!("{bye:.1} times against {:.1} times", ratio(slow, fast)),
            bye < ratio(slow, fast),
            "a BYE has to go where its call is",
        ),
    ]
}
