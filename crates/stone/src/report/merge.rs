//! Several reports of one load, from several processes or hosts, put together.

use std::collections::BTreeMap;

use super::{Point, Report};
use crate::audit::{Limits, audit};
use crate::run::Roles;
use crate::times::Times;

/// One report of all; counts are added, latencies merged, and both ends judged against each other.
///
/// `void` names the parts that were void, each with its place in `parts`.
#[must_use]
pub fn merge_reports(parts: &[Report], limits: &Limits) -> Report {
    let mut whole = parts.iter().find(|part| part.counts.intended > 0).cloned().unwrap_or_default();
    let mut times = Times::default();
    let mut points: BTreeMap<u64, Point> = BTreeMap::new();
    whole.counts = Default::default();
    whole.judged = Default::default();
    whole.callee = Default::default();
    whole.unexpected = Default::default();
    whole.void = Vec::new();
    for value in [
        &mut whole.rate,
        &mut whole.generator_cpu_seconds,
        &mut whole.process_cpu_seconds,
        &mut whole.server_cpu_seconds,
        &mut whole.server_cpu_share,
    ] {
        *value = 0.0;
    }
    (whole.threads, whole.receive_drops, whole.send_drops, whole.setup_failed, whole.unfinished) =
        (0, 0, 0, 0, 0);
    for (place, part) in parts.iter().enumerate() {
        times.merge(&part.times);
        whole.counts.merge(&part.counts);
        whole.judged.merge(&part.judged);
        whole.callee.merge(&part.callee);
        whole.unexpected.merge(&part.unexpected);
        whole.threads += part.threads;
        whole.receive_drops += part.receive_drops;
        whole.send_drops += part.send_drops;
        whole.setup_failed += part.setup_failed;
        whole.unfinished += part.unfinished;
        whole.generator_cpu_seconds += part.generator_cpu_seconds;
        whole.process_cpu_seconds += part.process_cpu_seconds;
        whole.generator_cpu_share = whole.generator_cpu_share.max(part.generator_cpu_share);
        whole.on_seconds = whole.on_seconds.max(part.on_seconds);
        whole.took_seconds = whole.took_seconds.max(part.took_seconds);
        whole.registration_seconds = whole.registration_seconds.max(part.registration_seconds);
        if part.counts.intended > 0 {
            whole.rate += part.rate;
            // Every part watches the same processes over the same time.
            whole.server_cpu_seconds = whole.server_cpu_seconds.max(part.server_cpu_seconds);
            whole.server_cpu_share = whole.server_cpu_share.max(part.server_cpu_share);
        }
        whole.void.extend(part.void.iter().map(|reason| format!("part {place}: {reason}")));
        for point in &part.series {
            add(points.entry(point.second).or_default(), point);
        }
    }
    whole.series = points.into_values().collect();
    whole.derive(&times);
    #[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
    if whole.judged.started > 0 {
        whole.server_us_per_attempt = whole.server_cpu_seconds * 1e6 / whole.judged.started as f64;
    }
    whole.times = times;
    let roles = if whole.callee.received > 0 { Roles::Both } else { Roles::Caller };
    for reason in audit(&whole, roles, limits) {
        if reason.contains("disagree") || whole.void.is_empty() {
            whole.void.push(reason);
        }
    }
    whole
}

#[expect(clippy::cast_precision_loss, reason = "counts of one second fit a double")]
fn add(sum: &mut Point, point: &Point) {
    let (old, new) = (sum.started as f64, point.started as f64);
    if old + new > 0.0 {
        sum.p50_us = (sum.p50_us * old + point.p50_us * new) / (old + new); // near enough for a plot
    }
    sum.p99_us = sum.p99_us.max(point.p99_us);
    sum.second = point.second;
    sum.started += point.started;
    sum.succeeded += point.succeeded;
    sum.failed += point.failed;
    sum.open += point.open;
    sum.cpu += point.cpu;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_and_a_handler_make_one_whole_that_is_judged_together() {
        let mut loader = Report { rate: 50.0, seconds: 2.0, ..Report::default() };
        loader.counts.intended = 100;
        loader.counts.started = 100;
        loader.counts.invites = 100;
        loader.judged = loader.counts;
        loader.judged.succeeded = 100;
        loader.counts.answered = 100;
        loader.counts.ended = 100;
        loader.counts.byes = 100;
        let mut handler = Report::default();
        handler.callee.received = 300;
        handler.callee.invites = 200;
        handler.callee.acks = 200;
        handler.callee.byes = 200;
        let whole = merge_reports(&[loader.clone(), loader.clone(), handler.clone()], &Limits::default());
        assert!(whole.stands(), "{:?}", whole.void);
        assert_eq!((whole.judged.succeeded, whole.success, whole.rate), (200, 1.0, 100.0));
        handler.callee.byes = 150;
        assert!(!merge_reports(&[loader.clone(), loader, handler], &Limits::default()).stands());
    }
}
