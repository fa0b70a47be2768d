//! The same with real processes: capped answering ends behind `tandem serve` with a pool, driven by `tandem stone`.
//!
//! Everything is on loopback and ends by itself, after a signal too. Each rate is tried with processes that were
//! started for it, so that nothing of an overload is left in the next.

mod cgroup;
mod claims;
mod process;
pub(crate) mod server;
mod stop;
mod uas;

use core::cell::Cell;
use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

pub use uas::UasKind;

use crate::bench::Bench;
use crate::finding::{Finding, Table};
use cgroup::Groups;
use process::{Folder, Process, free_ports};
use stop::Stop;
use uas::Make;

const POLICIES: [&str; 5] = ["tlwl", "tjsq", "cjsq", "hash", "round-robin"];
/// Answering ends behind the balancer.
const COUNT: usize = 4;
/// What a slower one gets of a whole one's CPU.
const HALF: f64 = 0.5;
/// Response times are compared at this part of what all could carry.
const SHARE: f64 = 0.6;
/// The part of calls that must be answered in time.
const SUCCESS: f64 = 0.9999;
/// What an answer may take.
const WITHIN: &str = "1s";
/// Tries of a rate that the load tool could not keep.
const TRIES: usize = 3;

/// Why real processes could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RealError {
    /// The system refused.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
    /// A node did not come up, or the load tool did not end well.
    #[error("{0}")]
    Failed(String),
    /// The CPU can't be capped.
    #[error(
        "can't cap a CPU by a cgroup ({0}): run it as root or as `systemd-run --user --scope -p Delegate=yes tandem lab \
         balancer real`, or give `--uas model`, which needs none"
    )]
    NoGroups(String),
    /// A signal came.
    #[error("interrupted; what was started is ended, and its cgroups are removed")]
    Interrupted,
}

/// What may be chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The program whose `serve` and `stone` are run; ours if not given.
    pub(crate) program: Option<PathBuf>,
    pub(crate) uas: UasKind,
    /// Percent of one CPU that an answering end gets.
    pub(crate) cap_percent: f64,
    /// So many get half of that; both none and two of four if not given.
    pub(crate) halves: Option<usize>,
}

/// What of the load tool's result is needed.
#[derive(Clone, Deserialize)]
struct Report {
    success: f64,
    void: Vec<String>,
    setup: Times,
    bye: Times,
    /// The node's, of one CPU.
    server_cpu_share: f64,
    generator_cpu_share: f64,
    /// Periods in which answering ends ran, and in which they used their quota up.
    #[serde(skip)]
    periods: (u64, u64),
}

#[derive(Clone, Deserialize)]
struct Times {
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Report {
    fn is_good(&self) -> bool {
        self.success >= SUCCESS
    }

    fn setup_ms(&self) -> f64 {
        self.setup.mean_us / 1e3
    }
}

/// A policy's result in front of these answering ends.
struct Found {
    layout: usize,
    policy: &'static str,
    peak: f64,
    ideal: f64,
    /// At [`SHARE`] of the ideal.
    response: Report,
    /// A rate counts as too high though the load tool was late.
    is_doubtful: bool,
}

struct Lab<'a> {
    bench: &'a Bench<'a>,
    make: Make<'a>,
    trials: Cell<u64>,
}

/// Does it.
///
/// # Errors
///
/// [`RealError`]: something of the system's, mostly.
pub(crate) fn run(bench: &Bench<'_>, options: &Options) -> Result<Finding, RealError> {
    let stop = Stop::on_signal();
    let own = std::env::current_exe().map_err(|error| RealError::System("our own program", error))?;
    let groups = options.uas.is_capped().then(Groups::find).transpose()?;
    let folder = Folder::make()?;
    let cap = (options.cap_percent / 100.0).clamp(0.001, 1.0);
    let lab = Lab {
        bench,
        make: Make {
            kind: options.uas,
            cap,
            groups: groups.as_ref(),
            own: &own,
            program: options.program.as_deref().unwrap_or(&own),
            folder: &folder.0,
            seed: bench.seed,
            stop: &stop,
        },
        trials: Cell::new(0),
    };
    let mut trials = Table::new(
        "Every rate tried",
        &["servers", "policy", "calls/s", "success %", "INVITE mean ms", "generator"],
    );
    let single = lab.single(&mut trials)?;
    let layouts: Vec<usize> =
        options.halves.map_or_else(|| vec![0, COUNT / 2], |halves| vec![halves.min(COUNT)]);
    let mut found = Vec::new();
    for &halves in &layouts {
        for policy in POLICIES {
            found.push(lab.policy(halves, policy, single, &mut trials)?);
        }
    }
    let capped = if options.uas.is_capped() {
        format!("each with {:.1} % of a CPU by a cgroup's quota", cap * 100.0)
    } else {
        "each a process that waits as long as the model works, without a cgroup".to_owned()
    };
    Ok(Finding {
        name: "real",
        question: "do real processes show the same order?".into(),
        setup: vec![format!(
            "{COUNT} answering ends ({}), {capped}, a slower one with half of that, behind a node with health checks and \
             failover off that knows no capacities; `tandem stone uac`, holds {}, {} s judged, {} % within {WITHIN}. One \
             alone carries {single:.0} calls/s; the ideal is that many for each, half for a slower one.",
            options.uas.name(),
            lab.hold().replace("normal:", "normal "),
            lab.seconds().1,
            SUCCESS * 100.0
        )],
        claims: claims::of(&found),
        controls: Vec::new(),
        tables: vec![table(&found), trials],
        plots: Vec::new(),
        took_s: 0,
    })
}

