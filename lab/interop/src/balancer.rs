//! A balancer in front of servers: `tandem serve` with one pool, which may be killed and started again.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::{Lab, Port, Running, tandem_binary};

/// How long it may take to do what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The key of what it signs and hashes: the same in every run, so that a user's home is the same too.
const SECRET: &str = "5ac2e75ac2e75ac2e75ac2e75ac2e75ac2e75ac2e75ac2e75ac2e75ac2e75ac2";

/// A running balancer.
#[derive(Debug)]
pub struct Balancer {
    port: Port,
    admin: Port,
    config: PathBuf,
    dir: PathBuf,
    running: Running,
}

impl Balancer {
    /// Starts one with these lines in its `[[pool]]`, before servers `d0`, `d1` and so on.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start(lab: &Lab, pool: &str, servers: &[SocketAddr]) -> Self {
        let (port, admin) = (Port::free(), Port::free());
        let mut text = format!(
            "domains = [\"balancer.invalid\"]\n[[listen]]\nuri = \"udp:{}\"\n[node]\nshards = 2\n\
             [auth]\nsecret = \"{SECRET}\"\n[store]\ndurability = \"memory\"\n[admin]\nlisten = \"{}\"\n[[pool]]\n{pool}\ndestinations = [\n",
            port.v4(),
            admin.v4()
        );
        for (n, server) in servers.iter().enumerate() {
            let _ = writeln!(text, "  {{ id = \"d{n}\", address = \"{server}\" }},");
        }
        text.push_str("]\n");
        let config = lab.write("balancer/tandem.toml", &text);
        let dir = lab.dir().join("balancer");
        let running = run(&dir, &config, admin.v4());
        Self { port, admin, config, dir, running }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.v4()
    }

    /// SIGKILL, and a start anew: its table is empty.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    pub fn kill_and_start(&mut self) {
        self.running.signal(Signal::KILL);
        let _ = self.running.wait_exit(PATIENCE);
        self.running = run(&self.dir, &self.config, self.admin.v4());
    }

    /// The sum of a metric over all lines with this label.
    #[must_use]
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        sum(&get(self.admin.v4(), "/metrics").unwrap_or_default(), name, label)
    }

    /// Waits until a metric is as wanted.
    ///
    /// # Panics
    ///
    /// If that does not come.
    pub fn wait_metric(&mut self, name: &str, label: &str, wanted: impl Fn(u64) -> bool) {
        let admin = self.admin.v4();
        self.running.wait_until(&format!("{name} {label}"), PATIENCE, |_| {
            get(admin, "/metrics").is_some_and(|text| wanted(sum(&text, name, label)))
        });
    }
}

fn run(dir: &std::path::Path, config: &std::path::Path, admin: SocketAddr) -> Running {
    let mut running = Running::start(dir, "tandem", &tandem_binary().display().to_string(), |command| {
        command.arg("serve").arg("-c").arg(config);
    });
    running.wait_until("it is ready", PATIENCE, |_| {
        get(admin, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    });
    running
}

fn get(admin: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(admin).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn sum(text: &str, name: &str, label: &str) -> u64 {
    let is_it = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])) && line.contains(label)
    };
    text.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
