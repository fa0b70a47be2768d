//! Ways out of a call's path, from a caller to a server on another network, with a balancer on the router between them.
//!
//! SIPp as the server answers to where a packet came from; told an address (`-rsa`), it answers there, as a server does
//! that goes by the Via. SIPp as the caller sends all of a call to the balancer.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tandem_interop::{CALLER, Lab, ROUTER, Running, SERVER, inside, on, tandem_binary};

const CALLS: usize = 10;
const ADMIN: &str = "127.0.0.1:9090";

fn config(lab: &Lab, path: &str) -> String {
    let text = format!(
        "[[listen]]\nuri = \"udp:{ROUTER}:5060\"\n[node]\nshards = 2\n[store]\ndurability = \"memory\"\n\
         [admin]\nlisten = \"{ADMIN}\"\n[[pool]]\npath = \"{path}\"\nprobe_interval = \"0s\"\n\
         destinations = [{{ id = \"a\", address = \"{SERVER}:5060\" }}]\n"
    );
    lab.write("tandem.toml", &text).display().to_string()
}

fn get(path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(ADMIN).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn metric(name: &str, label: &str) -> u64 {
    let metrics = get("/metrics").expect("the node tells its metrics");
    let line = metrics.lines().find(|line| line.starts_with(name) && line.contains(label));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} with {label} in:\n{metrics}"))
}

/// What ten calls by `path` look like: the Vias of the INVITEs that the server got, and the responses that came by the
/// balancer.
struct Seen {
    vias: Vec<Vec<String>>,
    responses: u64,
}

fn ten_calls(path: &str, server: &[&str]) -> Seen {
    let lab = Lab::new(&format!("path-{path}-{}", server.len()));
    let config = config(&lab, path);
    let binary = tandem_binary().display().to_string();
    let mut node = Running::start(lab.dir(), "tandem", &binary, |command| {
        command.args(["serve", "-c", &config]);
    });
    node.wait_until("ready", Duration::from_secs(60), |_| {
        get("/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    });
    let calls = CALLS.to_string();
    let ends = ["-m", &calls, "-nostdin", "-trace_err", "-timeout", "90", "-timeout_error"];
    let messages = ["-trace_msg", "-message_file", "messages.log"];
    let args = [&["-sn", "uas", "-i", SERVER, "-p", "5060"], server, &messages, &ends].concat();
    let mut callee = on("server", &lab, "server", "sipp", &args);
    let balancer = format!("{ROUTER}:5060");
    let args = [&["-sn", "uac", "-i", CALLER, "-p", "5070", "-r", "10", &balancer][..], &ends];
    let mut caller = on("caller", &lab, "caller", "sipp", &args.concat());
    caller.expect_success(Duration::from_secs(100));
    callee.expect_success(Duration::from_secs(100));
    let mut responses = 0;
    // Metrics follow within moments; the last of them is that of all requests.
    for _ in 0..600 {
        let requests = metric("tandem_balancer_requests_total", "outcome=\"followed\"");
        responses = metric("tandem_balancer_responses_total", "outcome=\"forwarded\"");
        if requests >= 2 * CALLS as u64 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let log = std::fs::read_to_string(lab.dir().join("messages.log")).expect("SIPp wrote its messages");
    let invites = log
        .split("-----------------------------------------------")
        .filter(|entry| entry.contains("message received") && entry.contains("\nINVITE "));
    let vias = |invite: &str| {
        let lines = invite.lines().filter_map(|line| line.strip_prefix("Via: "));
        lines.map(|via| via.trim().to_owned()).collect()
    };
    Seen { vias: invites.map(vias).collect(), responses }
}

#[test]
fn a_call_by_via_has_its_answers_come_by_the_balancer() {
    if !inside("a_call_by_via_has_its_answers_come_by_the_balancer") {
        return;
    }
    let seen = ten_calls("via", &[]);
    assert!(seen.vias.len() >= CALLS && seen.vias.iter().all(|vias| vias.len() == 2), "{:?}", seen.vias);
    assert!(seen.responses >= 3 * CALLS as u64, "{}", seen.responses);
}

/// A server that goes by the Via answers the caller itself, one that goes by the packet has its answer sent on.
#[test]
fn a_call_without_our_via_is_answered_past_the_balancer_or_by_way_of_it() {
    if !inside("a_call_without_our_via_is_answered_past_the_balancer_or_by_way_of_it") {
        return;
    }
    let past = ten_calls("no-via", &["-rsa", &format!("{CALLER}:5070")]);
    let by = ten_calls("no-via", &[]);
    for seen in [&past, &by] {
        let is_callers =
            |vias: &Vec<String>| vias.len() == 1 && vias[0].contains(&format!(" {CALLER}:5070;"));
        assert!(seen.vias.len() >= CALLS && seen.vias.iter().all(is_callers), "{:?}", seen.vias);
    }
    assert_eq!(past.responses, 0);
    assert!(by.responses >= 3 * CALLS as u64, "{}", by.responses);
}

/// The server sees the caller's address and port on the packet, and nothing of a balancer: its answers, which go to where
/// the packet came from, do not come by us.
#[test]
fn a_transparent_call_leaves_under_the_callers_address_and_port() {
    if !inside("a_transparent_call_leaves_under_the_callers_address_and_port") {
        return;
    }
    let seen = ten_calls("transparent", &[]);
    let is_untouched = |vias: &Vec<String>| {
        vias.len() == 1
            && vias[0].starts_with(&format!("SIP/2.0/UDP {CALLER}:5070;branch="))
            && !vias[0].contains("received")
    };
    assert!(seen.vias.len() >= CALLS && seen.vias.iter().all(is_untouched), "{:?}", seen.vias);
    assert_eq!(seen.responses, 0);
}

#[test]
fn a_transparent_pool_without_the_right_to_it_does_not_start_and_says_what_to_do() {
    if !inside("a_transparent_pool_without_the_right_to_it_does_not_start_and_says_what_to_do") {
        return;
    }
    let lab = Lab::new("path-refused");
    let config = config(&lab, "transparent");
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-net_admin,-net_raw"])
        .arg(tandem_binary())
        .args(["serve", "-c", &config])
        .current_dir(lab.dir())
        .output()
        .expect("util-linux' setpriv starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("AmbientCapabilities=CAP_NET_ADMIN"), "{said}");
}
