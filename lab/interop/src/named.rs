//! BIND's `named`: a name server of the laboratory's own, with one zone that changes, which may be killed and started
//! again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Lab, Port, Running};

/// How long it may take to do what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `named` that knows one zone and asks nobody.
#[derive(Debug)]
pub struct Named {
    port: Port,
    dir: PathBuf,
    zone: String,
    serial: u32,
    running: Running,
}

impl Named {
    /// Starts one with these records, a line each, in `zone`; they hold for `ttl` seconds.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start(lab: &Lab, zone: &str, ttl: u32, records: &[String]) -> Self {
        let port = Port::free();
        let dir = lab.dir().join("named");
        let path = dir.display();
        lab.write(
            "named/named.conf",
            &format!(
                "options {{ directory \"{path}\"; pid-file \"{path}/named.pid\"; session-keyfile none;\n\
                 listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n\
                 recursion no; dnssec-validation no; notify no; }};\n\
                 controls {{ }};\n\
                 zone \"{zone}\" {{ type primary; file \"zone\"; }};\n"
            ),
        );
        write_zone(&dir, zone, 1, ttl, records);
        let running = run(&dir);
        Self { port, dir, zone: zone.to_owned(), serial: 1, running }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.v4()
    }

    /// Gives the zone other records.
    ///
    /// # Panics
    ///
    /// If it does not take them.
    pub fn set(&mut self, ttl: u32, records: &[String]) {
        self.serial += 1;
        write_zone(&self.dir, &self.zone, self.serial, ttl, records);
        let pid = std::fs::read_to_string(self.dir.join("named.pid")).expect("named wrote its pid file");
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a pid file has a pid");
        // It alone: `timeout` before it would take a hang-up for the end.
        kill_process(pid, Signal::HUP).expect("named runs");
        let loaded = format!("loaded serial {}", self.serial);
        self.running.wait_until("it has the new zone", PATIENCE, |log| log.contains(&loaded));
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.running.signal(Signal::KILL);
        let _ = self.running.wait_exit(PATIENCE);
    }

    /// Starts it again after [`Named::kill`], on the same port, with these records.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    pub fn start_again(&mut self, ttl: u32, records: &[String]) {
        self.serial += 1;
        write_zone(&self.dir, &self.zone, self.serial, ttl, records);
        self.running = run(&self.dir);
    }
}

fn write_zone(dir: &std::path::Path, zone: &str, serial: u32, ttl: u32, records: &[String]) {
    let text = format!(
        "$TTL {ttl}\n@ IN SOA ns.{zone}. admin.{zone}. {serial} 60 60 60 {ttl}\n@ IN NS ns\nns IN A 127.0.0.1\n{}\n",
        records.join("\n")
    );
    std::fs::write(dir.join("zone"), text).expect("the laboratory's directory is writable");
}

fn run(dir: &std::path::Path) -> Running {
    let mut running = Running::start(dir, "named", "named", |command| {
        command.args(["-4", "-g", "-n", "1", "-c"]).arg(dir.join("named.conf"));
        // Debian keeps daemons where a user's path does not look.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    });
    running.wait_until("it serves", PATIENCE, |log| log.contains(": running") || log.contains(" running\n"));
    running
}
