//! A13, A8: two nodes, one of them half as fast.

use tandem_balance::Mistake;

use super::{of, ratio};
use crate::bench::Bench;
use crate::finding::{Claim, Control, Finding, Table};
use crate::model::Server;
use crate::peak;

const POLICIES: [&str; 6] = ["tlwl", "tjsq", "cjsq", "round-robin", "hash", "fnv"];
const KNOWING: [&str; 5] = ["tlwl", "tjsq", "cjsq", "round-robin", "hash"];

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let mut jobs: Vec<(&'static str, bool, bool)> = Vec::new();
    for has_stalls in [true, false] {
        jobs.extend(POLICIES.iter().map(|&policy| (policy, false, has_stalls)));
        jobs.extend(KNOWING.iter().map(|&policy| (policy, true, has_stalls)));
    }
    let peaks = bench.each(&jobs, |&(policy, knows, has_stalls)| {
        let mut run = bench.run(0, policy, bench.profile(1.0, bench.hold()));
        run.servers = [1.0, 0.5].map(|speed| server(speed, knows)).to_vec();
        if !has_stalls {
            run.model.stalls = None;
        }
        let peak = peak::find(&run, bench.tolerance() / 2.0)?;
        bench.say(&format!(
            "heterogeneous: {policy}, capacity known: {knows}, stalls: {has_stalls}: {:.0} calls/s",
            peak.rate
        ));
        Ok(peak.rate)
    })?;
    let ideal = 1.5 * bench.model.costs.capacity();
    let mut table = Table::new(
        "Peak throughput of a node and one of half its speed",
        &["policy", "capacity", "stalls", "peak calls/s", "of ideal"],
    );
    let of_kind = |knows: bool, stalls: bool| -> Vec<(&str, f64)> {
        let these = jobs
            .iter()
            .zip(&peaks)
            .filter(|((_, known, has_stalls), _)| (*known, *has_stalls) == (knows, stalls));
        these.map(|((policy, _, _), peak)| (*policy, *peak)).collect()
    };
    for ((policy, knows, has_stalls), peak) in jobs.iter().zip(&peaks) {
        table.row(vec![
            (*policy).to_owned(),
            if *knows { "known" } else { "unknown" }.to_owned(),
            if *has_stalls { "yes" } else { "none" }.to_owned(),
            format!("{peak:.0}"),
            format!("{:.2}", peak / ideal),
        ]);
    }
    Ok(Finding {
        name: "heterogeneous",
        question: "what do two nodes carry, one of which is half as fast?".into(),
        setup: vec![
            "Capacity 300 and 150 calls/s; the balancer is told nothing, or told both (A8): as capacity for what compares \
             loads, as weights for the others. With pauses and stalls."
                .into(),
        ],
        claims: claims(&of_kind(false, true), &of_kind(true, true), ideal),
        controls: controls([&of_kind(false, true), &of_kind(false, false), &of_kind(true, false)]),
        tables: vec![table],
        plots: Vec::new(),
        took_s: 0,
    })
}

fn server(speed: f64, knows: bool) -> Server {
    let (capacity, weight) = match (knows, speed < 1.0) {
        (false, _) => (None, 1),
        (true, false) => (Some(300), 2),
        (true, true) => (Some(150), 1),
    };
    Server { speed, capacity, weight, ..Server::default() }
}

/// Claims against servers that never stand still: capacities unknown with stalls, then without, then known without.
fn controls([stalls, unknown, known]: [&[(&str, f64)]; 3]) -> Vec<Control> {
    let blind = |list: &[(&str, f64)]| {
        ["round-robin", "hash", "fnv"].map(|name| of(list, name)).into_iter().fold(0.0, f64::max)
    };
    let tlwl = of(unknown, "tlwl");
    let gains: Vec<String> = ["tlwl", "tjsq", "round-robin", "hash", "cjsq"]
        .map(|name| format!("{name} {:.0} -> {:.0}", of(unknown, name), of(known, name)))
        .to_vec();
    let cjsq = ratio(of(known, "cjsq"), of(unknown, "cjsq"));
    vec![
        Control::new(
            "A13",
            "stalls are what keeps TLWL's lead below 1.6: without them it is that much",
            "servers that never stand still",
            format!(
                "{:.2} ({tlwl:.0} and {:.0}), with stalls {:.2}; a faultless policy's lead over an even split is 450 / 300 = 1.5",
                ratio(tlwl, blind(unknown)),
                blind(unknown),
                ratio(of(stalls, "tlwl"), blind(stalls))
            ),
            tlwl >= 1.6 * blind(unknown),
        ),
        Control::new(
            "A8",
            "CJSQ gains less than 1.2 by capacities because it counts calls, not because of stalls: it gains less without stalls too",
            "servers that never stand still",
            format!("CJSQ x {cjsq:.2}; {}", gains.join(", ")),
            cjsq < 1.2,
        ),
    ]
}

fn claims(unknown: &[(&str, f64)], known: &[(&str, f64)], ideal: f64) -> Vec<Claim> {
    let (tlwl, tjsq) = (of(unknown, "tlwl"), of(unknown, "tjsq"));
    let blind = ["round-robin", "hash", "fnv"].map(|name| of(unknown, name)).into_iter().fold(0.0, f64::max);
    let best_known = ["tlwl", "tjsq"].map(|name| of(known, name)).into_iter().fold(f64::INFINITY, f64::min);
    let list = ["round-robin", "hash", "cjsq"]
        .map(|name| format!("{name} {:.0} -> {:.0}", of(unknown, name), of(known, name)));
    let all_gain =
        ["round-robin", "hash", "cjsq"].into_iter().all(|name| of(known, name) >= of(unknown, name) * 1.2);
    vec![
        Claim::new(
            "A13",
            "TLWL and TJSQ carry 0.85 of the ideal without knowing capacities",
            "TLWL 438, TJSQ 411 of about 450 (0.97, 0.91)",
            format!(
                "TLWL {tlwl:.0}, TJSQ {tjsq:.0} of {ideal:.0} ({:.2}, {:.2})",
                tlwl / ideal,
                tjsq / ideal
            ),
            tlwl.min(tjsq) >= 0.85 * ideal,
            "with two servers there is only one other to go to while one stands still, and a stall of a second is then a \
             second of overload for it",
        ),
        Claim::new(
            "A13",
            "TLWL carries 1.6 times as much as round robin, Hash and FNV",
            "> 1.6",
            format!("{:.2} ({tlwl:.0} and {blind:.0})", ratio(tlwl, blind)),
            tlwl >= 1.6 * blind,
            "an even split carries twice what the slower server does, 300, and a faultless policy 450: more than 1.5 means that those \
             that don't look fall short of 300 themselves, as the paper's did (438 / 1.6 = 274); see the control",
        ),
        Claim::new(
            "A8",
            "told the capacities, TLWL and TJSQ carry no less, and round robin, Hash and CJSQ 1.2 times as much",
            "-",
            format!("TLWL, TJSQ at least {best_known:.0}; {}", list.join(", ")),
            best_known >= 0.95 * tlwl.min(tjsq) && all_gain,
            "CJSQ gains too little beside stalls, which a pair of servers has nobody to catch for; without them it gains enough, as \
             the control shows",
        ),
    ]
}
