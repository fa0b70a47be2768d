//! A12: what a new call finds ahead of it.

use tandem_balance::Mistake;

use super::{of, percent, ratio};
use crate::bench::Bench;
use crate::figures::Figures;
use crate::finding::{Claim, Control, Finding, Table};
use crate::plot::{Curve, Plot};
use crate::world::simulate;

const POLICIES: [&str; 6] = ["tlwl", "tjsq", "cjsq", "round-robin", "hash", "rwma"];

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let all = bench.each(&POLICIES, |policy| {
        let mut profile = bench.profile(600.0, bench.hold());
        profile.judged = core::time::Duration::from_secs(60);
        let figures = simulate(&bench.run(4, policy, profile))?;
        bench.say(&format!("occupancy: {policy}: {:.3} find fewer than 2", figures.share_below(2)));
        Ok(figures)
    })?;
    let found: Vec<(&str, &Figures)> = POLICIES.into_iter().zip(&all).collect();
    let mut table = Table::new(
        "What a new call finds, 4 nodes, 600 calls/s",
        &["policy", "calls", "0 %", "<2 %", ">=5 %", ">20 %", "most", "sum of response times ms"],
    );
    for (policy, figures) in &found {
        table.row(vec![
            (*policy).to_owned(),
            figures.answers.len().to_string(),
            format!("{:.2}", figures.share_below(1) * 100.0),
            format!("{:.2}", figures.share_below(2) * 100.0),
            format!("{:.2}", (1.0 - figures.share_below(5)) * 100.0),
            format!("{:.3}", (1.0 - figures.share_below(21)) * 100.0),
            figures.ahead_max().to_string(),
            format!("{:.0}", figures.invite_times.sum_ms()),
        ]);
    }
    let plot = |title: &str, y: &str, log_y: bool, points: fn(&Figures) -> Vec<(f64, f64)>| Plot {
        title: title.into(),
        x: "requests ahead of a new call at its server".into(),
        y: y.into(),
        log_y,
        curves: found
            .iter()
            .map(|(name, figures)| Curve { name: (*name).to_owned(), points: points(figures) })
            .collect(),
    };
    let plots = vec![
        plot("Calls that find at most so many (CDF)", "%", false, |figures| {
            steps(21).map(|count| (f64::from(count), figures.share_below(count + 1) * 100.0)).collect()
        }),
        plot("Calls that find more (CCDF)", "%", true, |figures| {
            steps(100)
                .map(|count| (f64::from(count), (1.0 - figures.share_below(count + 1)) * 100.0))
                .collect()
        }),
        plot("Response times of calls that find at most so many, added up", "s", true, |figures| {
            steps(100).map(|count| (f64::from(count), cumulative_s(figures, count))).collect()
        }),
    ];
    Ok(Finding {
        name: "occupancy",
        question: "how many requests does a new call find ahead of it?".into(),
        setup: vec!["4 nodes, 600 calls/s for a minute (36,000 calls), with pauses and stalls.".into()],
        claims: claims(&found),
        controls: controls(bench)?,
        tables: vec![table],
        plots,
        took_s: 0,
    })
}

/// The same at another rate, and with other stalls.
fn controls(bench: &Bench<'_>) -> Result<Vec<Control>, Mistake> {
    /// Calls a second of the first control: 4 nodes are busy a third of the time.
    const LOWER: f64 = 400.0;
    /// How many times as often servers stand still in the second.
    const OFTENER: u32 = 3;
    let jobs = [("round-robin", true), ("hash", true), ("round-robin", false), ("hash", false)];
    let all = bench.each(&jobs, |&(policy, is_lower)| {
        let mut profile = bench.profile(if is_lower { LOWER } else { 600.0 }, bench.hold());
        profile.judged = core::time::Duration::from_secs(60);
        let mut run = bench.run(4, policy, profile);
        if let Some(stalls) = run.model.stalls.as_mut().filter(|_| !is_lower) {
            stalls.every /= OFTENER;
        }
        let figures = simulate(&run)?;
        bench.say(&format!("occupancy, control: {policy}: {:.3} find nobody", figures.share_below(1)));
        Ok(figures)
    })?;
    let share = |is_lower: bool, value: fn(&Figures) -> f64| {
        let these = jobs.iter().zip(&all).filter(move |((_, lower), _)| *lower == is_lower);
        these.map(|(_, figures)| value(figures)).fold(f64::INFINITY, f64::min)
    };
    let (idle, from_5) = (share(true, |f| f.share_below(1)), share(false, |f| 1.0 - f.share_below(5)));
    let slow = share(false, |f| f.invite_times.mean_ms());
    Ok(vec![
        Control::new(
            "A12",
            "the load alone decides how many find nobody under policies that don't look: at a third of capacity it is more than 60 %",
            "400 instead of 600 calls/s",
            format!("least of round robin and Hash {}", percent(idle)),
            idle > 0.6,
        ),
        Control::new(
            "A12",
            "10 % find 5 or more under round robin and Hash if servers stand still more often",
            "stalls three times as often, 600 calls/s",
            format!("least of both {}, INVITEs then take {slow:.0} ms or more", percent(from_5)),
            from_5 >= 0.1,
        ),
    ])
}

