//! The result of a run as a table for a terminal.

use core::fmt;

use super::Report;
use crate::tally::Summary;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let j = &self.judged;
        writeln!(
            f,
            "{} at {} a second to {}, seed {}",
            self.workload,
            round(self.rate),
            self.targets.join(", "),
            self.seed
        )?;
        writeln!(
            f,
            "attempts   {} intended, {} begun, {} succeeded ({:.3} %), {} timed out, {} refused, {} late",
            j.intended,
            j.started,
            j.succeeded,
            self.success * 100.0,
            j.timed_out,
            j.refused,
            j.late
        )?;
        writeln!(f, "carried    {} a second, {} an hour", round(self.success_rate), round(self.bhca))?;
        let c = &self.counts;
        writeln!(
            f,
            "repeated   {} requests, {} answers; {} stragglers",
            c.retransmissions, c.repeated_answers, c.stragglers
        )?;
        if c.cancels > 0 {
            writeln!(f, "cancelled  {} calls, by {} CANCEL", c.cancelled, c.cancels)?;
        }
        if self.callee.received > 0 {
            let a = &self.callee;
            writeln!(
                f,
                "answered   {} INVITE, {} ACK, {} BYE, {} other; {} strayed",
                a.invites, a.acks, a.byes, a.others, a.strayed
            )?;
        }
        writeln!(
            f,
            "\n{:<12}{:>9}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
            "ms", "count", "mean", "p50", "p90", "p99", "p99.99", "max"
        )?;
        for (name, summary) in
            [("INVITE-200", &self.setup), ("INVITE-180", &self.ringing), ("BYE-200", &self.bye)]
        {
            row(f, name, summary)?;
        }
        for (name, summary) in &self.single {
            row(f, name, summary)?;
        }
        row(f, "lateness", &self.lateness)?;
        writeln!(
            f,
            "\ngenerator  {:.1} us of CPU an attempt, both ends; busiest thread {:.1} % of a core; {} datagrams lost",
            self.generator_us_per_attempt,
            self.generator_cpu_share * 100.0,
            self.receive_drops + self.send_drops
        )?;
        if self.server_cpu_seconds > 0.0 {
            writeln!(
                f,
                "server     {:.1} us of CPU an attempt; {:.1} % of a core",
                self.server_us_per_attempt,
                self.server_cpu_share * 100.0
            )?;
        }
        for (name, span) in self.target_spans.iter().filter(|(_, span)| span.count > 0) {
            writeln!(
                f,
                "{name:<10} {:.2} us on average, deviation {:.2}, p50 <= {:.2}, p90 <= {:.2}, p99 <= {:.2}, max <= {:.2}; {} told by the target",
                span.mean_us, span.sd_us, span.p50_us, span.p90_us, span.p99_us, span.max_us, span.count
            )?;
        }
        for (kind, unexpected) in &self.unexpected.0 {
            let first = unexpected.sample.lines().next().unwrap_or_default();
            writeln!(
                f,
                "unexpected {:>9} x {kind}{}{first}",
                unexpected.count,
                if first.is_empty() { "" } else { ": " }
            )?;
        }
        for reason in &self.void {
            writeln!(f, "VOID       {reason}")?;
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, s: &Summary) -> fmt::Result {
    if s.count == 0 {
        return Ok(());
    }
    write!(f, "{name:<12}{:>9}", s.count)?;
    for us in [s.mean_us, s.p50_us, s.p90_us, s.p99_us, s.p9999_us, s.max_us] {
        write!(f, "{:>11.3}", us / 1e3)?;
    }
    writeln!(f)
}

/// Whole numbers where they are large, one decimal where they are small.
fn round(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
