//! From what each thread counted to one report.

use core::time::Duration;

use crate::audit::audit;
use crate::drive::Finished;
use crate::error::StoneError;
use crate::follow::{Points, Watched};
use crate::report::{Point, Report};
use crate::run::Run;
use crate::tally::{CalleeCounts, CallerCounts, Kinds};
use crate::times::Times;

pub(crate) fn merge(
    run: &Run,
    finished: Vec<Finished>,
    points: Points,
    watched: &Watched,
    took: Duration,
    process_cpu: Duration,
) -> Report {
    let mut counts = CallerCounts::default();
    let mut judged = CallerCounts::default();
    let mut answered = CalleeCounts::default();
    let mut unexpected = Kinds::default();
    let mut times = Times::default();
    let (mut drops, mut send_drops, mut setup_failed, mut open) = (0, 0, 0, 0);
    let mut cpu_max = 0.0_f64;
    let mut cpu = Duration::ZERO;
    let mut on = Duration::ZERO;
    for thread in finished {
        drops += thread.net.receive_overflows;
        send_drops += thread.net.send_overflows;
        cpu += thread.cpu;
        on = on.max(thread.on);
        if !thread.on.is_zero() {
            cpu_max = cpu_max.max(thread.cpu.as_secs_f64() / thread.on.as_secs_f64());
        }
        if let Some(uac) = thread.ends.uac {
            open += u64::try_from(uac.attempts()).unwrap_or(u64::MAX);
            setup_failed += u64::from(uac.setup_failed);
            counts.merge(&uac.counts);
            judged.merge(&uac.judged);
            unexpected.merge(&uac.unexpected);
            times.merge(&uac.times);
        }
        for uas in thread.ends.uas {
            answered.merge(&uas.counts);
            unexpected.merge(&uas.unexpected);
        }
    }
    let mut series = points.done;
    series.extend(points.open.iter().map(|(_, _, sum)| Point::of(sum)));
    series.sort_by_key(|point| point.second);
    let mut report = Report {
        tool: format!("tandem stone {}", env!("CARGO_PKG_VERSION")),
        workload: run
            .load
            .mix
            .iter()
            .map(|&(workload, weight)| format!("{}:{weight}", workload.name()))
            .collect::<Vec<_>>()
            .join(","),
        targets: run.load.targets.iter().map(|target| target.addr.to_string()).collect(),
        seed: run.load.seed,
        threads: u64::from(run.threads),
        rate: run.load.ramp.to,
        seconds: (run.load.length - run.load.warm_up).as_secs_f64(),
        on_seconds: on.as_secs_f64(),
        took_seconds: took.as_secs_f64(),
        registration_seconds: watched.registration.as_secs_f64(),
        setup_failed,
        unfinished: open,
        receive_drops: drops,
        send_drops,
        generator_cpu_seconds: cpu.as_secs_f64(),
        generator_cpu_share: cpu_max,
        process_cpu_seconds: process_cpu.as_secs_f64(),
        counts,
        judged,
        callee: answered,
        unexpected,
        series,
        ..Report::default()
    };
    report.derive(&times);
    report.watch(watched.after.saturating_sub(watched.before), watched.on);
    report.target_spans = watched.spans.clone();
    report.times = times;
    report.void = audit(&report, run.roles, &run.limits);
    report
}

pub(crate) fn registered(run: &Run, report: &Report) -> Result<(), StoneError> {
    if report.setup_failed == 0 {
        return Ok(());
    }
    let (kind, sample) = report
        .unexpected
        .0
        .iter()
        .next()
        .map(|(kind, u)| (kind.as_str(), u.sample.as_str()))
        .unwrap_or_default();
    let targets: Vec<String> = run.load.targets.iter().map(|target| target.addr.to_string()).collect();
    let first = sample.lines().next().unwrap_or_default();
    Err(StoneError::Target(format!(
        "{} of {} users could not be registered at {}: {kind}{}{first}",
        report.setup_failed,
        run.load.users.len(),
        targets.join(", "),
        if first.is_empty() { "" } else { "; first answer: " },
    )))
}