fn table(found: &[Found]) -> Table {
    let mut table = Table::new(
        "Real processes",
        &[
            "servers",
            "policy",
            "peak calls/s",
            "of ideal",
            "then at",
            "success %",
            "INVITE mean ms",
            "p50",
            "p99",
            "BYE mean ms",
            "out of quota %",
            "node CPU %",
            "stone CPU %",
            "generator",
        ],
    );
    for one in found {
        let ms = |micros: f64| format!("{:.2}", micros / 1e3);
        let response = &one.response;
        let (ran, throttled) = response.periods;
        #[expect(clippy::cast_precision_loss, reason = "some thousand periods")]
        let throttled = if ran == 0 { 0.0 } else { throttled as f64 / ran as f64 };
        table.row(vec![
            layout(one.layout),
            one.policy.to_owned(),
            format!("{}{:.0}", if one.is_doubtful { ">= " } else { "" }, one.peak),
            format!("{:.2}", one.peak / one.ideal),
            format!("{:.0}", SHARE * one.ideal),
            format!("{:.3}", response.success * 100.0),
            ms(response.setup.mean_us),
            ms(response.setup.p50_us),
            ms(response.setup.p99_us),
            ms(response.bye.mean_us),
            format!("{:.1}", throttled * 100.0),
            format!("{:.1}", response.server_cpu_share * 100.0),
            format!("{:.1}", response.generator_cpu_share * 100.0),
            generator(response),
        ]);
    }
    table
}

fn generator(report: &Report) -> String {
    if report.void.is_empty() { "in time".to_owned() } else { format!("VOID: {}", report.void.join("; ")) }
}

fn layout(halves: usize) -> String {
    if halves == 0 { format!("{COUNT} equal") } else { format!("{} + {halves} half", COUNT - halves) }
}

fn shares(halves: usize) -> Vec<f64> {
    (0..COUNT).map(|number| if number < COUNT - halves { 1.0 } else { HALF }).collect()
}