fn steps(to: u32) -> impl Iterator<Item = u32> {
    0..to
}

fn cumulative_s(figures: &Figures, most: u32) -> f64 {
    let these = figures.answers.iter().filter(|answer| answer.ahead <= most);
    these.map(|answer| f64::from(answer.micros)).sum::<f64>() / 1e6
}

fn claims(found: &[(&str, &Figures)]) -> Vec<Claim> {
    let value = |value: fn(&Figures) -> f64| -> Vec<(&str, f64)> {
        found.iter().map(|(policy, figures)| (*policy, value(figures))).collect()
    };
    let (idle, below_2) = (value(|figures| figures.share_below(1)), value(|figures| figures.share_below(2)));
    let from_5 = value(|figures| 1.0 - figures.share_below(5));
    let most = value(|figures| f64::from(figures.ahead_max()));
    let sums = value(|figures| figures.invite_times.sum_ms());
    let both = |list: &[(&str, f64)], a: &str, b: &str| (of(list, a), of(list, b));
    let (tlwl_2, tjsq_2) = both(&below_2, "tlwl", "tjsq");
    let (tlwl_most, tjsq_most) = both(&most, "tlwl", "tjsq");
    let (round_robin_5, hash_5) = both(&from_5, "round-robin", "hash");
    let four = ["tlwl", "tjsq", "round-robin", "hash"];
    let least_idle = four.iter().map(|name| of(&idle, name)).fold(1.0, f64::min);
    let (tlwl_sum, hash_sum) = both(&sums, "tlwl", "hash");
    vec![
        Claim::new(
            "A12",
            "TJSQ, TLWL: 90 % of calls find fewer than 2",
            "90 %",
            format!("TJSQ {}, TLWL {}", percent(tjsq_2), percent(tlwl_2)),
            tlwl_2.min(tjsq_2) >= 0.9,
            "the servers are busier here than the paper's at this rate",
        ),
        Claim::new(
            "A12",
            "TJSQ, TLWL: none finds more than 20",
            "never",
            format!("at most {tjsq_most:.0} and {tlwl_most:.0}"),
            tlwl_most.max(tjsq_most) <= 20.0,
            "two or more of four servers stood still at once",
        ),
        Claim::new(
            "A12",
            "round robin, Hash: 10 % find 5 or more",
            "10 %",
            format!("round robin {}, Hash {}", percent(round_robin_5), percent(hash_5)),
            round_robin_5.min(hash_5) >= 0.1,
            "servers stand still for 3 % of the time in this model, which gives the 15 ms of A11, and take as long again to catch \
             up; see the control",
        ),
        Claim::new(
            "A12",
            "more than 60 % find nobody, under these four",
            "> 60 %",
            format!("least {}", percent(least_idle)),
            least_idle > 0.6,
            "at 600 calls/s four servers of 300 calls/s are busy half of the time, so that a policy that doesn't look \
             can't find an idle one more often than that; see the control",
        ),
        Claim::new(
            "A12",
            "response times add up to at least 3 times as much under Hash as under TLWL",
            "TLWL 40,761 ms, TJSQ 34,304 ms; Hash 42,000 ms by calls that find 0 or 1 alone",
            format!("TLWL {tlwl_sum:.0} ms, TJSQ {:.0} ms, Hash {hash_sum:.0} ms", of(&sums, "tjsq")),
            ratio(hash_sum, tlwl_sum) >= 3.0,
            "stalls of this length cost the policies that don't look too little",
        ),
    ]
}
