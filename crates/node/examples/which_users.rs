//! Does the time of a refusal tell which users exist? REGISTER with a wrong password, for users that exist and for such
//! that don't, in turn by chance; their times are compared by the test of Kolmogorov and Smirnov.
//!
//! `cargo run --release -p tandem-node --example which_users -- 20000`: that many requests of either kind, each from a
//! source and for a user of its own, so that no brake on guessing takes part. Times are taken twice: at the node itself,
//! and as somebody sees them who asks over loopback and waits for the answer. Exit code 1 if the latter has p < 0.01.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a measurement may end by panicking")]
#![expect(clippy::disallowed_methods, reason = "it measures, so it reads the clock")]

use std::net::{Ipv4Addr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tandem_auth::{Challenge, Challenger, ChallengerConfig, Ha1, NonceCounts, ResponseInput, Users, respond};
use tandem_base::{HashKey, Instant, Rng};
use tandem_node::{Config, Domains, Listener, Listeners, Node, Shared};
use tandem_registrar::Locations;
use tandem_sip::{Hop, ListenerId, Outbox, Transport};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is wrong: the response is made with another password.
const WRONG: &[u8] = b"not the password";

fn main() -> ExitCode {
    let samples = std::env::args().nth(1).map_or(20_000, |text| text.parse::<u32>().unwrap());
    let mut rng = Rng::from_seed(1);
    let mut order: Vec<u32> = (0..2 * samples).collect();
    rng.shuffle(&mut order);

    let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    asker.connect(server.local_addr().unwrap()).unwrap();
    asker.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let requests = 4 * samples;
    let serving = std::thread::spawn(move || serve(node(samples), &server, requests));

    let mut seen = [Vec::new(), Vec::new()];
    let mut buffer = [0; 4096];
    for &number in &order {
        let mut ask = |credentials: &str, cseq| {
            let request = register(number, cseq, credentials);
            let start = std::time::Instant::now();
            asker.send(request.as_bytes()).unwrap();
            let length = asker.recv(&mut buffer).unwrap();
            (start.elapsed(), String::from_utf8_lossy(&buffer[..length]).into_owned())
        };
        let (_, challenged) = ask("", 1);
        let (spent, refused) = ask(&answer(&challenged, number), 2);
        assert!(refused.starts_with("SIP/2.0 401"), "{refused}");
        seen[usize::from(number % 2 == 1)].push(spent);
    }
    let spent = serving.join().unwrap();
    let mut inside = [Vec::new(), Vec::new()];
    for (number, spent) in order.iter().zip(spent.iter().skip(1).step_by(2)) {
        inside[usize::from(number % 2 == 1)].push(*spent);
    }
    compare("at the node", &mut inside);
    ExitCode::from(u8::from(compare("over loopback", &mut seen) < 0.01))
}

/// Answers so many requests; gives how long the node took for each. Every second one comes from a new source.
fn serve(mut node: Node, socket: &UdpSocket, requests: u32) -> Vec<Duration> {
    let mut buffer = [0; 4096];
    let mut out = Outbox::new();
    let mut now = Instant::from_secs(1);
    let mut times = Vec::new();
    for place in 0..requests {
        let (length, peer) = socket.recv_from(&mut buffer).unwrap();
        let source = Ipv4Addr::from_bits(0x0b00_0000 + place / 2 * 257);
        let hop = Hop::udp(ListenerId(0), (source, 5060).into());
        out.clear();
        let start = std::time::Instant::now();
        node.handle_input(now, hop, &buffer[..length], &mut out);
        times.push(start.elapsed());
        socket.send_to(out.last(), peer).unwrap();
        now += Duration::from_millis(1);
        out.clear();
        node.handle_timeout(now, &mut out);
    }
    times
}

/// Prints both distributions; gives how probable a difference as great is if they are the same.
fn compare(place: &str, times: &mut [Vec<Duration>; 2]) -> f64 {
    for (kind, times) in ["known", "unknown"].iter().zip(times.iter_mut()) {
        times.sort_unstable();
        let at = |share: usize| times[times.len() * share / 100].as_nanos();
        println!(
            "{place}, {kind} users: {} refusals, p10 {} ns, p50 {} ns, p90 {} ns",
            times.len(),
            at(10),
            at(50),
            at(90)
        );
    }
    let (difference, p) = kolmogorov_smirnov(&times[0], &times[1]);
    println!("{place}: greatest difference between the distributions {difference:.4}, p = {p:.3}");
    p
}

/// A node whose users have even numbers.
fn node(samples: u32) -> Node {
    let key = HashKey::from_bytes([7; 16]);
    let users = Users::new(&key, samples as usize);
    for number in (0..2 * samples).step_by(2) {
        let name = user(number);
        let ha1 = Ha1::from_password(name.as_bytes(), b"localhost", b"the password");
        users.insert(format!("{name}@localhost").as_bytes(), ha1);
    }
    let listener = Listener::new(Transport::Udp, "127.0.0.1:5060".parse().unwrap(), None).unwrap();
    let config = Config::new(Domains::new(&["localhost"]).unwrap(), Listeners::new(vec![listener]));
    let shared = Shared {
        locations: Arc::new(Locations::new(key, usize::MAX)),
        users,
        challenger: Challenger::new(&key, ChallengerConfig::default()),
        nonce_counts: NonceCounts::new(&key, 1 << 20, 0),
    };
    Node::new(Arc::new(config), Arc::new(shared), &key, 1)
}

fn user(number: u32) -> String {
    format!("user{number:08}")
}

fn register(number: u32, cseq: u32, credentials: &str) -> String {
    let user = user(number);
    format!(
        "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK-{number}-{cseq}\r\n\
         From: <sip:{user}@localhost>;tag=a\r\nTo: <sip:{user}@localhost>\r\nCall-ID: {number:08}@192.0.2.1\r\n\
         CSeq: {cseq} REGISTER\r\nContact: <sip:{user}@192.0.2.1>\r\nMax-Forwards: 70\r\n{credentials}\
         Content-Length: 0\r\n\r\n"
    )
}

/// An Authorization line that answers the first challenge with a wrong password.
fn answer(challenged: &str, number: u32) -> String {
    let value = challenged.lines().find_map(|line| line.strip_prefix("WWW-Authenticate: ")).unwrap();
    let challenge = Challenge::parse(value.as_bytes()).unwrap();
    let user = user(number);
    let ha1 = Ha1::from_password(user.as_bytes(), b"localhost", WRONG);
    let input = ResponseInput {
        method: b"REGISTER",
        uri: b"sip:localhost",
        user: user.as_bytes(),
        ha1: &ha1,
        cnonce: b"0a4f113b",
        nc: 1,
    };
    let mut credentials = b"Authorization: ".to_vec();
    assert!(respond(&challenge, input, &mut credentials));
    credentials.extend_from_slice(b"\r\n");
    String::from_utf8(credentials).unwrap()
}

/// The greatest difference between the two distributions, and how probable one as great is if they are the same
/// (asymptotic; both sorted).
fn kolmogorov_smirnov(a: &[Duration], b: &[Duration]) -> (f64, f64) {
    let share =
        |times: &[Duration], limit| times.partition_point(|time| *time <= limit) as f64 / times.len() as f64;
    let difference =
        a.iter().chain(b).map(|&time| (share(a, time) - share(b, time)).abs()).fold(0.0, f64::max);
    let size = (a.len() * b.len()) as f64 / (a.len() + b.len()) as f64;
    let lambda = (size.sqrt() + 0.12 + 0.11 / size.sqrt()) * difference;
    let term = |k: i32| f64::powi(-1.0, k - 1) * (-2.0 * f64::from(k * k) * lambda * lambda).exp();
    (difference, (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0))
}
