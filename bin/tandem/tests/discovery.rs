//! A balancer whose servers stand in DNS: a name server of the test's own that gains records, dies and comes back.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const SRV: u16 = 33;
const A: u16 = 1;
const SERVICE: &str = "_sip._udp.pool.example.com";

/// Priority, weight, port and target.
type Record = (u16, u16, u16, &'static str);

/// A name server with one service, whose hosts are all 127.0.0.1. Its records hold for a day.
struct NameServer {
    address: SocketAddr,
    records: Arc<Mutex<Vec<Record>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    fn start(address: SocketAddr, records: &[Record]) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let records = Arc::new(Mutex::new(records.to_vec()));
        let stop = Arc::new(AtomicBool::new(false));
        let (zone, ends) = (Arc::clone(&records), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut query = [0; 1500];
            while !ends.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
                socket.send_to(&answer(&query[..length], &zone.lock().unwrap()), from).unwrap();
            }
        });
        Self { address, records, stop, thread: Some(thread) }
    }

    fn set(&self, records: &[Record]) {
        *self.records.lock().unwrap() = records.to_vec();
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// RFC 1035 §4.1, as far as this zone goes.
fn answer(query: &[u8], records: &[Record]) -> Vec<u8> {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] != 0 {
        let label = &query[at + 1..=at + usize::from(query[at])];
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        at += label.len() + 1;
    }
    let name = labels.join(".");
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    let rdata: Vec<Vec<u8>> = match kind {
        SRV if name == SERVICE => records
            .iter()
            .map(|(priority, weight, port, target)| {
                let mut rdata: Vec<u8> =
                    [priority, weight, port].iter().flat_map(|n| n.to_be_bytes()).collect();
                for label in target.split('.').filter(|label| !label.is_empty()) {
                    rdata.push(u8::try_from(label.len()).unwrap());
                    rdata.extend_from_slice(label.as_bytes());
                }
                rdata.push(0);
                rdata
            })
            .collect(),
        A if name.ends_with(".example.com") => vec![vec![127, 0, 0, 1]],
        _ => Vec::new(),
    };
    let count = u16::try_from(rdata.len()).unwrap().to_be_bytes();
    let mut out = query[..2].to_vec();
    out.extend_from_slice(&[0x85, 0x80, 0, 1, count[0], count[1], 0, 0, 0, 0]); // an authoritative answer
    out.extend_from_slice(&query[12..at + 5]);
    for rdata in rdata {
        out.extend_from_slice(&[0xc0, 12]);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0, 1, 0, 1, 0x51, 0x80]); // IN, 86,400 s
        out.extend_from_slice(&u16::try_from(rdata.len()).unwrap().to_be_bytes());
        out.extend_from_slice(&rdata);
    }
    out
}

/// A server of the pool that answers every request with 200 and its own name.
fn serve(name: &'static str) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut request = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut request) {
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            let copied = text.lines().filter(|line| {
                ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name))
            });
            let tagged = copied.map(|line| match line.strip_prefix("To:") {
                Some(to) => format!("To:{to};tag=s\r\n"),
                None => format!("{line}\r\n"),
            });
            let reply = format!(
                "SIP/2.0 200 OK\r\n{}Server: {name}\r\nContent-Length: 0\r\n\r\n",
                tagged.collect::<String>()
            );
            let _ = socket.send_to(reply.as_bytes(), from);
        }
    });
    port
}

/// A running balancer in a directory of its own; both go with it.
struct Node {
    directory: PathBuf,
    child: Child,
    sip: u16,
    admin: u16,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Node {
    fn start(name: &str, servers: SocketAddr, pools: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("tandem-discovery-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let sip = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = format!(
            "[[listen]]\nuri = \"udp:127.0.0.1:{sip}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[node]\nshards = 2\n\
             name_servers = [\"{servers}\"]\n[store]\ndurability = \"memory\"\n{pools}"
        );
        std::fs::write(directory.join("tandem.toml"), text).unwrap();
        let log = std::fs::File::create(directory.join("log")).unwrap();
        let mut command = tandem();
        command.current_dir(&directory).arg("serve").stdout(Stdio::null()).stderr(log);
        let node = Self { child: command.spawn().unwrap(), directory, sip, admin };
        until("the start", || node.http("/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")));
        node
    }

