//! A11: response time against load.

use tandem_balance::Mistake;

use super::{PAPER, of, ratio};
use crate::bench::Bench;
use crate::figures::Figures;
use crate::finding::{Claim, Control, Finding, Table};
use crate::model::Controls;
use crate::plot::{Curve, Plot};
use crate::world::simulate;

const LOW: f64 = 200.0;
/// What Hash carries here (`peak`): near the peak of those that don't look, as in the paper's figures.
const HIGH: f64 = 1850.0;

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let rates: &[f64] = if bench.is_quick() {
        &[LOW, 1000.0, 1700.0, HIGH]
    } else {
        &[LOW, 800.0, 1400.0, 1700.0, HIGH, 2000.0, 2200.0]
    };
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
        controls: controls(bench, &low)?,
        tables: vec![table],
        took_s: 0,
    })
}

/// What of a run is changed for a control.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    /// Counts leak for this part of all calls.
    Leak(f64),
    InstantByes,
    NoStalls,
}

fn controls(bench: &Bench<'_>, low: &[(&str, f64)]) -> Result<Vec<Control>, Mistake> {
    const BUSY: f64 = 1000.0;
    let jobs = [
        ("cjsq", LOW, Change::Leak(0.1)),
        ("cjsq", LOW, Change::Leak(0.5)),
        ("cjsq", LOW, Change::InstantByes),
        ("round-robin", LOW, Change::InstantByes),
        ("tlwl", LOW, Change::InstantByes),
        ("rwma", LOW, Change::NoStalls),
        ("round-robin", LOW, Change::NoStalls),
        ("rwma", BUSY, Change::NoStalls),
        ("round-robin", BUSY, Change::NoStalls),
        ("hash", BUSY, Change::NoStalls),
    ];
    let all = bench.each(&jobs, |&(policy, rate, change)| {
        let mut run = bench.run(8, policy, bench.profile(rate, bench.hold()));
        match change {
            Change::Leak(leak) => run.controls = Controls { leak, ..run.controls },
            Change::InstantByes => run.controls.has_instant_byes = true,
            Change::NoStalls => run.model.stalls = None,
        }
        let mean = simulate(&run)?.invite_times.mean_ms();
        bench.say(&format!("response, control: {policy} at {rate}, {change:?}: {mean:.2} ms"));
        Ok(mean)
    })?;
    let at = |policy: &str, rate: f64, change: Change| {
        let found = jobs.iter().zip(&all).find(|(job, _)| **job == (policy, rate, change));
        found.map_or(0.0, |(_, mean)| *mean)
    };
    let tlwl = of(low, "tlwl");
    let (tenth, half) = (at("cjsq", LOW, Change::Leak(0.1)), at("cjsq", LOW, Change::Leak(0.5)));
    let [cjsq, blind, few] = ["cjsq", "round-robin", "tlwl"].map(|name| at(name, LOW, Change::InstantByes));
    let herd = |rate| at("rwma", rate, Change::NoStalls);
    let others = at("round-robin", BUSY, Change::NoStalls).max(at("hash", BUSY, Change::NoStalls));
    let calm = at("round-robin", LOW, Change::NoStalls);
    Ok(vec![
        Control::new(
            "A11",
            "CJSQ avoids a stalled server because calls end elsewhere and not there: if BYEs end calls during stalls too, it is as \
             slow as round robin (three quarters of it at least)",
            "BYEs answered at once and for nothing, also by a server that stands still; 200 calls/s",
            format!("CJSQ {cjsq:.1} ms, round robin {blind:.1} ms, TLWL {few:.1} ms"),
            cjsq >= 0.75 * blind,
        ),
        Control::new(
            "A11",
            "counts that leak, as in the paper's figure 4, make CJSQ three times as slow as TLWL",
            "the BYE of a tenth, and of half, of all calls goes past the balancer; 200 calls/s",
            format!("CJSQ {tenth:.1} and {half:.1} ms, TLWL {tlwl:.1} ms"),
            tenth >= 3.0 * tlwl,
        ),
        Control::new(
            "A11",
            "RWMA's herds are small at 8 % load and not at 42 %: without stalls it is no more than twice as slow as round robin at \
             200 calls/s, and more than that at 1,000",
            "servers that never stand still",
            format!(
                "200 calls/s: RWMA {:.2} ms, round robin {calm:.2} ms; 1,000: RWMA {:.2} ms, slower of round robin and Hash {others:.2} ms",
                herd(LOW),
                herd(BUSY)
            ),
            herd(LOW) <= 2.0 * calm && herd(BUSY) > 2.0 * others,
        ),
    ])
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
             between the two groups here; see the control",
        ),
        Claim::new(
            "A11",
            "RWMA is slowest at 200 calls/s: at least twice the mean of any other",
            "about 65 ms",
            format!("{rwma:.1} ms, next {:.1} ms", most(low, &blind).max(cjsq)),
            rwma >= 2.0 * most(low, &blind).max(cjsq),
            "RWMA does herd (`occupancy` shows it), but our servers answer in 2 ms, so that at 8 % load a \
             herd is small; see the control",
        ),
        Claim::new(
            "A11",
            format!(
                "near the peak ({HIGH} calls/s, what Hash carries) TLWL and TJSQ answer at least 30 times as fast as those that don't look"
            ),
            "two orders of magnitude",
            format!("{near:.0} times"),
            near >= 30.0,
            "a server that stands still is answered for by the others within the length of a stall, which bounds what those wait \
             that don't look",
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
