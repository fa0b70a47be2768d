//! A balancer as an operator meets it: a file of ten lines, real sockets on loopback, and `tandem ctl pool`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

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

fn tandem() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.env_remove("TANDEM_SOCKET").env_remove("NOTIFY_SOCKET");
    command
}

impl Node {
    fn start(name: &str, pool: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("tandem-balance-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let sip = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let node = Self { child: spawn(&directory, sip, admin, pool), directory, sip, admin };
        node.wait_until_ready();
        node
    }

    /// The node dies without a word and starts again with this file.
    fn restart(&mut self, pool: &str) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&self.directory, self.sip, self.admin, pool);
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        for _ in 0..1_200 {
            if self.http("/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("not ready:\n{}", std::fs::read_to_string(self.directory.join("log")).unwrap_or_default());
    }

    /// Whether a line of the metrics has this text, soon: counters follow within a fifth of a second.
    fn publishes(&self, text: &str) -> bool {
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            self.http("/metrics").unwrap().lines().any(|line| line.contains(text))
        })
    }

    fn http(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn ctl(&self, args: &[&str]) -> Output {
        let mut command = tandem();
        command.current_dir(&self.directory).arg("ctl").args(args).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.ctl(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn spawn(directory: &std::path::Path, sip: u16, admin: u16, pool: &str) -> Child {
    write_config(directory, sip, admin, pool);
    let log = std::fs::File::create(directory.join("log")).unwrap();
    let mut command = tandem();
    command.current_dir(directory).arg("serve").stdout(Stdio::null()).stderr(log);
    command.spawn().unwrap()
}

fn write_config(directory: &std::path::Path, sip: u16, admin: u16, pool: &str) {
    let text = format!(
        "[[listen]]\nuri = \"udp:127.0.0.1:{sip}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\ndrain = \"1s\"\n\
         [node]\nshards = 1\n[store]\ndurability = \"memory\"\n{pool}"
    );
    std::fs::write(directory.join("tandem.toml"), text).unwrap();
}

/// One end: what it got last, for ten seconds at most.
struct End(UdpSocket);

impl End {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self(socket)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    fn receive(&self) -> String {
        let mut bytes = [0; 65_535];
        let got = self.0.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..got].to_vec()).unwrap()
    }

    fn send(&self, to: u16, text: &str) {
        self.0.send_to(text.as_bytes(), ("127.0.0.1", to)).unwrap();
    }

    fn request(&self, sip: u16, method: &str, call: &str, cseq: u32, more: &str) {
        let port = self.port();
        let tag = if more.contains("Route") { ";tag=b" } else { "" };
        self.send(
            sip,
            &format!(
                "{method} sip:service@127.0.0.1:{sip} SIP/2.0\r\n\
                 Via: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK{call}{cseq}{method}\r\n\
                 From: <sip:a@127.0.0.1>;tag=a\r\nTo: <sip:b@127.0.0.1>{tag}\r\nCall-ID: {call}\r\n\
                 CSeq: {cseq} {method}\r\nMax-Forwards: 70\r\n{more}Content-Length: 0\r\n\r\n"
            ),
        );
    }

    /// Answers what it got with 200, as a user agent does.
    fn answer(&self, sip: u16, request: &str) {
        let kept = ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"];
        let mut text = "SIP/2.0 200 OK\r\n".to_owned();
        for line in request.lines() {
            if kept.iter().any(|name| line.starts_with(name)) {
                text.push_str(&format!("{line}\r\n"));
            } else if line.starts_with("To:") {
                let tag = if line.contains("tag=") { "" } else { ";tag=b" };
                text.push_str(&format!("{line}{tag}\r\n"));
            }
        }
        self.send(sip, &format!("{text}Content-Length: 0\r\n\r\n"));
    }
}

fn pool(ends: &[&End]) -> String {
    let one =
        |(n, end): (usize, &&End)| format!("{{ id = \"d{n}\", address = \"127.0.0.1:{}\" }}", end.port());
    let all: Vec<String> = ends.iter().enumerate().map(one).collect();
    format!(
        "[[pool]]\nname = \"media\"\npolicy = \"round-robin\"\nprobe_interval = \"0s\"\ntries_max = 1\ndestinations = [{}]\n",
        all.join(", ")
    )
}

#[test]
fn a_pool_in_a_file_balances_and_obeys_its_operator() {
    let (caller, first, second, third) = (End::new(), End::new(), End::new(), End::new());
    let node = Node::start("operator", &pool(&[&first, &second]));
    let sip = node.sip;

    // Two calls to two servers; each call's later messages follow it, by the token alone too.
    caller.request(sip, "INVITE", "call-1", 1, "");
    caller.request(sip, "INVITE", "call-2", 1, "");
    let invites = [first.receive(), second.receive()];
    let (mine, other) = if invites[0].contains("call-1") { (&first, &second) } else { (&second, &first) };
    let invite = invites.iter().find(|invite| invite.contains("call-1")).unwrap();
    mine.answer(sip, invite);
    assert!(caller.receive().starts_with("SIP/2.0 200"));
    let route = invite.lines().find_map(|line| line.strip_prefix("Record-Route: ")).unwrap();
    let route = format!("Route: {route}\r\n");
    caller.request(sip, "ACK", "call-1", 1, &route);
    assert!(mine.receive().starts_with("ACK "));

    // The operator sees them.
    let listed = node.ok(&["pool", "list", "--json"]);
    let pools: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(pools["pool"], "media");
    let calls: Vec<u64> =
        pools["destinations"].as_array().unwrap().iter().map(|one| one["calls"].as_u64().unwrap()).collect();
    assert_eq!(calls, [1, 1]);
    let why = node.ok(&["pool", "why", "call-1"]);
    assert!(why.contains("ACK") && why.contains("round-robin"), "{why}");
    assert_eq!(node.ctl(&["pool", "why", "nobody"]).status.code(), Some(1));
    assert!(node.ok(&["pool", "list"]).contains("media/d1"));

    // Drained, d1 gets no new calls; removed, its call goes on; another one is added.
    let (mine_id, other_id) = if core::ptr::eq(mine, &raw const first) { ("d0", "d1") } else { ("d1", "d0") };
    node.ok(&["pool", "drain", mine_id]);
    for n in 10..14 {
        caller.request(sip, "INVITE", &format!("call-{n}"), 1, "");
        assert!(other.receive().starts_with("INVITE "));
    }
    node.ok(&["pool", "resume", mine_id]);
    node.ok(&["pool", "add", "media/d9", &format!("127.0.0.1:{}", third.port()), "--weight", "3"]);
    node.ok(&["pool", "weight", other_id, "0"]);
    node.ok(&["pool", "remove", mine_id]);
    caller.request(sip, "INVITE", "call-20", 1, "");
    assert!(third.receive().starts_with("INVITE "));
    caller.request(sip, "BYE", "call-1", 2, &route);
    let bye = mine.receive();
    assert!(bye.starts_with("BYE "));
    mine.answer(sip, &bye);
    assert!(caller.receive().starts_with("SIP/2.0 200"));
    let refused = node.ctl(&["pool", "drain", "nothing"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no destination nothing"), "{refused:?}");

    // A forged token is refused; a question about the node itself is answered.
    caller.request(sip, "BYE", "call-2", 2, &route);
    assert!(caller.receive().starts_with("SIP/2.0 403"));

    // The file rules again after a reload, and calls are kept.
    node.ok(&["reload"]);
    let listed = node.ok(&["pool", "list"]);
    assert!(listed.contains("media/d0") && listed.contains("media/d1"), "{listed}");
    caller.request(sip, "CANCEL", "call-2", 1, "");
    assert!(other.receive().contains("call-2"));

    // What requests weigh is shown, given or learned, once a policy weighs them.
    write_config(
        &node.directory,
        sip,
        node.admin,
        &pool(&[&first, &second]).replace("round-robin", "tlwl-learned"),
    );
    node.ok(&["reload"]);
    let listed = node.ok(&["pool", "list"]);
    assert!(
        listed.contains("INVITE 1.75 (given)") && listed.contains("learned within 0.25 and 4.00"),
        "{listed}"
    );
    let listed = node.ok(&["pool", "list", "--json"]);
    let pools: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(pools["weights"][0]["method"], "INVITE");
    assert_eq!(pools["weights"][0]["most_thousandths"], 1750);

    // Metrics have labels for pool and destination.
    assert!(node.publishes(
        "tandem_balancer_requests_total{node=\"tandem\",role=\"proxy\",outcome=\"token_forged\"} 1"
    ));
    assert!(
        node.publishes("tandem_pool_calls{node=\"tandem\",role=\"proxy\",pool=\"media\",destination=\"d0\"}")
    );
    assert!(node.publishes("tandem_pool_occupancy_bucket{"));
    let method = "pool=\"media\",method=\"INVITE\",shard=\"0\"} ";
    let fixed = "{node=\"tandem\",role=\"proxy\",";
    assert!(node.publishes(&format!("tandem_pool_method_weight_thousandths{fixed}{method}1750")));
    assert!(node.publishes(&format!("tandem_pool_method_weight_learned{fixed}{method}0")));
    assert!(node.publishes("tandem_balancer_audit_difference{node=\"tandem\",role=\"proxy\"} 0"));
}

/// The balancer's key is changed as docs/BALANCER.md says: a call that is up is found by its token, a ringing one gets
/// its answer. Without the previous key both are nobody's, and counted; what is new was never signed under it.
#[test]
fn a_call_outlives_a_change_of_the_secret_while_the_previous_one_is_named() {
    let (caller, server) = (End::new(), End::new());
    let pool = pool(&[&server]);
    let mut node = Node::start("secrets", &pool);
    let sip = node.sip;
    let invite = |node: &Node, call: &str| {
        caller.request(node.sip, "INVITE", call, 1, "");
        let invite = server.receive();
        let route = invite.lines().find_map(|line| line.strip_prefix("Record-Route: ")).unwrap();
        (format!("Route: {route}\r\n"), invite.clone())
    };
    let (old, up) = invite(&node, "up");
    server.answer(sip, &up);
    assert!(caller.receive().starts_with("SIP/2.0 200"));
    let (_, ringing) = invite(&node, "ringing");

    let key = |name: &str| node.directory.join(name);
    std::fs::rename(key("tandem.secret"), key("old.secret")).unwrap();
    node.restart(&format!("[auth]\nprevious_secret_file = \"old.secret\"\n{pool}"));
    server.answer(sip, &ringing);
    assert!(caller.receive().starts_with("SIP/2.0 200"));
    caller.request(sip, "INFO", "up", 2, &old);
    assert!(server.receive().starts_with("INFO "));
    let (new, _) = invite(&node, "new");

    node.restart(&pool);
    caller.request(sip, "BYE", "up", 3, &old);
    assert!(caller.receive().starts_with("SIP/2.0 403"));
    assert!(node.publishes("outcome=\"token_forged\"} 1"));
    caller.request(sip, "BYE", "new", 2, &new);
    assert!(server.receive().starts_with("BYE "));
}

/// What the documents give as a sample is a sound file.
#[test]
fn the_sample_of_a_balancer_is_sound() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/balancer.toml");
    let output = tandem().args(["check", sample]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
