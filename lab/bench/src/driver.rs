//! The load driver: `tandem stone` in a process of its own, on a core of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde_json::Value;

use crate::kinds::{Job, PAUSES};
use crate::server::Server;

/// How many users call and are called.
const USERS: &str = "1000";

/// Where it is and where it runs.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) tandem: PathBuf,
    pub(crate) core: usize,
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) job: Job,
    /// Attempts a second, in an open loop.
    pub(crate) rate: f64,
    /// Load that is not measured.
    pub(crate) warm_up: Duration,
    /// Load that is.
    pub(crate) window: Duration,
}

/// What one run said.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sample {
    /// Attempts a second that were offered.
    pub(crate) rate: f64,
    /// Share of them that ended as they should, within two seconds.
    pub(crate) success: f64,
    /// CPU time of the server, user and system, all its processes, in microseconds an attempt.
    pub(crate) server_us: f64,
    /// The driver's own, for both ends of a call.
    pub(crate) driver_us: f64,
    /// Median and 99th percentile of the time to the final answer, in milliseconds.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Why the run says nothing about the server; empty if it does.
    pub(crate) void: Vec<String>,
}

impl Sample {
    pub(crate) fn remark(&self) -> String {
        if self.void.is_empty() { String::new() } else { format!("  VOID: {}", self.void.join("; ")) }
    }
}

impl Driver {
    /// Runs one load against `server`.
    pub(crate) fn run(&self, server: &Server, load: &Load) -> Result<Sample> {
        let seconds = |time: Duration| format!("{}s", time.as_secs_f64());
        let mut args = vec!["stone".to_owned(), load.job.workload().to_owned()];
        let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
        add("--target", format!("sip:{}", server.addr));
        add("--users", USERS.to_owned());
        add("--rate", load.rate.to_string());
        add("--for", seconds(load.warm_up + load.window));
        add("--warm-up", seconds(load.warm_up));
        let callees: Vec<_> = server.callees.iter().map(ToString::to_string).collect();
        add("--callee", callees.join(","));
        // A driver at its end falls behind without limit; a neighbour on a shared machine costs tens of milliseconds.
        add("--lateness-max", "100ms".to_owned());
        add("--pid", server.pid().to_string());
        if server.subject.is_forwarder() {
            add("--in-dialog", "target".to_owned());
        }
        if server.subject.is_sharded() {
            args.push("--no-trains".to_owned()); // the kernel steers by the first message of a train
        }
        if server.subject.is_forwarder() || load.job.is_balanced() {
            args.push("--no-register".to_owned());
        }
        if load.job == Job::Pauses {
            args.extend(["--hold".to_owned(), PAUSES.to_owned()]);
        }
        let report = self.call(&args)?;
        let number = |name: &str| report.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let setup = match load.job {
            Job::Proxy200 | Job::Balance | Job::Pauses => report.get("setup"),
            Job::Register => report.get("single").and_then(|single| single.get("register")),
        };
        let latency =
            |name: &str| setup.and_then(|s| s.get(name)).and_then(Value::as_f64).unwrap_or(0.0) / 1e3;
        let void = report
            .get("void")
            .and_then(Value::as_array)
            .map(|reasons| reasons.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>());
        Ok(Sample {
            rate: load.rate,
            success: number("success"),
            server_us: number("server_us_per_attempt"),
            driver_us: number("generator_us_per_attempt"),
            p50_ms: latency("p50_us"),
            p99_ms: latency("p99_us"),
            void: void.unwrap_or_default(),
        })
    }

    /// Runs `tandem ARGS --json` on the driver's core and reads its report. The exit status is not looked at: a void or
    /// failed run has a report as well.
    pub(crate) fn call(&self, args: &[String]) -> Result<Value> {
        let output = Command::new("taskset")
            .args(["-c", &self.core.to_string()])
            .arg(&self.tandem)
            .args(args)
            .args(["--json", "--quiet"])
            .stdin(Stdio::null())
            .output()
            .context("taskset is missing: `make setup-bench` installs it")?;
        let text = String::from_utf8_lossy(&output.stdout);
        match serde_json::from_str(text.trim()) {
            Ok(report) => Ok(report),
            Err(error) => bail!(
                "tandem {}: no report ({error}); it said:\n{text}{}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }
}
