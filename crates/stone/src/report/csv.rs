//! The result as CSV, with the column names of SIPp's `-trace_stat` where the notion is the same.
//!
//! SIPp separates by semicolons; scripts that read its files find their columns by name. Those that we have no value
//! for are left out, and ours come last.

use core::fmt::Write;

use super::Report;

/// The run second by second: `(P)` columns are of the second, `(C)` columns since the start.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = String::from(
        "ElapsedTime(C);TargetRate;CallRate(P);CallRate(C);OutgoingCall(P);OutgoingCall(C);TotalCallCreated;\
         CurrentCall;SuccessfulCall(P);SuccessfulCall(C);FailedCall(P);FailedCall(C);\
         ResponseTime1P50us(P);ResponseTime1P99us(P);GeneratorCpu(P)\n",
    );
    let (mut begun, mut succeeded, mut failed) = (0_u64, 0_u64, 0_u64);
    for point in &report.series {
        begun += point.started;
        succeeded += point.succeeded;
        failed += point.failed;
        let elapsed = point.second + 1;
        #[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
        let mean = begun as f64 / elapsed as f64;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:02}:{:02}:{:02}:000;{};{};{mean:.3};{};{begun};{begun};{};{};{succeeded};{};{failed};{};{};{:.3}",
            elapsed / 3600,
            elapsed / 60 % 60,
            elapsed % 60,
            report.rate,
            point.started,
            point.started,
            point.open,
            point.succeeded,
            point.failed,
            point.p50_us,
            point.p99_us,
            point.cpu,
        );
    }
    text
}

/// Runs at several rates, one line each.
#[must_use]
pub fn rates_csv(reports: &[Report]) -> String {
    let mut text = String::from(
        "rate,success,success_rate,bhca,setup_p50_us,setup_p99_us,setup_p9999_us,bye_p99_us,lateness_p99_us,\
         generator_us_per_attempt,server_us_per_attempt,server_cpu_share,retransmissions,void\n",
    );
    for r in reports {
        let _ = writeln!(
            text,
            "{},{:.6},{:.3},{:.0},{},{},{},{},{},{:.3},{:.3},{:.4},{},{}",
            r.rate,
            r.success,
            r.success_rate,
            r.bhca,
            r.first().p50_us,
            r.first().p99_us,
            r.first().p9999_us,
            r.bye.p99_us,
            r.lateness.p99_us,
            r.generator_us_per_attempt,
            r.server_us_per_attempt,
            r.server_cpu_share,
            r.counts.retransmissions,
            if r.stands() { "no" } else { "yes" },
        );
    }
    text
}
