//! The same with real processes: `tandem lab server` behind `tandem serve` with a pool, driven by `tandem stone`.
//!
//! Everything is on loopback and ends by itself. The servers are the model's, in processes that wait instead of work
//! ([`server`]): what is real is the node, the load tool, the kernel and their timing.

pub(crate) mod server;

use core::net::SocketAddr;
use core::time::Duration;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

use crate::bench::Bench;
use crate::clock::Clock;
use crate::experiments::ratio;
use crate::finding::{Claim, Finding, Table};

const POLICIES: [&str; 3] = ["tlwl", "round-robin", "hash"];
/// Calls a second that each server carries.
const CAPACITIES: [f64; 4] = [300.0, 300.0, 300.0, 150.0];
const LOADS: [f64; 2] = [0.4, 0.8];
const STALL_EVERY_S: f64 = 10.0;

/// Why real processes could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RealError {
    /// The system refused.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
    /// A node did not come up, or the load tool did not end well.
    #[error("{0}")]
    Failed(String),
}

/// A process of ours, which ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder of ours, which goes with this.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What of the load tool's result is shown.
#[derive(Deserialize)]
struct Report {
    success: f64,
    void: Vec<String>,
    setup: Times,
    bye: Times,
}

#[derive(Deserialize)]
struct Times {
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Does it.
///
/// # Errors
///
/// [`RealError`]: something of the system's, mostly.
pub(crate) fn run(bench: &Bench<'_>, program: Option<&Path>) -> Result<Finding, RealError> {
    let seconds = if bench.is_quick() { 8 } else { 20 };
    let own = std::env::current_exe().map_err(|error| RealError::System("our own program", error))?;
    let program = program.unwrap_or(&own);
    let folder = Folder(std::env::temp_dir().join(format!("tandem-lab-{}", std::process::id())));
    std::fs::create_dir(&folder.0)
        .map_err(|error| RealError::System("a folder for temporary files", error))?;
    let all: f64 = CAPACITIES.iter().sum();
    let mut table = Table::new(
        "Real processes",
        &["policy", "calls/s", "success %", "INVITE mean ms", "p50", "p99", "BYE mean ms", "generator"],
    );
    let mut found = Vec::new();
    for policy in POLICIES {
        let ports = free_ports(CAPACITIES.len() + 1)?;
        let (&node_at, servers_at) =
            ports.split_first().ok_or_else(|| RealError::Failed("no port is free".into()))?;
        let servers = start_servers(bench, &own, servers_at)?;
        let node = start_node(program, &folder.0, policy, node_at, servers_at)?;
        for load in LOADS {
            let rate = load * all;
            let report = offer(bench, program, node_at, rate, seconds)?;
            let ms = |micros: f64| format!("{:.2}", micros / 1e3);
            bench.say(&format!("real: {policy} at {rate:.0}: {} ms", ms(report.setup.mean_us)));
            table.row(vec![
                policy.to_owned(),
                format!("{rate:.0}"),
                format!("{:.3}", report.success * 100.0),
                ms(report.setup.mean_us),
                ms(report.setup.p50_us),
                ms(report.setup.p99_us),
                ms(report.bye.mean_us),
                if report.void.is_empty() { "in time".to_owned() } else { report.void.join("; ") },
            ]);
            found.push((policy, load, report));
        }
        drop((node, servers));
    }
    let of = |policy: &str, load: f64| {
        let found = found.iter().find(|(of, at, _)| *of == policy && *at == load);
        found.map_or((0.0, 0.0), |(_, _, report)| (report.success, report.setup.mean_us / 1e3))
    };
    let mut claims = Vec::new();
    for load in LOADS {
        let (success, tlwl) = of("tlwl", load);
        let blind = ["round-robin", "hash"].map(|policy| of(policy, load));
        let least = blind.iter().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
        let most = blind.iter().map(|(success, _)| *success).fold(0.0, f64::max);
        claims.push(Claim::new(
            "A11",
            format!("at {:.0} % of capacity TLWL answers in half the time of round robin and Hash, and no less surely", load * 100.0),
            "the same order",
            format!(
                "{tlwl:.1} ms against {least:.1} ms ({:.1} x); {:.3} % and {:.3} %",
                ratio(least, tlwl),
                success * 100.0,
                most * 100.0
            ),
            tlwl * 2.0 <= least && success >= most,
            "the run was short and the machine's own delays are in all figures; the column `generator` says whether it kept up",
        ));
    }
    Ok(Finding {
        name: "real",
        question: "do real processes show the same order?".into(),
        setup: vec![format!(
            "{} servers of {CAPACITIES:?} calls/s (unknown to the pool), each a process that waits as long as the model works \
             and stands still for 0.6 to 1.2 s about every {STALL_EVERY_S} s; a node with health checks and failover off; \
             {seconds} s a rate, holds 4 s / 2 s, 10 s to answer. No cgroup is used.",
            CAPACITIES.len()
        )],
        claims,
        tables: vec![table],
        plots: Vec::new(),
        took_s: 0,
    })
}

/// Ports of loopback that nobody has at the moment.
fn free_ports(count: usize) -> Result<Vec<SocketAddr>, RealError> {
    let failed = |error| RealError::System("a port on loopback", error);
    let sockets: Vec<UdpSocket> =
        (0..count).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<_, _>>().map_err(failed)?;
    sockets.iter().map(UdpSocket::local_addr).collect::<Result<_, _>>().map_err(failed)
}

fn start_servers(bench: &Bench<'_>, program: &Path, at: &[SocketAddr]) -> Result<Vec<Process>, RealError> {
    let start = |((seed, listen), capacity): ((u64, &SocketAddr), &f64)| {
        let child = Command::new(program)
            .args(["lab", "server", "--listen", &listen.to_string(), "--capacity", &capacity.to_string()])
            .args(["--stall-every", &STALL_EVERY_S.to_string(), "--seed", &seed.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let mut server = Process(child.map_err(|error| RealError::System("tandem lab server", error))?);
        wait_for(&mut server, *listen)
            .map_err(|why| RealError::Failed(format!("tandem lab server at {listen} {why}")))?;
        Ok(server)
    };
    (bench.seed..).zip(at).zip(&CAPACITIES).map(start).collect()
}

fn start_node(
    program: &Path,
    folder: &Path,
    policy: &str,
    at: SocketAddr,
    servers: &[SocketAddr],
) -> Result<Process, RealError> {
    let folder = folder.join(policy);
    let destinations: Vec<String> = servers
        .iter()
        .enumerate()
        .map(|(number, address)| format!("  {{ id = \"s{number}\", address = \"{address}\" }},\n"))
        .collect();
    let config = format!(
        "[[listen]]\nuri = \"udp:{at}\"\n\n[[pool]]\npolicy = \"{policy}\"\ndestinations = [\n{}]\nprobe_interval = \
         \"0s\"\npassive_fall = 0\nslow_start = \"0s\"\ntries_max = 1\n\n[auth]\nchallenge = \"never\"\n",
        destinations.concat()
    );
    let failed = |error| RealError::System("a node's folder", error);
    std::fs::create_dir(&folder).map_err(failed)?;
    std::fs::write(folder.join("tandem.toml"), config).map_err(failed)?;
    let log = std::fs::File::create(folder.join("log")).map_err(failed)?;
    let child = Command::new(program)
        .args(["serve", "-c", "tandem.toml"])
        .current_dir(&folder)
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    let mut node = Process(child.map_err(|error| RealError::System("tandem serve", error))?);
    wait_for(&mut node, at).map_err(|why| {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        RealError::Failed(format!("tandem serve {why}:\n{log}"))
    })?;
    Ok(node)
}

/// Asks until it answers, for 20 s at most.
fn wait_for(node: &mut Process, at: SocketAddr) -> Result<(), String> {
    let clock = Clock::start();
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Duration::from_millis(200))).map_err(|error| error.to_string())?;
    let own = socket.local_addr().map_err(|error| error.to_string())?;
    let mut buffer = [0; 2048];
    for number in 1_u32.. {
        if clock.elapsed() > Duration::from_secs(20) {
            break;
        }
        if let Ok(Some(status)) = node.0.try_wait() {
            return Err(format!("ended with {status}"));
        }
        let question = format!(
            "OPTIONS sip:{at} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKlab{number}\r\nFrom: \
             <sip:lab@{own}>;tag=lab\r\nTo: <sip:{at}>\r\nCall-ID: lab{number}@{own}\r\nCSeq: {number} OPTIONS\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        let is_sent = socket.send_to(question.as_bytes(), at).is_ok();
        if is_sent && socket.recv_from(&mut buffer).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("does not answer".to_owned())
}

fn offer(
    bench: &Bench<'_>,
    program: &Path,
    target: SocketAddr,
    rate: f64,
    seconds: u64,
) -> Result<Report, RealError> {
    let output = Command::new(program)
        .args([
            "stone",
            "uac",
            "--no-register",
            "--json",
            "--quiet",
            "--retransmit",
            "rfc3261",
            "--within",
            "10s",
        ])
        .args(["--domain", "pool.example", "--hold", "normal:4,2", "--lateness-max", "50ms"])
        .args(["--target", &format!("sip:{target}"), "--rate", &rate.to_string()])
        .args(["--for", &format!("{}s", seconds + 5), "--warm-up", "5s", "--seed", &bench.seed.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| RealError::System("tandem stone", error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        RealError::Failed(format!("tandem stone ended with {} ({error}): {said}", output.status))
    })
}
