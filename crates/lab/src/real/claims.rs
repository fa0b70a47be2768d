//! What is claimed of real processes.

use super::{COUNT, Found, SHARE};
use crate::experiments::ratio;
use crate::finding::Claim;

const LATE: &str = "the load tool was late in a run that decides this, so that it says nothing";

/// The claims that these results allow.
pub(super) fn of(found: &[Found]) -> Vec<Claim> {
    let mut claims = Vec::new();
    if found.iter().any(|found| found.layout == 0) {
        even(&pick(found, 0), &mut claims);
    }
    let uneven = found.iter().map(|found| found.layout).filter(|&halves| halves > 0 && halves < COUNT).max();
    if let Some(halves) = uneven {
        halved(&pick(found, halves), halves, &mut claims);
    }
    claims
}

fn pick(found: &[Found], layout: usize) -> Vec<&Found> {
    found.iter().filter(|found| found.layout == layout).collect()
}

fn peak(found: &[&Found], policy: &str) -> f64 {
    found.iter().find(|found| found.policy == policy).map_or(0.0, |found| found.peak)
}

fn ms(found: &[&Found], policy: &str) -> f64 {
    found.iter().find(|found| found.policy == policy).map_or(0.0, |found| found.response.setup_ms())
}

fn even(found: &[&Found], claims: &mut Vec<Claim>) {
    let stands = found.iter().all(|found| !found.is_doubtful);
    let (tlwl, hash) = (peak(found, "tlwl"), peak(found, "hash"));
    let best = found.iter().map(|found| found.peak).fold(0.0, f64::max);
    let listed: Vec<String> =
        found.iter().map(|found| format!("{} {:.0}", found.policy, found.peak)).collect();
    claims.push(Claim::new(
        "A10",
        "real, equal servers: no policy carries more than TLWL (a step of the search, 8 %, aside)",
        "TLWL highest",
        listed.join(", "),
        stands && tlwl >= 0.92 * best,
        if stands { "the runs were short" } else { LATE },
    ));
    claims.push(Claim::new(
        "A10",
        "real, equal servers: TLWL carries at least 1.2 x Hash",
        "2439 / 1954 = 1.25",
        format!("{tlwl:.0} / {hash:.0} = {:.2}", ratio(tlwl, hash)),
        stands && tlwl >= 1.2 * hash,
        if stands {
            "these servers never stand still for longer than their quota's period; `peak` shows that servers without stalls \
             carry the same under all policies"
        } else {
            LATE
        },
    ));
    response("equal servers", found, claims);
}

fn halved(found: &[&Found], halves: usize, claims: &mut Vec<Claim>) {
    let stands = found.iter().all(|found| !found.is_doubtful);
    let ideal = found.first().map_or(0.0, |found| found.ideal);
    let (tlwl, tjsq) = (peak(found, "tlwl"), peak(found, "tjsq"));
    let blind = peak(found, "round-robin").max(peak(found, "hash"));
    let name = format!("{halves} of {COUNT} at half speed");
    claims.push(Claim::new(
        "A13",
        format!("real, {name}: TLWL and TJSQ carry 0.85 of the ideal without knowing capacities"),
        "TLWL 438, TJSQ 411 of about 450 (0.97, 0.91)",
        format!("TLWL {tlwl:.0}, TJSQ {tjsq:.0} of {ideal:.0} ({:.2}, {:.2})", tlwl / ideal, tjsq / ideal),
        stands && tlwl.min(tjsq) >= 0.85 * ideal,
        if stands { "the ideal is what one alone carries in as short a run" } else { LATE },
    ));
    claims.push(Claim::new(
        "A13",
        format!("real, {name}: TLWL carries 1.3 times as much as round robin and Hash"),
        "> 1.6; what can be had is 1.5",
        format!("{:.2} ({tlwl:.0} and {blind:.0})", ratio(tlwl, blind)),
        stands && tlwl >= 1.3 * blind,
        if stands { "the runs were short" } else { LATE },
    ));
    response(&name, found, claims);
}

fn response(name: &str, found: &[&Found], claims: &mut Vec<Claim>) {
    let stands = found.iter().all(|found| found.response.void.is_empty());
    let few = ms(found, "tlwl").max(ms(found, "tjsq"));
    let (blind, cjsq) = (ms(found, "round-robin").min(ms(found, "hash")), ms(found, "cjsq"));
    let of_ideal = format!("{:.0} %", SHARE * 100.0);
    claims.push(Claim::new(
        "A11",
        format!("real, {name}: at {of_ideal} of the ideal TLWL and TJSQ answer INVITEs in half the time of round robin and Hash"),
        "2 ms and 15 ms at 8 %; two orders of magnitude near the peak",
        format!("{few:.1} ms and {blind:.1} ms ({:.1} x)", ratio(blind, few)),
        stands && few * 2.0 <= blind,
        if stands { "an answering end that uses its quota up in most periods at any load (column `out of quota`), as SIPp does, lets \
             requests wait for the next period whoever chose it" } else { LATE },
    ));
    claims.push(Claim::new(
        "A11",
        format!("real, {name}: at {of_ideal} of the ideal CJSQ answers no faster than TLWL and TJSQ"),
        "2 ms and 15 ms at 8 %",
        format!("{few:.1} ms and {cjsq:.1} ms"),
        stands && cjsq >= few,
        if stands {
            "short holds: a call is mostly its two transactions here, and counting them the same"
        } else {
            LATE
        },
    ));
}
