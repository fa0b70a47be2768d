//! Was it the target that was measured, or the generator? The answer voids a run, so that nobody believes its figures.

use core::time::Duration;

use crate::report::Report;
use crate::run::Roles;

/// From where on the generator itself counts as the bottleneck.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Highest 99th percentile of the lateness of first requests.
    pub lateness: Duration,
    /// Least share of the intended attempts that must have been begun.
    pub begun: f64,
}

impl Default for Limits {
    /// 10 ms is 0.5 % of SIPstone's two seconds and two orders below T1; 99.9 % begun leaves room for rounding only.
    fn default() -> Self {
        Self { lateness: Duration::from_millis(10), begun: 0.999 }
    }
}

/// Why the run says nothing about the target; empty if it does.
#[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
pub(crate) fn audit(report: &Report, roles: Roles, limits: &Limits) -> Vec<String> {
    let mut reasons = Vec::new();
    let c = &report.counts;
    let s = &report.callee;
    let lateness = report.lateness.p99_us / 1e6;
    if lateness > limits.lateness.as_secs_f64() {
        reasons.push(format!(
            "requests left late: 99th percentile {:.1} ms, limit {:.1} ms",
            lateness * 1e3,
            limits.lateness.as_secs_f64() * 1e3
        ));
    }
    if report.receive_drops > 0 {
        reasons.push(format!(
            "the generator's own receive queues overflowed: {} datagrams lost",
            report.receive_drops
        ));
    }
    if report.send_drops > 0 {
        reasons.push(format!("the generator could not send: {} datagrams lost", report.send_drops));
    }
    if (c.started as f64) < c.intended as f64 * limits.begun {
        reasons.push(format!(
            "only {} of {} intended attempts were begun (table of {} full)",
            c.started, c.intended, c.shed
        ));
    }
    if roles == Roles::Both && report.setup_failed == 0 {
        let mut agree = |what: &str, low: u64, seen: u64, high: u64| {
            if seen < low || seen > high {
                reasons.push(format!("the ends disagree about {what}: answering end {seen}, calling end between {low} and {high}"));
            }
        };
        // A repetition that a target held back until the answering end had forgotten the call opens another there.
        agree("INVITEs", c.answered, s.invites + s.refused, c.invites + c.retransmissions);
        agree("BYEs", c.ended, s.byes, c.byes);
        agree("ACKs", 0, s.acks, s.invites);
    }
    if roles.calls() && c.intended == 0 {
        reasons.push("nothing was sent".to_owned());
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Summary;

    fn fair() -> Report {
        let mut report = Report::default();
        report.counts.intended = 100;
        report.counts.started = 100;
        report.counts.invites = 100;
        report.counts.answered = 98;
        report.counts.byes = 98;
        report.counts.ended = 97;
        report.callee.invites = 99;
        report.callee.acks = 98;
        report.callee.byes = 98;
        report
    }

    #[test]
    fn a_fair_run_stands_and_each_fault_of_the_generator_voids_it() {
        let audit = |report: &Report| audit(report, Roles::Both, &Limits::default()).len();
        assert_eq!(audit(&fair()), 0);
        let spoil: [fn(&mut Report); 6] = [
            |r| r.receive_drops = 1,
            |r| r.send_drops = 1,
            |r| r.lateness = Summary { p99_us: 10_001.0, ..Summary::default() },
            |r| r.counts.started = 99,
            |r| r.callee.invites = 101,
            |r| r.callee.byes = 99,
        ];
        for (place, spoil) in spoil.iter().enumerate() {
            let mut report = fair();
            spoil(&mut report);
            assert_eq!(audit(&report), 1, "fault {place}");
        }
        let mut report = fair();
        report.counts.retransmissions = 1;
        report.callee.invites = 101;
        assert_eq!(audit(&report), 0, "a repetition may have come as a call of its own");
    }
}
