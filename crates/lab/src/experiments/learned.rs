//! B9: weights that TLWL learns, where an INVITE does not cost 1.75 times as much as a BYE.

use tandem_balance::{MethodWeights, Mistake};

use super::ratio;
use crate::bench::Bench;
use crate::figures::Figures;
use crate::finding::{Claim, Control, Finding, Table};
use crate::model::Run;
use crate::peak;
use crate::world::simulate;

/// What an INVITE costs, a BYE being 1.
const RATIOS: [u32; 3] = [1, 4, 10];
const LOADS: [f64; 2] = [0.5, 0.9];
/// The learned ratio may be this many times too high or too low.
const OFF_MAX: f64 = 1.25;
/// Response times with learned weights against those with the right ones.
const SLOWER_MAX: f64 = 1.05;

/// Where the weights come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weights {
    /// 1.75 : 1.
    Default,
    /// What the servers' work costs.
    Right,
    /// From response times, within 1 : 16 and 16 : 1.
    Learned,
    /// The same within the default bound, 1 : 4 and 4 : 1.
    Bounded,
}

impl Weights {
    const fn name(self) -> &'static str {
        match self {
            Self::Default => "1.75 : 1",
            Self::Right => "right",
            Self::Learned => "learned, bound 16",
            Self::Bounded => "learned, bound 4",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Job {
    /// What an INVITE costs.
    cost: u32,
    weights: Weights,
}

/// What was found at one ratio with one kind of weights.
struct Found {
    at: Vec<Figures>,
    peak: f64,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let mut jobs = Vec::new();
    for cost in RATIOS {
        jobs.extend(
            [Weights::Default, Weights::Right, Weights::Learned].map(|weights| Job { cost, weights }),
        );
    }
    jobs.push(Job { cost: 10, weights: Weights::Bounded });
    let all = bench.each(&jobs, |job| {
        let run = one(bench, *job);
        let at = |load: f64| {
            let mut run = run.clone();
            run.profile.rate = load * run.capacity();
            simulate(&run)
        };
        let at = LOADS.iter().map(|&load| at(load)).collect::<Result<Vec<_>, _>>()?;
        let peak = peak::find(&run, bench.tolerance())?.rate;
        let shown =
            at.last().map_or((0.0, 0.0), |figures| (figures.invite_to_bye, figures.invite_times.mean_ms()));
        bench.say(&format!(
            "learned: {}:1, {}: weighs {:.2}, {:.3} ms, peak {peak:.0}",
            job.cost,
            job.weights.name(),
            shown.0,
            shown.1
        ));
        Ok(Found { at, peak })
    })?;
    let found: Vec<(&Job, &Found)> = jobs.iter().zip(&all).collect();
    Ok(Finding {
        name: "learned",
        question: "what are learned weights worth where an INVITE costs something else than 1.75 BYEs?".into(),
        setup: vec![
            "8 nodes that never stand still, since stalls hide what weights do; a call costs the same in all runs, and only \
             its parts differ. With pauses. The weight is the balancer's at the end of the run, which begins with 1.75 : 1."
                .into(),
        ],
        claims: RATIOS.iter().flat_map(|&cost| claims(cost, &found)).collect(),
        controls: vec![control(bench)?],
        tables: vec![table(&found)],
        plots: Vec::new(),
        took_s: 0,
    })
}

fn one(bench: &Bench<'_>, job: Job) -> Run {
    let policy =
        if matches!(job.weights, Weights::Default | Weights::Right) { "tlwl" } else { "tlwl-learned" };
    let mut run = bench.run(8, policy, bench.profile(1.0, bench.hold()));
    run.model.stalls = None;
    run.model.costs.invite_to_bye = f64::from(job.cost);
    match job.weights {
        Weights::Default | Weights::Bounded => {}
        Weights::Learned => run.policy.learned_bound = 16,
        Weights::Right => run.policy.weights = MethodWeights::invite(job.cost * 1000),
    }
    run
}

/// The ratio that is learned where a response time is service and nothing else.
fn control(bench: &Bench<'_>) -> Result<Control, Mistake> {
    const CALM: f64 = 0.05;
    let learned = bench.each(&RATIOS, |&cost| {
        let mut run = one(bench, Job { cost, weights: Weights::Learned });
        run.model.one_way = core::time::Duration::ZERO;
        run.profile.rate = CALM * run.capacity();
        let weight = simulate(&run)?.invite_to_bye;
        bench.say(&format!("learned, control: {cost}:1 weighs {weight:.2}"));
        Ok(weight)
    })?;
    let is_near = |(&cost, &weight): (&u32, &f64)| {
        let cost = f64::from(cost);
        weight <= cost * OFF_MAX && weight * OFF_MAX >= cost
    };
    let listed: Vec<String> =
        RATIOS.iter().zip(&learned).map(|(cost, weight)| format!("{cost} : 1 as {weight:.2}")).collect();
    Ok(Control::new(
        "B9",
        "waiting and the wire draw the learned ratio towards 1: without them it is within 25 % of the true one",
        "5 % load, no time on the wire",
        listed.join(", "),
        RATIOS.iter().zip(&learned).all(is_near),
    ))
}

fn table(found: &[(&Job, &Found)]) -> Table {
    let mut table = Table::new(
        "Learned weights",
        &[
            "INVITE : BYE",
            "weights",
            "weighs at 50 %",
            "INVITE mean ms at 50 %",
            "weighs at 90 %",
            "INVITE mean ms at 90 %",
            "p99",
            "BYE mean ms",
            "peak calls/s",
        ],
    );
    for (job, found) in found {
        let mut row = vec![format!("{} : 1", job.cost), job.weights.name().to_owned()];
        for figures in &found.at {
            row.push(format!("{:.2}", figures.invite_to_bye));
            row.push(format!("{:.3}", figures.invite_times.mean_ms()));
        }
        if let Some(figures) = found.at.last() {
            row.push(format!("{:.2}", figures.invite_times.quantile_ms(0.99)));
            row.push(format!("{:.3}", figures.bye_times.mean_ms()));
        }
        row.push(format!("{:.0}", found.peak));
        table.row(row);
    }
    table
}

fn claims(cost: u32, found: &[(&Job, &Found)]) -> Vec<Claim> {
    let of = |weights: Weights, value: fn(&Found) -> f64| {
        let one = found.iter().find(|(job, _)| job.cost == cost && job.weights == weights);
        one.map_or(0.0, |(_, found)| value(found))
    };
    let weight = |at: usize| {
        let learned = found.iter().find(|(job, _)| job.cost == cost && job.weights == Weights::Learned);
        learned.and_then(|(_, found)| found.at.get(at)).map_or(0.0, |figures| figures.invite_to_bye)
    };
    let busy: fn(&Found) -> f64 =
        |found| found.at.last().map_or(0.0, |figures| figures.invite_times.mean_ms());
    let [default, right, learned] =
        [Weights::Default, Weights::Right, Weights::Learned].map(|one| of(one, busy));
    let peaks = [Weights::Default, Weights::Right, Weights::Learned].map(|one| of(one, |found| found.peak));
    let [_, right_peak, learned_peak] = peaks;
    let right_ratio = f64::from(cost);
    let is_near = |weight: f64| weight <= right_ratio * OFF_MAX && weight * OFF_MAX >= right_ratio;
    vec![
        Claim::new(
            "B9",
            format!(
                "{cost} : 1: the learned ratio ends within 25 % of the true one, at 50 % and at 90 % load"
            ),
            "not measured",
            format!("{:.2} and {:.2}", weight(0), weight(1)),
            is_near(weight(0)) && is_near(weight(1)),
            "an answer's time is service, waiting and the wire; a BYE waits behind INVITEs and has to go where its call is, and the \
             wire adds the same to both, so that the ratio is drawn towards 1, and below; see the control",
        ),
        Claim::new(
            "B9",
            format!(
                "{cost} : 1: learned weights answer INVITEs within 5 % of the right ones' time, at 90 % load, and carry no less \
                 than 0.95"
            ),
            "not measured",
            format!(
                "{learned:.3} and {right:.3} ms ({:.2}), 1.75 : 1 {default:.3} ms; peaks {learned_peak:.0} and {right_peak:.0}",
                ratio(learned, right)
            ),
            learned <= right * SLOWER_MAX && learned_peak >= 0.95 * right_peak,
            "the learned ratio is off by what the line above says",
        ),
    ]
}
