//! A pool whose servers stand in a real name server: BIND's `named` on loopback, SIPp as the servers and the callers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tandem_interop::{Lab, Named, Port, Running, tandem_binary};

const PATIENCE: Duration = Duration::from_secs(60);
const ZONE: &str = "pool.lab";
/// What the records hold for; the pool's own interval is an hour.
const TTL: u32 = 1;

/// A SIPp that answers calls, and its record in the zone.
struct Server {
    name: &'static str,
    port: Port,
    _running: Running,
}

impl Server {
    fn start(lab: &Lab, name: &'static str) -> Self {
        let port = Port::free();
        let running = Running::start(lab.dir(), name, "sipp", |command| {
            command.args(["-sn", "uas", "-i", "127.0.0.1", "-nostdin"]);
            command.args(["-p", &port.to_string()]);
        });
        Self { name, port, _running: running }
    }

    fn id(&self) -> String {
        format!("{}.{ZONE}-{}", self.name, self.port)
    }

    /// The lines that name it in the zone.
    fn records(&self, priority: u16, weight: u16) -> String {
        let Self { name, port, .. } = self;
        format!("_sip._udp IN SRV {priority} {weight} {port} {name}\n{name} IN A 127.0.0.1")
    }
}

/// A balancer whose pool is the zone's service.
struct Balancer {
    sip: Port,
    admin: Port,
    dir: PathBuf,
    running: Running,
}

impl Balancer {
    fn start(lab: &Lab, servers: &Named) -> Self {
        let (sip, admin) = (Port::free(), Port::free());
        let config = lab.write(
            "balancer/tandem.toml",
            &format!(
                "[[listen]]\nuri = \"udp:{}\"\n[node]\nshards = 1\nname_servers = [\"{}\"]\n\
                 [store]\ndurability = \"memory\"\n[admin]\nlisten = \"{}\"\n\
                 [[pool]]\nsrv = [\"_sip._udp.{ZONE}\"]\nsrv_interval = \"1h\"\npolicy = \"round-robin\"\n\
                 probe_interval = \"0s\"\nslow_start = \"0s\"\n",
                sip.v4(),
                servers.addr(),
                admin.v4()
            ),
        );
        let dir = lab.dir().join("balancer");
        let running = Running::start(&dir, "tandem", &tandem_binary().display().to_string(), |command| {
            command.arg("serve").arg("-c").arg(config);
        });
        let mut balancer = Self { sip, admin, dir, running };
        balancer.wait("it is ready", |this| {
            this.get("/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
        });
        balancer
    }

    fn wait(&mut self, what: &str, is_so: impl Fn(&Reach) -> bool) {
        let reach = Reach { admin: self.admin.v4(), dir: self.dir.clone() };
        self.running.wait_until(what, PATIENCE, |_| is_so(&reach));
    }

    /// SIPp calls this often, each call must succeed; what each server got of them. A server that left is not counted.
    fn calls<const N: usize>(&mut self, lab: &Lab, count: u64, servers: [&Server; N]) -> [u64; N] {
        let before = servers.map(|server| self.reach().assigned(server));
        let port = Port::free();
        let mut caller = Running::start(lab.dir(), "caller", "sipp", |command| {
            command.args(["-sn", "uac", "-i", "127.0.0.1", "-nostdin", "-timeout", "90", "-timeout_error"]);
            command.args(["-p", &port.to_string(), "-r", "20"]);
            command.args(["-m", &count.to_string(), &self.sip.v4().to_string()]);
        });
        caller.expect_success(Duration::from_secs(100));
        let so_far = |reach: &Reach| -> u64 {
            servers
                .iter()
                .zip(before)
                .map(|(server, before)| reach.assigned(server).saturating_sub(before))
                .sum()
        };
        self.wait("every call is counted", |reach| so_far(reach) >= count);
        let after: [u64; N] = servers.map(|server| self.reach().assigned(server));
        let mut got = after;
        got.iter_mut().zip(before).for_each(|(got, before)| *got = got.saturating_sub(before));
        got
    }

    fn reach(&self) -> Reach {
        Reach { admin: self.admin.v4(), dir: self.dir.clone() }
    }
}

/// What a running balancer tells.
struct Reach {
    admin: std::net::SocketAddr,
    dir: PathBuf,
}

impl Reach {
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.admin).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn metric(&self, name: &str, label: &str) -> u64 {
        let text = self.get("/metrics").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(label));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }

    /// First requests that a server was chosen for.
    fn assigned(&self, server: &Server) -> u64 {
        self.metric("tandem_pool_occupancy_count{", &format!("destination=\"{}\"", server.id()))
    }

    fn is_stale(&self) -> bool {
        self.metric("tandem_pool_dns_stale", "pool=\"main\"") == 1
    }

    fn listed(&self) -> String {
        let output = Command::new(tandem_binary())
            .args(["ctl", "pool", "list"])
            .current_dir(&self.dir)
            .output()
            .expect("the node's binary starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

#[test]
fn a_pool_follows_the_srv_records_of_a_real_name_server_and_outlives_its_death() {
    let lab = Lab::new("discovery");
    let (a, b, c) = (Server::start(&lab, "a"), Server::start(&lab, "b"), Server::start(&lab, "c"));
    let first = [a.records(10, 60), b.records(10, 20), c.records(20, 0)];
    let mut named = Named::start(&lab, ZONE, TTL, &first);
    let mut balancer = Balancer::start(&lab, &named);
    balancer.wait("all three are listed", |reach| {
        let listed = reach.listed();
        [&a, &b, &c].iter().all(|server| listed.contains(&server.id())) && listed.contains("DNS answers")
    });

    // Three to one by weight, nothing for the priority behind.
    assert_eq!(balancer.calls(&lab, 20, [&a, &b, &c]), [15, 5, 0]);

    // One leaves DNS: the records hold for a second, and calls follow.
    named.set(TTL, &[b.records(10, 20), c.records(20, 0)]);
    balancer.wait("the one that left has left", |reach| {
        !reach.listed().lines().any(|line| line.contains(&a.id()) && line.contains("active"))
    });
    assert_eq!(balancer.calls(&lab, 10, [&a, &b, &c]), [0, 10, 0]);

    // Nobody answers any more: who was named last stays, and is marked.
    named.kill();
    balancer.wait("what DNS said is marked stale", Reach::is_stale);
    assert!(balancer.reach().listed().contains("DNS stale for"), "{}", balancer.reach().listed());
    assert_eq!(balancer.calls(&lab, 10, [&a, &b, &c]), [0, 10, 0]);

    // It is back, and says something new.
    named.start_again(TTL, &[b.records(10, 20), c.records(5, 0)]);
    balancer.wait("DNS answers again, and the new one is first", |reach| {
        let listed = reach.listed();
        !reach.is_stale()
            && listed.contains("DNS answers")
            && listed.lines().any(|line| line.contains(&c.id()) && line.contains("  5  "))
    });
    assert_eq!(balancer.calls(&lab, 10, [&a, &b, &c]), [0, 0, 10]);
}
