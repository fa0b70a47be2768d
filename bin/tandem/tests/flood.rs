//! THREATS 20: a node whose address space is limited by the kernel is flooded with more than would fit, were its tables
//! without a bound. An allocation too many would end the process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// KiB of address space: the node idle takes half of it, and 40,000 INVITEs kept for half a minute would take as much
/// again as all of it.
const LIMIT_KIB: u32 = 300_000;
/// Requests that must have arrived, of each method.
const EACH: u64 = 40_000;
const METHODS: [&str; 8] =
    ["INVITE", "REGISTER", "MESSAGE", "OPTIONS", "SUBSCRIBE", "BYE", "CANCEL", "FLOOD"];

struct Node {
    child: Child,
    place: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

impl Node {
    fn start(sip: u16, admin: u16) -> Self {
        let place = std::env::temp_dir().join(format!("tandem-flood-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let config = format!(
            "[[listen]]\nuri = \"udp:127.0.0.1:{sip}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
             [node]\nshards = 1\n[proxy]\nmode = \"stateful\"\n[auth]\nchallenge = \"never\"\n\
             [transaction]\nlive_max = 4096\n[registrar]\naors_max = 1000\n[store]\ndurability = \"memory\"\n"
        );
        std::fs::write(place.join("tandem.toml"), config).unwrap();
        let script = format!("ulimit -v {LIMIT_KIB} && exec \"$0\" serve -c tandem.toml");
        let log = std::fs::File::create(place.join("log")).unwrap();
        let child = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_tandem")])
            .current_dir(&place)
            .env_remove("NOTIFY_SOCKET")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, place }
    }

    fn assert_up(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("it ended with {status}:\n{}", std::fs::read_to_string(self.place.join("log")).unwrap());
        }
    }
}

/// The sum of a metric's values whose line holds `label`; 0 while nobody serves it.
fn metric(admin: u16, name: &str, label: &str) -> u64 {
    let mut text = String::new();
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", admin)) else { return 0 };
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

fn request(method: &str, user: &str, n: u64, port: u16, body: &str) -> String {
    let uri = if method == "REGISTER" { "sip:localhost".to_owned() } else { format!("sip:{user}@localhost") };
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK{method}{n}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:{user}@localhost>;tag=f\r\nTo: <sip:{user}@localhost>\r\n\
         Call-ID: {method}-{n}\r\nCSeq: 1 {method}\r\nContact: <sip:{user}@127.0.0.1:{port}>\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends until it is answered with one of `statuses`.
fn answered(socket: &UdpSocket, request: &str, statuses: [&str; 2]) -> bool {
    let mut answer = [0; 65_536];
    (0..600).any(|_| {
        // Refused while nobody listens yet.
        if socket.send(request.as_bytes()).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        let came = socket.recv(&mut answer).ok().and_then(|len| answer.get(8..len.min(11)));
        if came.is_none() {
            std::thread::sleep(Duration::from_millis(50));
        }
        came.is_some_and(|status| statuses.iter().any(|wanted| wanted.as_bytes() == status))
    })
}

#[test]
fn a_flood_of_every_method_fits_into_little_memory_and_the_node_still_answers() {
    let sip = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut node = Node::start(sip, admin);
    let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
    asker.connect(("127.0.0.1", sip)).unwrap();
    asker.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let port = asker.local_addr().unwrap().port();
    // Whom the flood calls: a telephone that never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let callee = request("REGISTER", "bob", 0, silent.local_addr().unwrap().port(), "");
    let callee = callee.replacen(&silent.local_addr().unwrap().port().to_string(), &port.to_string(), 1);
    assert!(answered(&asker, &callee, ["200", "200"]), "no answer before the flood");

    let flooder = UdpSocket::bind("127.0.0.1:0").unwrap();
    flooder.connect(("127.0.0.1", sip)).unwrap();
    let (from, body) = (flooder.local_addr().unwrap().port(), "x".repeat(900));
    let arrived = || {
        let of = |method| metric(admin, "tandem_sip_requests_received_total", &format!("\"{method}\""));
        METHODS.iter().map(|method| of(if *method == "FLOOD" { "OTHER" } else { method })).min()
    };
    let mut sent = 0;
    while arrived().unwrap() < EACH {
        assert!(sent < 20 * EACH, "it reads no more: {:?}", arrived());
        for n in sent..sent + 2000 {
            for method in METHODS {
                let user = if method == "REGISTER" { format!("user{n}") } else { "bob".to_owned() };
                // What the network refuses is as good as lost.
                let _ = flooder.send(request(method, &user, n + 1, from, &body).as_bytes());
            }
            if n % 16 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        sent += 2000;
        node.assert_up();
    }
    assert!(metric(admin, "tandem_sip_answers_total", "\"5xx\"") > EACH, "the tables were not filled");
    let ping = request("OPTIONS", "bob", 0, port, "").replace("sip:bob@localhost SIP", "sip:localhost SIP");
    assert!(answered(&asker, &ping, ["200", "200"]), "no answer after the flood");
    assert!(answered(&asker, &callee.replace("CSeq: 1 ", "CSeq: 2 "), ["200", "200"]), "bob is not known");
    node.assert_up();
}
