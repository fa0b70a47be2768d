//! A server under test: started on its core, ready before it is used, ended with all it started.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::kinds::{Job, Subject};

/// The node's binary and the core servers run on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) tandem: PathBuf,
    pub(crate) core: usize,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) subject: Subject,
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    /// Where the answering ends of the load are expected.
    pub(crate) callees: Vec<SocketAddr>,
    /// Where it keeps its files; [`Server::keep`] hands it on.
    dir: PathBuf,
    child: Child,
    kept: bool,
}

static STARTED: AtomicU32 = AtomicU32::new(0);

impl Server {
    /// Starts `subject` and waits until it answers.
    pub(crate) fn start(place: &Place, subject: Subject) -> Result<Self> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tandem-bench-{}-{number}", std::process::id()));
        Self::start_in(place, subject, &dir, "memory")
    }

    /// Starts `subject` with its files in `dir`, where some may be left from an earlier run, and with this durability
    /// if it is the node.
    pub(crate) fn start_in(place: &Place, subject: Subject, dir: &Path, durability: &str) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let addr = free_port()?;
        let callees = (0..subject.callees()).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        // The forwarder is the bar for one core; two shards may use every core there is.
        let mut command = Command::new("taskset");
        if subject.is_sharded() {
            command.args(["-c", &format!("0-{}", std::thread::available_parallelism()?.get() - 1)]);
        } else {
            command.args(["-c", &place.core.to_string()]);
        }
        match subject {
            Subject::Forwarder | Subject::BalanceForwarder => {
                command.arg(&place.tandem).args(["stone", "forwarder"]);
                for callee in &callees {
                    command.args(["--pair", &format!("{addr}={callee}")]);
                }
            }
            Subject::Reflector => {
                command.arg(&place.tandem).args(["stone", "reflector", "--listen", &addr.to_string()]);
            }
            Subject::KamailioStateless
            | Subject::KamailioStateful
            | Subject::KamailioRegistrar
            | Subject::KamailioHash
            | Subject::KamailioCallLoad => kamailio(&mut command, subject, addr, &callees, dir)?,
            Subject::TandemStateless
            | Subject::TandemStateful
            | Subject::TandemRegistrar
            | Subject::TandemStatelessTwo
            | Subject::TandemBalancer
            | Subject::TandemBalancerPauses => {
                let config = dir.join("tandem.toml");
                fs::write(&config, tandem(subject, addr, &callees, free_port()?, durability))?;
                command.arg(&place.tandem).arg("serve").arg("-c").arg(config);
            }
        }
        let log = fs::File::create(dir.join("server.log"))?;
        command.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = command.spawn().context("taskset is missing: `make setup-bench` installs it")?;
        let mut server = Self { subject, addr, callees, dir: dir.to_owned(), child, kept: false };
        server.wait_ready()?;
        Ok(server)
    }

    /// Where the only answering end is expected.
    pub(crate) fn callee(&self) -> SocketAddr {
        self.callees.first().copied().unwrap_or(self.addr)
    }

    /// The process whose CPU time and that of whose children counts.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id() // taskset becomes the server: exec, not fork
    }

    /// Resident memory of the server and all it started, in bytes; what its processes share counts once.
    pub(crate) fn rss(&self) -> Result<u64> {
        let group = self.pid().to_string();
        let mut kib = 0;
        for entry in fs::read_dir("/proc")?.flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((_, after_name)) = stat.rsplit_once(") ") else { continue };
            if after_name.split(' ').nth(2) != Some(&group) {
                continue;
            }
            let smaps = fs::read_to_string(entry.path().join("smaps_rollup")).unwrap_or_default();
            let pss = smaps.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"));
            kib += pss.and_then(|pss| pss.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(kib * 1024)
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("server.log")).unwrap_or_default()
    }

    /// Ends it as an operator would and leaves its files.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.dir.clone()
    }

    fn wait_ready(&mut self) -> Result<()> {
        for _ in 0..2_000 {
            if self.subject.is_bare() {
                // They answer nothing of their own, or answer nobody before a load; a bound port is all there is.
                if UdpSocket::bind(self.addr).is_err() {
                    return Ok(());
                }
            } else if answers(self.addr) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once ({status}):\n{}", self.subject.name(), self.log());
            }
            sleep(Duration::from_millis(10));
        }
        bail!("{} does not come up:\n{}", self.subject.name(), self.log())
    }

    fn end(&mut self) {
        let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        // It may be gone already, which is what is wanted.
        let _ = kill_process_group(group, Signal::TERM);
        for _ in 0..300 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        if !self.kept {
            // A leftover in the temporary directory harms nobody.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn kamailio(
    command: &mut Command,
    subject: Subject,
    addr: SocketAddr,
    callees: &[SocketAddr],
    dir: &Path,
) -> Result<()> {
    let config = dir.join("kamailio.cfg");
    let job = match subject.job() {
        Job::Balance | Job::Pauses => include_str!("../peers/dispatcher.cfg"),
        Job::Proxy200 | Job::Register => include_str!("../peers/kamailio.cfg"),
    };
    fs::write(&config, job)?;
    command.args(["/usr/sbin/kamailio", "-DD", "-x", "tlsf", "-X", "tlsf", "-m", "4096", "-M", "64"]);
    // As much room for what waits to be read as the others take.
    command.args(["-b", "4194304"]);
    command.args(["-l", &format!("udp:{addr}")]).arg("-f").arg(config).arg("-Y").arg(dir).arg("-w").arg(dir);
    command.arg("-P").arg(dir.join("kamailio.pid"));
    if subject == Subject::KamailioStateful {
        command.args(["-A", "STATEFUL"]);
    }
    if subject.job().is_balanced() {
        let line = |(n, callee)| format!("1 sip:{callee} 0 0 duid=d{n}\n");
        fs::write(dir.join("dispatcher.list"), callees.iter().enumerate().map(line).collect::<String>())?;
        command.args(["-A", &format!("DISPATCHER=\"{}\"", dir.join("dispatcher.list").display())]);
    }
    if subject == Subject::KamailioCallLoad {
        command.args(["-A", "CALL_LOAD"]);
    }
    Ok(())
}

/// The node's configuration for the same job: nobody is challenged, nothing waits for a disk.
fn tandem(
    subject: Subject,
    addr: SocketAddr,
    callees: &[SocketAddr],
    admin: SocketAddr,
    durability: &str,
) -> String {
    let mode = if subject.is_stateful() { "stateful" } else { "stateless" };
    let shards = if subject.is_sharded() { 2 } else { 1 };
    let (domain, pool) = if subject.job().is_balanced() {
        let line = |(n, callee)| format!("  {{ id = \"d{n}\", address = \"{callee}\" }},\n");
        let lines: String = callees.iter().enumerate().map(line).collect();
        // The driver's ends answer no probes.
        let pool = format!("\n[[pool]]\nprobe_interval = \"0s\"\ndestinations = [\n{lines}]\n");
        ("balancer.invalid", pool)
    } else {
        ("localhost", String::new())
    };
    format!(
        "domains = [\"{domain}\"]\n\n[[listen]]\nuri = \"udp:{addr}\"\n\n[node]\nshards = {shards}\n\n\
         [proxy]\nmode = \"{mode}\"\n\n[transaction]\nlive_max = 8000000\n\n[auth]\nchallenge = \"never\"\n\n\
         [store]\ndurability = \"{durability}\"\n\n[admin]\nlisten = \"{admin}\"\ndrain = \"0s\"\n\n[log]\nlevel = \"warn\"\n{pool}"
    )
}

/// A port of loopback that is free now.
fn free_port() -> Result<SocketAddr> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?)
}

/// True if a server at `addr` answers OPTIONS.
fn answers(addr: SocketAddr) -> bool {
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { return false };
    let Ok(local) = socket.local_addr() else { return false };
    let request = format!(
        "OPTIONS sip:{addr} SIP/2.0\r\nVia: SIP/2.0/UDP {local};rport;branch=z9hG4bKready{port}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:bench@{local}>;tag=r{port}\r\nTo: <sip:{addr}>\r\n\
         Call-ID: ready-{port}@bench\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
        port = local.port()
    );
    let mut answer = [0; 4096];
    socket.set_read_timeout(Some(Duration::from_millis(100))).is_ok()
        && socket.send_to(request.as_bytes(), addr).is_ok()
        && socket
            .recv(&mut answer)
            .is_ok_and(|length| answer.get(..length).unwrap_or_default().starts_with(b"SIP/2.0 "))
}
