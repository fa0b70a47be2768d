//! A node as an operator meets it: started, asked, reloaded, killed and stopped, over its real sockets on loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tandem_auth::{Challenge, Ha1, ResponseInput, respond};

/// A directory of its own, which goes with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tandem-serve-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running node in a place, killed with it.
struct Running {
    child: Child,
    sip: u16,
    admin: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(sip: u16, admin: u16, more: &str) -> String {
    format!(
        "[[listen]]\nuri = \"udp:127.0.0.1:{sip}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\ndrain = \"2s\"\n\
         [node]\nshards = 2\n[store]\ndurability = \"commit\"\n{more}"
    )
}

fn tandem(place: &Place) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.current_dir(&place.0).env_remove("TANDEM_SOCKET").env_remove("NOTIFY_SOCKET");
    command
}

fn free_ports() -> (u16, u16) {
    let sip = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    (sip, admin)
}

fn start(place: &Place, more: &str) -> Running {
    let (sip, admin) = free_ports();
    std::fs::write(place.0.join("tandem.toml"), config(sip, admin, more)).unwrap();
    start_on(place, sip, admin)
}

fn start_on(place: &Place, sip: u16, admin: u16) -> Running {
    let log = std::fs::File::options().create(true).append(true).open(place.0.join("log")).unwrap();
    let child =
        tandem(place).args(["serve", "--newcomer"]).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let mut running = Running { child, sip, admin };
    for _ in 0..600 {
        if http(admin, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
            return running;
        }
        if let Some(status) = running.child.try_wait().unwrap() {
            panic!("the node ended with {status}:\n{}", log_text(place));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the node is not ready:\n{}", log_text(place));
}

fn log_text(place: &Place) -> String {
    std::fs::read_to_string(place.0.join("log")).unwrap_or_default()
}

fn http(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn ctl(place: &Place, args: &[&str], stdin: &str) -> Output {
    let mut command = tandem(place);
    command.arg("ctl").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A phone: registers with the password and returns the final status.
fn register(sip: u16, user: &str, password: &str, contact: &str) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.connect(("127.0.0.1", sip)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let ask = |cseq: u32, authorization: &str| {
        let text = format!(
            "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK{port}{cseq}\r\n\
             From: <sip:{user}@localhost>;tag=1\r\nTo: <sip:{user}@localhost>\r\nCall-ID: call-{port}\r\n\
             CSeq: {cseq} REGISTER\r\nContact: <{contact}>\r\nMax-Forwards: 70\r\n{authorization}Content-Length: 0\r\n\r\n"
        );
        socket.send(text.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let got = socket.recv(&mut answer).unwrap();
        String::from_utf8(answer.get(..got).unwrap().to_vec()).unwrap()
    };
    let status = |answer: &str| answer.get(8..11).unwrap().parse::<u16>().unwrap();
    let first = ask(1, "");
    if status(&first) != 401 {
        return status(&first);
    }
    let challenges =
        first.lines().filter_map(|line| line.strip_prefix("WWW-Authenticate: ")).map(str::as_bytes);
    let challenge = Challenge::pick(challenges).expect("a challenge that can be answered");
    let ha1 = Ha1::from_password(user.as_bytes(), b"localhost", password.as_bytes());
    let input = ResponseInput {
        method: b"REGISTER",
        uri: b"sip:localhost",
        user: user.as_bytes(),
        ha1: &ha1,
        cnonce: b"abcdef",
        nc: 1,
    };
    let mut credentials = Vec::new();
    assert!(respond(&challenge, input, &mut credentials));
    status(&ask(2, &format!("Authorization: {}\r\n", String::from_utf8(credentials).unwrap())))
}

fn signal(running: &Running, name: &str) {
    let sent =
        Command::new("kill").args([format!("-{name}"), running.child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits for `what`, for at most ten seconds.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..200 {
        if happened() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} did not happen");
}

#[test]
fn users_register_and_are_listed_and_what_was_acknowledged_survives_kill_9() {
    let place = Place::new();
    let node = start(&place, "");
    // The newcomer's users, with passwords that nobody wrote down here.
    assert_eq!(ok(&ctl(&place, &["--json", "users", "list"], "")).lines().count(), 2);
    assert!(
        refused(&ctl(&place, &["users", "add", "alice", "--password-stdin"], "x\n"), 1).contains("exists")
    );
    assert_eq!(
        ok(&ctl(&place, &["users", "passwd", "alice", "--password-stdin"], "wonder\n")).trim(),
        "changed alice@localhost"
    );
    assert!(ok(&ctl(&place, &["users", "add", "carol"], "")).starts_with("added carol@localhost, password "));
    assert!(refused(&ctl(&place, &["users", "add", "eve@example.org"], ""), 1).contains("not a domain"));
    assert!(refused(&ctl(&place, &["users", "del", "nobody"], ""), 1).contains("no user"));

    assert_eq!(register(node.sip, "alice", "wrong", "sip:alice@127.0.0.1:9"), 401);
    assert_eq!(register(node.sip, "alice", "wonder", "sip:alice@127.0.0.1:9"), 200);
    let listed = ok(&ctl(&place, &["bindings", "list"], ""));
    assert!(listed.contains("alice@localhost  sip:alice@127.0.0.1:9"), "{listed}");

    let (sip, admin) = (node.sip, node.admin);
    drop(node); // SIGKILL
    assert!(refused(&ctl(&place, &["status"], ""), 3).contains("no node answers"));
    let node = start_on(&place, sip, admin);
    let listed = ok(&ctl(&place, &["--json", "bindings", "list", "alice"], ""));
    assert!(listed.contains("\"contact\":\"sip:alice@127.0.0.1:9\""), "{listed}");
    assert_eq!(register(node.sip, "alice", "wonder", "sip:alice@127.0.0.1:10"), 200);

    assert_eq!(
        ok(&ctl(&place, &["bindings", "remove", "alice", "--contact", "sip:alice@127.0.0.1:9"], "")).trim(),
        "removed 1"
    );
    assert_eq!(ok(&ctl(&place, &["bindings", "remove", "alice"], "")).trim(), "removed 1");
    assert_eq!(ok(&ctl(&place, &["users", "del", "alice"], "")).trim(), "removed alice@localhost");
    assert_eq!(register(node.sip, "alice", "wonder", "sip:alice@127.0.0.1:9"), 401);

    // Metrics follow within moments, and no secret is anywhere to be read.
    until("the counters", || {
        http(admin, "/metrics")
            .unwrap()
            .contains("tandem_auth_total{node=\"tandem\",role=\"proxy\",outcome=\"accepted\"} 1\n")
    });
    let metrics = ok(&ctl(&place, &["metrics"], ""));
    assert!(
        metrics.contains(
            "tandem_sip_requests_received_total{node=\"tandem\",role=\"proxy\",method=\"REGISTER\"} "
        )
    );
    assert!(!metrics.contains("Counted by the node."), "every metric says what it counts");
    let log = log_text(&place);
    let secret = std::fs::read_to_string(place.0.join("tandem.secret")).unwrap();
    for hidden in ["wonder", secret.trim(), "alice", "127.0.0.1:9"] {
        assert!(!log.contains(hidden), "the log tells {hidden}:\n{log}");
    }
}

#[test]
fn a_reload_applies_what_it_can_and_one_with_a_mistake_changes_nothing() {
    let place = Place::new();
    let node = start(&place, "");
    let file = place.0.join("tandem.toml");
    let write = |more: &str| std::fs::write(&file, config(node.sip, node.admin, more)).unwrap();

    write("[registrar]\nenabled = false\n[log]\nlevel = \"loud\"\n");
    let told = refused(&ctl(&place, &["reload"], ""), 1);
    assert!(
        told.contains("log.level: \"loud\" is not known") && told.contains("nothing was changed"),
        "{told}"
    );
    assert_eq!(register(node.sip, "bob", "wrong", "sip:bob@127.0.0.1:9"), 401, "it still registers");

    write("[registrar]\nenabled = false\n[transaction]\nt1 = \"400ms\"\n");
    let told = ok(&ctl(&place, &["reload"], ""));
    assert_eq!(
        told,
        "applied: registrar.enabled: true -> false\nneeds a restart: transaction.t1: \"500ms\" -> \"400ms\"\n"
    );
    until("the end of registering", || register(node.sip, "bob", "wrong", "sip:bob@127.0.0.1:9") == 405);
    assert!(ok(&ctl(&place, &["status"], "")).contains("transaction.t1"));

    // By signal too: a bad file first, then a good one.
    write("nonsense = 1\n");
    signal(&node, "HUP");
    until("the refusal", || log_text(&place).contains("reload refused"));
    write("");
    signal(&node, "HUP");
    until("registering", || register(node.sip, "bob", "wrong", "sip:bob@127.0.0.1:9") == 401);
}

#[test]
fn a_drained_node_is_not_ready_and_sigterm_ends_it_and_removes_its_socket() {
    let place = Place::new();
    let mut node = start(&place, "");
    ok(&ctl(&place, &["log-level", "debug"], ""));
    ok(&ctl(&place, &["drain"], ""));
    let ready = http(node.admin, "/readyz").unwrap();
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("draining"), "{ready}");
    assert!(http(node.admin, "/healthz").unwrap().starts_with("HTTP/1.1 200"));
    until("the refusal of new registrations", || {
        register(node.sip, "bob", "x", "sip:bob@127.0.0.1:9") == 503
    });
    signal(&node, "TERM");
    until("the end", || node.child.try_wait().unwrap().is_some_and(|status| status.success()));
    assert!(!place.0.join("tandem.sock").exists());
}

#[test]
fn a_second_node_in_the_same_place_is_refused_with_the_reason() {
    let place = Place::new();
    let _node = start(&place, "");
    let (sip, admin) = free_ports();
    std::fs::write(place.0.join("other.toml"), config(sip, admin, "")).unwrap();
    let second = tandem(&place).args(["serve", "-c", "other.toml"]).output().unwrap();
    assert!(refused(&second, 1).contains("another node listens"));
}

#[test]
fn a_kamailio_dump_is_imported_and_its_users_register() {
    let place = Place::new();
    let node = start(&place, "");
    let dump = "CREATE TABLE `subscriber` (`id` int, `username` varchar(64), `domain` varchar(64), `password` varchar(64), \
                `ha1` varchar(128), `ha1b` varchar(128));\n\
                INSERT INTO `subscriber` VALUES (1,'dave','localhost','it''s','',''),(2,'nohash','localhost','','','');\n";
    std::fs::write(place.0.join("kamailio.sql"), dump).unwrap();
    let dry = ok(&ctl(&place, &["import", "--dry-run", "kamailio.sql"], ""));
    assert!(
        dry.starts_with("users: 1 would be taken\n  left out: 1 because neither password nor ha1"),
        "{dry}"
    );
    assert_eq!(register(node.sip, "dave", "it's", "sip:dave@127.0.0.1:9"), 401);
    assert!(ok(&ctl(&place, &["import", "kamailio.sql"], "")).starts_with("users: 1 taken\n"));
    assert_eq!(register(node.sip, "dave", "it's", "sip:dave@127.0.0.1:9"), 200);
}

#[test]
fn check_tells_mistakes_on_standard_output_and_exits_with_1() {
    let place = Place::new();
    std::fs::write(place.0.join("bad.toml"), "[proxy]\nfrok = \"serial\"\n").unwrap();
    let bad = tandem(&place).args(["check", "bad.toml"]).output().unwrap();
    assert_eq!(bad.status.code(), Some(1));
    let told = String::from_utf8(bad.stdout).unwrap();
    assert_eq!(told, "bad.toml:2:1: proxy.frok: there is no such key; did you mean `fork`?\n");
    let sample = tandem(&place).args(["config", "sample"]).output().unwrap();
    std::fs::write(place.0.join("sample.toml"), &sample.stdout).unwrap();
    ok(&tandem(&place).args(["check", "sample.toml"]).output().unwrap());
}

#[test]
fn completions_and_manual_pages_are_written() {
    let place = Place::new();
    let bash = ok(&tandem(&place).args(["completions", "bash"]).output().unwrap());
    assert!(bash.contains("complete -F _tandem"));
    ok(&tandem(&place).args(["man", "pages"]).output().unwrap());
    for page in ["tandem.1", "tandem-serve.1", "tandem-ctl-users-add.1"] {
        assert!(page_text(&place.0.join("pages").join(page)).contains(".SH"), "{page}");
    }
}

fn page_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
