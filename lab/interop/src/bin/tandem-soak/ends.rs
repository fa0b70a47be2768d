//! The processes of a soak: the balancer, its destinations, and those who call.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tandem_interop::{Lab, Port, Running, tandem_binary};

/// What stands behind the balancer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `tandem stone uas`.
    Stone,
    /// SIPp.
    Sipp,
    /// Kamailio with transactions, and a `tandem stone uas` behind it.
    Kamailio,
    /// A Tandem node with transactions, and a `tandem stone uas` behind it.
    Tandem,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stone => "stone",
            Self::Sipp => "sipp",
            Self::Kamailio => "kamailio",
            Self::Tandem => "tandem",
        }
    }

    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let all = [Self::Stone, Self::Sipp, Self::Kamailio, Self::Tandem];
        let found = all.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| "one of stone, sipp, kamailio, tandem".to_owned())
    }
}

/// One destination, which may be killed and started again.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) kind: Kind,
    /// Where the balancer reaches it, by way of its relay.
    pub(crate) relay: SocketAddr,
    pub(crate) port: Port,
    pub(crate) restarts: u16,
    number: u16,
    admin: Port,
    behind: Option<(Port, Running)>,
    running: Option<Running>,
}

impl Destination {
    pub(crate) fn start(lab: &Lab, life: u64, number: u16, kind: Kind, relay: SocketAddr) -> Self {
        let behind = matches!(kind, Kind::Kamailio | Kind::Tandem).then(|| {
            let port = Port::free();
            let running = uas(lab, life, &format!("behind-{number}"), port.v4(), 60_000 + number);
            (port, running)
        });
        let (port, admin) = (Port::free(), Port::free());
        let mut destination = Self { kind, relay, port, restarts: 0, number, admin, behind, running: None };
        destination.again(lab, life);
        destination
    }

    /// Where a Request-URI must point for a node that goes by it.
    pub(crate) fn home(&self) -> Option<SocketAddr> {
        self.behind.as_ref().filter(|_| self.kind == Kind::Tandem).map(|(port, _)| port.v4())
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(rustix::process::Signal::KILL);
        }
        self.restarts += 1;
    }

    /// Starts it on the port that it had.
    pub(crate) fn again(&mut self, lab: &Lab, life: u64) {
        let addr = self.port.v4();
        let name = format!("destination-{}-{}", self.number, self.kind.name());
        let dir = lab.dir().join(&name);
        let behind = self.behind.as_ref().map_or(addr, |(port, _)| port.v4());
        self.running = Some(match self.kind {
            // Another number each time: it must not take an earlier call of its port for one of its own.
            Kind::Stone => uas(lab, life, &name, addr, self.number * 1000 + self.restarts % 1000),
            Kind::Sipp => Running::start_for(life, lab.dir(), &name, "sipp", |command| {
                command.arg("-sf").arg(scenario("soak_answer")).args(["-nostdin", "-skip_rlimit", "-aa"]);
                command.args(["-i", "127.0.0.1", "-p", &addr.port().to_string(), "-l", "100000"]);
            }),
            Kind::Kamailio => {
                lab.write(&format!("{name}/domain.cfg"), "");
                lab.write(&format!("{name}/users.cfg"), "");
                let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/kamailio.cfg");
                let text =
                    std::fs::read_to_string(template).expect("the laboratory has its Kamailio configuration");
                let config = lab.write(&format!("{name}/kamailio.cfg"), &text);
                Running::start_for(life, &dir, "kamailio", "/usr/sbin/kamailio", |command| {
                    command.args(["-DD", "-E", "-x", "tlsf", "-m", "512", "-M", "16", "-b", "4194304"]);
                    command.args(["-l", &format!("udp:{addr}"), "-A", &format!("NEXTHOP=\"sip:{behind}\"")]);
                    command.arg("-f").arg(&config).arg("-Y").arg(&dir).arg("-w").arg(&dir);
                    command.arg("-P").arg(dir.join("kamailio.pid"));
                })
            }
            Kind::Tandem => {
                // It is to be reached by its relay, and knows probes by that.
                let text = format!(
                    "domains = [\"tandem.invalid\"]\n{}[proxy]\nmode = \"stateful\"\n",
                    common(addr, &format!("advertise = \"{}\"\n", self.relay), self.admin.v4(), 1)
                );
                let config = lab.write(&format!("{name}/tandem.toml"), &text);
                node(life, &dir, &config)
            }
        });
    }
}

