//! What the load driver itself costs, beside SIPp: the same call back to back, no server between, in the same minutes.
//!
//! SIPp plays each end in a process and on a core of its own; the driver plays both on one core.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::driver::Driver;

/// Calls a second of the comparison: what SIPp carries without falling behind.
const RATES: [u32; 2] = [2_000, 8_000];
/// What one core shall carry, and the share of it at which lateness is looked at.
const CARRIES: f64 = 25_000.0;

/// SIPp begins what is due once a millisecond; the driver does so every 200 µs unless told otherwise. A wake-up costs as
/// much as a call, so that a comparison needs one clock.
const SIPP_GRAIN: &str = "1ms";

/// One rate, CPU time of both ends in microseconds a call.
#[derive(Clone, Debug, Serialize)]
struct Pair {
    rate: u32,
    sipp_us: f64,
    /// With SIPp's clock.
    driver_us: f64,
    /// With its own.
    finer_us: f64,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Generator {
    pairs: Vec<Pair>,
    /// Success, share of the core and void at [`CARRIES`].
    carried: f64,
    carried_share: f64,
    carried_void: Vec<String>,
    /// 99th percentile of the lateness at half of that, in milliseconds.
    lateness_p99_ms: f64,
}

impl Generator {
    pub(crate) fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\n| calls/s, both ends, no server | SIPp, µs/call | driver at SIPp's {SIPP_GRAIN}, µs/call | × SIPp | driver at its own 200 µs | × SIPp |\n|---|---|---|---|---|---|"
        );
        for Pair { rate, sipp_us, driver_us, finer_us } in &self.pairs {
            let _ = writeln!(
                text,
                "| {rate} | {sipp_us:.1} | {driver_us:.1} | {:.2} | {finer_us:.1} | {:.2} |",
                driver_us / sipp_us,
                finer_us / sipp_us
            );
        }
        let void = if self.carried_void.is_empty() {
            String::new()
        } else {
            format!(", VOID: {}", self.carried_void.join("; "))
        };
        let _ = writeln!(
            text,
            "\nAt {CARRIES} calls a second the driver uses {:.0} % of its core ({:.3} % succeeded{void}); at half of that its lateness p99 is {:.2} ms.",
            self.carried_share * 100.0,
            self.carried * 100.0,
            self.lateness_p99_ms
        );
    }
}

/// Takes `length` for each of the runs.
pub(crate) fn measure(driver: &Driver, server_core: usize, length: Duration) -> Result<Generator> {
    let number = |report: &Value, name: &str| report.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let mut pairs = Vec::new();
    for rate in RATES {
        let sipp_us = sipp(driver.core, server_core, rate, length)?;
        let us = |report: &Value| number(report, "generator_us_per_attempt");
        let driver_us = us(&alone(driver, f64::from(rate), length, &["--grain", SIPP_GRAIN])?);
        let finer_us = us(&alone(driver, f64::from(rate), length, &[])?);
        let pair = Pair { rate, sipp_us, driver_us, finer_us };
        println!(
            "generator {rate:>6} calls/s: SIPp {sipp_us:.1} us a call, driver {driver_us:.1}, at its own grain {finer_us:.1}"
        );
        pairs.push(pair);
    }
    let full = alone(driver, CARRIES, length, &[])?;
    let half = alone(driver, CARRIES / 2.0, length, &[])?;
    let void = full.get("void").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(Generator {
        pairs,
        carried: number(&full, "success"),
        carried_share: number(&full, "generator_cpu_share"),
        carried_void: void.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        lateness_p99_ms: half.get("lateness").map_or(0.0, |lateness| number(lateness, "p99_us")) / 1e3,
    })
}

/// Both ends of the driver against each other.
fn alone(driver: &Driver, rate: f64, length: Duration, options: &[&str]) -> Result<Value> {
    let callee = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let rate = rate.to_string();
    let length = format!("{}s", length.as_secs_f64());
    let args = [
        "stone",
        "outbound",
        "--target",
        &callee,
        "--callee",
        &callee,
        "--in-dialog",
        "target",
        "--rate",
        &rate,
        "--for",
        &length,
    ];
    let args: Vec<String> = args.iter().chain(options).map(|&arg| arg.to_owned()).collect();
    driver.call(&args)
}

/// SIPp's two ends: their CPU time together, in microseconds a call.
fn sipp(caller_core: usize, callee_core: usize, rate: u32, length: Duration) -> Result<f64> {
    let [near, far] =
        [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?].map(|socket| socket.local_addr());
    let (near, far) = (near?, far?);
    let calls = (f64::from(rate) * length.as_secs_f64()).round();
    let mut uas = start(callee_core, &format!("-sn uas -i 127.0.0.1 -p {}", far.port()))?;
    std::thread::sleep(Duration::from_millis(300));
    let options =
        format!("-sn uac {far} -i 127.0.0.1 -p {} -r {rate} -m {calls} -l 100000 -d 0 -nr", near.port());
    let mut uac = start(caller_core, &options)?;
    let tick = Duration::from_millis(20);
    let mut patience = length * 4 + Duration::from_secs(10);
    let mut caller_us = 0.0;
    while uac.try_wait()?.is_none() && !patience.is_zero() {
        caller_us = used(uac.id()).unwrap_or(caller_us);
        std::thread::sleep(tick);
        patience = patience.saturating_sub(tick);
    }
    let callee_us = used(uas.id()).context("SIPp's answering end is gone")?;
    for child in [&mut uac, &mut uas] {
        let _ = child.kill();
        child.wait()?;
    }
    ensure!(caller_us > 0.0, "SIPp's calling end ended at once");
    Ok((caller_us + callee_us) / calls)
}

fn start(core: usize, options: &str) -> Result<Child> {
    let child = Command::new("taskset")
        .args(["-c", &core.to_string(), "sipp"])
        .args(options.split(' '))
        .arg("-nostdin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.context("taskset or sipp is missing: `make setup-bench` installs them")
}

/// CPU time, user and system, that a process has used, in microseconds.
fn used(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let Some(nanos) = text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()) else {
        bail!("/proc/{pid}/schedstat: no number in `{text}`");
    };
    Ok(nanos / 1e3)
}