    fn http(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn run(&self, args: &[&str]) -> Output {
        tandem().current_dir(&self.directory).args(args).output().unwrap()
    }

    fn list(&self) -> String {
        let output = self.run(&["ctl", "pool", "list"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap()
    }

    /// Whether `tandem_pool_dns_stale` of the pool is 1.
    fn is_stale(&self, pool: &str) -> bool {
        let metrics = self.http("/metrics").unwrap();
        let mut lines = metrics.lines().filter(|line| line.starts_with("tandem_pool_dns_stale{"));
        let line = lines.find(|line| line.contains(&format!("pool=\"{pool}\""))).unwrap();
        line.ends_with(" 1")
    }

    /// A MESSAGE to `host`: who answered, or the whole answer of the balancer itself.
    fn ask(&self, host: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let text = format!(
            "MESSAGE sip:bob@{host} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK{number}\r\n\
             From: <sip:alice@example.org>;tag={number}\r\nTo: <sip:bob@{host}>\r\nCall-ID: call-{number}\r\n\
             CSeq: 1 MESSAGE\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        let mut answer = [0; 4096];
        for _ in 0..10 {
            socket.send_to(text.as_bytes(), ("127.0.0.1", self.sip)).unwrap();
            if let Ok(length) = socket.recv(&mut answer) {
                let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
                let server = answer.lines().find_map(|line| line.strip_prefix("Server: "));
                return server.filter(|_| answer.starts_with("SIP/2.0 200")).unwrap_or(&answer).to_owned();
            }
        }
        panic!("no answer:\n{}", self.log());
    }

    /// Who answers ten of them.
    fn askers(&self) -> Vec<String> {
        let mut all: Vec<String> = (0..10).map(|_| self.ask("anybody.example.org")).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn tandem() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.env_remove("TANDEM_SOCKET").env_remove("NOTIFY_SOCKET");
    command
}

/// Waits for `what`, for at most a minute.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..1_200 {
        if happened() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} did not happen");
}

const POOL: &str = "policy = \"round-robin\"\nprobe_interval = \"0s\"\nslow_start = \"0s\"\n\
                    srv = [\"_sip._udp.pool.example.com\"]\nsrv_interval = \"1s\"\n";

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[test]
fn calls_follow_dns_without_a_restart_and_what_it_said_last_outlives_it() {
    let (big, small, backup) = (serve("big"), serve("small"), serve("backup"));
    let old: &[Record] = &[(10, 60, big, "big.example.com"), (20, 0, backup, "backup.example.com")];
    let dns = NameServer::start(loopback(), old);
    let node = Node::start("follow", dns.address, &format!("[[pool]]\n{POOL}"));
    assert_eq!(node.askers(), ["big"]);
    assert!(node.list().contains("DNS answers"), "{}", node.list());

    // The records hold for a day, the interval is a second.
    dns.set(&[
        (10, 10, big, "big.example.com"),
        (10, 10, small, "small.example.com"),
        (20, 0, backup, "backup.example.com"),
    ]);
    until("the new server", || node.list().contains(&format!("small.example.com-{small}")));
    until("calls to both", || node.askers() == ["big", "small"]);
    dns.set(&[(10, 0, small, "small.example.com")]);
    until("calls to the only one left", || node.askers() == ["small"]);

    let address = dns.address;
    drop(dns);
    until("the mark", || node.is_stale("main"));
    let list = node.list();
    assert!(list.contains("DNS stale for") && list.contains(&format!("small.example.com-{small}")), "{list}");
    assert_eq!(node.askers(), ["small"]);

    // A zone that lost its records is no reason to drop the servers either; one that says "not offered" is.
    let dns = NameServer::start(address, &[]);
    until("an answer", || node.list().contains("has no SRV record"));
    assert_eq!(node.askers(), ["small"]);
    dns.set(&[(0, 0, 0, "")]);
    until("no server", || {
        !node.is_stale("main") && node.ask("anybody.example.org").starts_with("SIP/2.0 503")
    });
    assert_eq!(node.log().matches("DNS is stale").count(), 1, "{}", node.log());
    assert_eq!(node.log().matches("DNS answers again").count(), 1, "{}", node.log());
}

#[test]
fn a_start_without_dns_serves_from_the_file_and_refuses_politely_where_the_file_has_nothing() {
    let (listed, found) = (serve("listed"), serve("found"));
    // A port that is free, and that nobody answers on until later.
    let address = UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
    let pools = format!(
        "[[pool]]\n{POOL}[[pool]]\nname = \"mixed\"\nhosts = [\"mixed.example.com\"]\n{POOL}\
         destinations = [{{ id = \"listed\", address = \"127.0.0.1:{listed}\" }}]\n"
    );
    let node = Node::start("without", address, &pools);
    assert!(node.run(&["check", "tandem.toml"]).status.success(), "a check asks no name server");
    assert!(node.is_stale("main") && node.is_stale("mixed"));
    assert_eq!(node.ask("mixed.example.com"), "listed");
    let refused = node.ask("anybody.example.org");
    assert!(refused.starts_with("SIP/2.0 503") && refused.contains("\r\nRetry-After: "), "{refused}");

    // Of the file's priority, 0, so that both have their turns.
    let _dns = NameServer::start(address, &[(0, 1, found, "found.example.com")]);
    until("a server", || node.ask("anybody.example.org") == "found");
    until("both", || node.ask("mixed.example.com") == "found");
    until("both still", || node.ask("mixed.example.com") == "listed");
    until("fresh", || !node.is_stale("main") && !node.is_stale("mixed"));
}