/// The balancer in front of them.
pub(crate) fn balancer(
    lab: &Lab,
    life: u64,
    addr: SocketAddr,
    admin: SocketAddr,
    policy: &str,
    destinations: &[Destination],
) -> Running {
    let line = |(n, d): (usize, &Destination)| {
        format!("  {{ id = \"{}{n}\", address = \"{}\" }},\n", d.kind.name(), d.relay)
    };
    let lines: String = destinations.iter().enumerate().map(line).collect();
    let text = format!(
        "domains = [\"balancer.invalid\"]\n{}[balancer]\ncall_max = \"1m\"\n\
         [[pool]]\npolicy = \"{policy}\"\nprobe_interval = \"500ms\"\nprobe_timeout = \"300ms\"\nslow_start = \"1s\"\n\
         destinations = [\n{lines}]\n",
        common(addr, "", admin, 2)
    );
    let config = lab.write("balancer/tandem.toml", &text);
    node(life, &lab.dir().join("balancer"), &config)
}

fn common(addr: SocketAddr, more: &str, admin: SocketAddr, shards: u8) -> String {
    format!(
        "[[listen]]\nuri = \"udp:{addr}\"\n{more}[node]\nshards = {shards}\n[auth]\ntrusted = [\"127.0.0.0/8\"]\n\
         [store]\ndurability = \"memory\"\n[admin]\nlisten = \"{admin}\"\n[log]\nlevel = \"warn\"\n"
    )
}

fn node(life: u64, dir: &Path, config: &Path) -> Running {
    Running::start_for(life, dir, "tandem", &tandem_binary().display().to_string(), |command| {
        command.arg("serve").arg("-c").arg(config);
    })
}

fn uas(lab: &Lab, life: u64, name: &str, addr: SocketAddr, handler: u16) -> Running {
    Running::start_for(life, lab.dir(), name, &tandem_binary().display().to_string(), |command| {
        command.args(["stone", "uas", "--callee", &addr.to_string(), "--ring", "200ms", "--quiet"]);
        command.args(["--retransmit", "rfc3261", "--handler", &handler.to_string()]);
    })
}

/// What the callers are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    pub(crate) cancel: f64,
    pub(crate) seed: u64,
}

/// `tandem stone uac`, whose report is its output.
pub(crate) fn caller(
    lab: &Lab,
    life: u64,
    addr: SocketAddr,
    relay: SocketAddr,
    home: &str,
    load: &Load,
) -> Running {
    Running::start_for(life, lab.dir(), "caller", &tandem_binary().display().to_string(), |command| {
        let mut add = |name: &str, value: String| {
            command.args([name, &value]);
        };
        add("stone", "uac".to_owned());
        add("--target", format!("sip:{relay}"));
        add("--caller", addr.to_string());
        add("--in-dialog", "target".to_owned());
        add("--domain", home.to_owned());
        add("--users", "1000".to_owned());
        add("--rate", load.rate.to_string());
        add("--for", format!("{}s", load.seconds));
        add("--hold", "exp:0.5".to_owned());
        add("--cancel", load.cancel.to_string());
        add("--retransmit", "rfc3261".to_owned());
        add("--within", "32s".to_owned());
        add("--seed", load.seed.to_string());
        add("--lateness-max", "10s".to_owned());
        command.args(["--no-register", "--json", "--quiet"]);
    })
}

/// SIPp, whose calls have a re-INVITE.
pub(crate) fn sipp(
    lab: &Lab,
    life: u64,
    addr: SocketAddr,
    relay: SocketAddr,
    home: &str,
    load: &Load,
) -> Running {
    Running::start_for(life, lab.dir(), "sipp", "sipp", |command| {
        let calls = (load.rate * load.seconds).ceil();
        command.arg("-sf").arg(scenario("soak_call")).args(["-nostdin", "-skip_rlimit"]);
        command.args(["-i", &addr.ip().to_string(), "-p", &addr.port().to_string(), "-key", "domain", home]);
        command.args(["-r", &load.rate.ceil().to_string(), "-m", &calls.to_string(), "-l", "100000"]);
        command
            .args(["-recv_timeout", "40000", "-trace_stat", "-fd", "5", "-stf"])
            .arg(lab.dir().join("sipp.csv"));
        command.arg(relay.to_string());
    })
}

fn scenario(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{name}.xml"))
}

/// Keeps `command` from taking the machine from others.
pub(crate) fn politely() {
    // Without it the soak runs as well, only louder.
    let _ = Command::new("renice").args(["-n", "10", "-p", &std::process::id().to_string()]).output();
}