impl Lab<'_> {
    /// Warm-up and judged time.
    fn seconds(&self) -> (u64, u64) {
        if self.bench.is_quick() { (2, 6) } else { (5, 20) }
    }

    fn hold(&self) -> &'static str {
        if self.bench.is_quick() { "normal:1,0.5" } else { "normal:4,2" }
    }

    /// What one answering end alone carries, without a balancer.
    fn single(&self, trials: &mut Table) -> Result<f64, RealError> {
        let mut is_carried = |rate: f64| {
            let report = self.trial(&[1.0], None, rate, 1)?;
            self.note(trials, "1", "none", rate, &report);
            Ok::<_, RealError>(report.is_good())
        };
        let mut good = 0.0;
        let mut bad = 100.0;
        while is_carried(bad)? {
            good = bad;
            bad *= 2.0;
            if bad > 20_000.0 {
                return Err(RealError::Failed(
                    "one answering end alone carries 20,000 calls/s: give a smaller `--cap`".into(),
                ));
            }
        }
        while good > 0.0 && bad - good > 0.05 * good {
            let rate = f64::midpoint(good, bad);
            if is_carried(rate)? { good = rate } else { bad = rate }
        }
        if good == 0.0 {
            return Err(RealError::Failed(
                "one answering end alone does not carry 100 calls/s: give a larger `--cap`, or an idle machine".into(),
            ));
        }
        Ok(good)
    }

    /// A policy's peak, then response times at a part of the ideal.
    fn policy(
        &self,
        halves: usize,
        policy: &'static str,
        single: f64,
        trials: &mut Table,
    ) -> Result<Found, RealError> {
        let shares = shares(halves);
        let ideal = single * shares.iter().sum::<f64>();
        let tolerance = if self.bench.is_quick() { 0.06 } else { 0.03 };
        let (mut good, mut bad, mut part, mut is_doubtful) = (0.0, 1.3, 0.85, false);
        while bad - good > tolerance {
            let report = self.trial(&shares, Some(policy), part * ideal, 1)?;
            self.note(trials, &layout(halves), policy, part * ideal, &report);
            if report.is_good() {
                good = part;
            } else {
                bad = part;
                // Only what made the search go down last is in doubt.
                is_doubtful = !report.void.is_empty();
            }
            part = f64::midpoint(good, bad);
        }
        let response = self.trial(&shares, Some(policy), SHARE * ideal, 2)?;
        self.note(trials, &layout(halves), policy, SHARE * ideal, &response);
        Ok(Found { layout: halves, policy, peak: good * ideal, ideal, response, is_doubtful })
    }

    fn note(&self, trials: &mut Table, servers: &str, policy: &str, rate: f64, report: &Report) {
        self.bench.say(&format!(
            "real: {servers}, {policy} at {rate:.0}: {:.3} %, {:.2} ms, {}",
            report.success * 100.0,
            report.setup_ms(),
            generator(report)
        ));
        trials.row(vec![
            servers.to_owned(),
            policy.to_owned(),
            format!("{rate:.0}"),
            format!("{:.3}", report.success * 100.0),
            format!("{:.2}", report.setup_ms()),
            generator(report),
        ]);
    }

    /// Offers a rate, again if the load tool could not keep it and that may have made calls fail or wait; `longer` times
    /// the judged time.
    fn trial(
        &self,
        shares: &[f64],
        policy: Option<&str>,
        rate: f64,
        longer: u64,
    ) -> Result<Report, RealError> {
        let mut report = self.once(shares, policy, rate, longer)?;
        for _ in 1..TRIES {
            let counts = longer > 1 || !report.is_good();
            if report.void.is_empty() || !counts {
                break;
            }
            report = self.once(shares, policy, rate, longer)?;
        }
        Ok(report)
    }

    fn once(
        &self,
        shares: &[f64],
        policy: Option<&str>,
        rate: f64,
        longer: u64,
    ) -> Result<Report, RealError> {
        let number = self.trials.replace(self.trials.get() + 1);
        let ports = free_ports(shares.len() + 1)?;
        let Some((&node_at, servers_at)) = ports.split_first() else {
            return Err(RealError::Failed("no port is free".into()));
        };
        let servers = self.make.start(shares, servers_at)?;
        let node = policy.map(|policy| self.node(number, policy, node_at, servers_at)).transpose()?;
        let target = if node.is_some() { Some(node_at) } else { servers_at.first().copied() };
        let periods = || servers.iter().map(uas::Uas::periods).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        let before = periods();
        let mut report = self.offer(target.unwrap_or(node_at), node.as_ref(), rate, longer, number)?;
        let after = periods();
        report.periods = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        Ok(report)
    }

    fn node(
        &self,
        number: u64,
        policy: &str,
        at: SocketAddr,
        servers: &[SocketAddr],
    ) -> Result<Process, RealError> {
        let folder = self.make.folder.join(format!("node{number}"));
        let destinations: Vec<String> = (0..)
            .zip(servers)
            .map(|(number, address): (u32, _)| {
                format!("  {{ id = \"s{number}\", address = \"{address}\" }},\n")
            })
            .collect();
        let config = format!(
            "[[listen]]\nuri = \"udp:{at}\"\n\n[[pool]]\npolicy = \"{policy}\"\ndestinations = [\n{}]\nprobe_interval = \
             \"0s\"\npassive_fall = 0\nslow_start = \"0s\"\ntries_max = 1\n\n[auth]\nchallenge = \"never\"\n",
            destinations.concat()
        );
        let failed = |error| RealError::System("a node's folder", error);
        std::fs::create_dir(&folder).map_err(failed)?;
        std::fs::write(folder.join("tandem.toml"), config).map_err(failed)?;
        let mut command = Command::new(self.make.program);
        command.args(["serve", "-c", "tandem.toml"]);
        let mut node = Process::start("tandem serve", &mut command, &folder, "node")?;
        node.wait_until_answering(at, self.make.stop)?;
        Ok(node)
    }

    fn offer(
        &self,
        target: SocketAddr,
        node: Option<&Process>,
        rate: f64,
        longer: u64,
        number: u64,
    ) -> Result<Report, RealError> {
        let (warm_up, judged) = self.seconds();
        let length = warm_up + judged * longer;
        let mut command = Command::new(self.make.program);
        command
            .args(["stone", "uac", "--no-register", "--json", "--quiet", "--domain", "pool.example"])
            .args(["--retransmit", "rfc3261", "--within", WITHIN, "--lateness-max", "20ms"])
            .args(["--hold", self.hold(), "--target", &format!("sip:{target}"), "--rate", &rate.to_string()])
            .args(["--for", &format!("{length}s"), "--warm-up", &format!("{warm_up}s")])
            // Another seed each time: Call-IDs that an answering end has seen are repetitions to it.
            .args(["--seed", &(self.bench.seed * 1000 + number).to_string()]);
        if let Some(node) = node {
            command.args(["--pid", &node.id().to_string()]);
        }
        let label = format!("stone{number}");
        let mut stone = Process::start("tandem stone", &mut command, self.make.folder, &label)?;
        let status = stone.finish(Duration::from_secs(length + 120), self.make.stop)?;
        let said = std::fs::read_to_string(self.make.folder.join(format!("{label}.out"))).unwrap_or_default();
        serde_json::from_str(&said).map_err(|error| stone.failed(&format!("ended with {status} ({error})")))
    }
}
