//! Ways out of a call's path, from a caller to a server on another network, with a balancer on the router between them.
//!
//! SIPp as the server answers to where a packet came from; told an address (`-rsa`), it answers there, as a server does
//! that goes by the Via. SIPp as the caller sends all of a call to the balancer, but for the two ways on which a caller is
//! told of another: `redirect` and `record-route`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tandem_interop::{CALLER, Lab, ROUTER, Running, SERVER, inside, on, tandem_binary};

const CALLS: usize = 10;
const ADMIN: &str = "127.0.0.1:9090";

/// What weighs on the server weighs longer than a test lasts, unless an answer ends it.
fn config(lab: &Lab, path: &str) -> String {
    let text = format!(
        "[[listen]]\nuri = \"udp:{ROUTER}:5060\"\n[node]\nshards = 2\n[store]\ndurability = \"memory\"\n\
         [admin]\nlisten = \"{ADMIN}\"\n[balancer]\ntrying_max = \"10m\"\n[[pool]]\npath = \"{path}\"\nprobe_interval = \"0s\"\n\
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

/// What ten calls by `path` look like: the Vias of the INVITEs and BYEs that the server got, and the responses that came
/// by the balancer.
struct Seen {
    vias: Vec<Vec<String>>,
    byes: Vec<Vec<String>>,
    responses: u64,
    /// What the balancer still has of them.
    calls: u64,
    requests: u64,
}

/// Who calls and who answers, as SIPp is told, and what the balancer has counted once all is over.
struct Ends<'a> {
    caller: &'a [&'a str],
    server: &'a [&'a str],
    settled: (&'a str, &'a str, usize),
}

/// A caller and a server that know of no other way than the one that they are on.
fn plain<'a>(server: &'a [&'a str]) -> Ends<'a> {
    let settled = ("tandem_balancer_requests_total", "outcome=\"followed\"", 2 * CALLS);
    Ends { caller: &["-sn", "uac"], server, settled }
}

fn scenario(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{name}.xml")).display().to_string()
}

fn ten_calls(path: &str, ends: &Ends<'_>) -> Seen {
    let lab = Lab::new(&format!("path-{path}-{}", ends.server.len()));
    let config = config(&lab, path);
    let binary = tandem_binary().display().to_string();
    let mut node = Running::start(lab.dir(), "tandem", &binary, |command| {
        command.args(["serve", "-c", &config]);
    });
    node.wait_until("ready", Duration::from_secs(60), |_| {
        get("/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    });
    let calls = CALLS.to_string();
    let bounds = ["-m", &calls, "-nostdin", "-trace_err", "-timeout", "90", "-timeout_error"];
    let messages = ["-trace_msg", "-message_file", "messages.log"];
    let args = [&["-i", SERVER, "-p", "5060"], ends.server, &messages, &bounds].concat();
    let mut callee = on("server", &lab, "server", "sipp", &args);
    let balancer = format!("{ROUTER}:5060");
    let args = [&["-i", CALLER, "-p", "5070", "-r", "10", &balancer], ends.caller, &bounds].concat();
    let mut caller = on("caller", &lab, "caller", "sipp", &args);
    caller.expect_success(Duration::from_secs(100));
    callee.expect_success(Duration::from_secs(100));
    // Metrics follow within moments of what a shard does; a question to all of them wakes one that has nothing to do.
    let wake = || {
        let list =
            Command::new(tandem_binary()).args(["ctl", "pool", "list"]).current_dir(lab.dir()).output();
        assert!(list.is_ok_and(|output| output.status.success()), "the node lists its pools");
    };
    let (name, label, least) = ends.settled;
    let calls = || metric("tandem_balancer_calls{", "");
    let requests = || metric("tandem_pool_requests{", "destination=\"a\"");
    for _ in 0..120 {
        if metric(name, label) >= least as u64 && (calls(), requests()) == (0, 0) {
            break;
        }
        wake();
        std::thread::sleep(Duration::from_millis(250));
    }
    let log = std::fs::read_to_string(lab.dir().join("messages.log")).expect("SIPp wrote its messages");
    let got = |method: &str| {
        let start = format!("\n{method} ");
        let entries = log.split("-----------------------------------------------");
        let requests = entries.filter(|entry| entry.contains("message received") && entry.contains(&start));
        let vias = |request: &str| {
            let lines = request.lines().filter_map(|line| line.strip_prefix("Via: "));
            lines.map(|via| via.trim().to_owned()).collect()
        };
        requests.map(vias).collect()
    };
    Seen {
        vias: got("INVITE"),
        byes: got("BYE"),
        responses: metric("tandem_balancer_responses_total", "outcome=\"forwarded\""),
        calls: calls(),
        requests: requests(),
    }
}

/// A single Via, the caller's.
fn is_callers(vias: &[String]) -> bool {
    vias.len() == 1 && vias.iter().all(|via| via.contains(&format!(" {CALLER}:5070;")))
}

#[test]
fn a_call_by_via_has_its_answers_come_by_the_balancer() {
    if !inside("a_call_by_via_has_its_answers_come_by_the_balancer") {
        return;
    }
    let seen = ten_calls("via", &plain(&["-sn", "uas"]));
    assert!(seen.vias.len() >= CALLS && seen.vias.iter().all(|vias| vias.len() == 2), "{:?}", seen.vias);
    assert!(seen.responses >= 3 * CALLS as u64, "{}", seen.responses);
}

/// A server that goes by the Via answers the caller itself, one that goes by the packet has its answer sent on.
#[test]
fn a_call_without_our_via_is_answered_past_the_balancer_or_by_way_of_it() {
    if !inside("a_call_without_our_via_is_answered_past_the_balancer_or_by_way_of_it") {
        return;
    }
    let past = ten_calls("no-via", &plain(&["-sn", "uas", "-rsa", &format!("{CALLER}:5070")]));
    let by = ten_calls("no-via", &plain(&["-sn", "uas"]));
    for seen in [&past, &by] {
        assert!(seen.vias.len() >= CALLS && seen.vias.iter().all(|vias| is_callers(vias)), "{:?}", seen.vias);
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
    let seen = ten_calls("transparent", &plain(&["-sn", "uas"]));
    let is_untouched = |vias: &Vec<String>| {
        vias.len() == 1
            && vias[0].starts_with(&format!("SIP/2.0/UDP {CALLER}:5070;branch="))
            && !vias[0].contains("received")
    };
    assert!(seen.vias.len() >= CALLS && seen.vias.iter().all(is_untouched), "{:?}", seen.vias);
    assert_eq!(seen.responses, 0);
}

/// The destination's own Record-Route takes what follows the answer: the BYE has one Via less than the INVITE, no answer to
/// it comes by the balancer, and nothing of the call stays booked.
#[test]
fn a_call_by_record_route_comes_by_the_balancer_until_it_is_answered() {
    if !inside("a_call_by_record_route_comes_by_the_balancer_until_it_is_answered") {
        return;
    }
    let (caller, server) = (scenario("call_routed_past"), scenario("answer_routed"));
    let settled = ("tandem_balancer_calls_ended_total", "reason=\"away\"", CALLS);
    let seen =
        ten_calls("record-route", &Ends { caller: &["-sf", &caller], server: &["-sf", &server], settled });
    assert!(seen.vias.len() >= CALLS && seen.vias.iter().all(|vias| vias.len() == 2), "{:?}", seen.vias);
    assert!(seen.byes.len() >= CALLS && seen.byes.iter().all(|vias| is_callers(vias)), "{:?}", seen.byes);
    assert!(seen.responses >= 2 * CALLS as u64, "{}", seen.responses);
    assert_eq!((seen.calls, seen.requests), (0, 0));
}

/// The caller is told where to go and goes there: nothing of the call but its first request comes by the balancer.
#[test]
fn a_redirected_call_goes_to_its_destination_by_itself() {
    if !inside("a_redirected_call_goes_to_its_destination_by_itself") {
        return;
    }
    let caller = scenario("call_redirected_past");
    let settled = ("tandem_balancer_requests_total", "outcome=\"redirected\"", CALLS);
    let seen = ten_calls("redirect", &Ends { caller: &["-sf", &caller], server: &["-sn", "uas"], settled });
    for requests in [&seen.vias, &seen.byes] {
        assert!(requests.len() >= CALLS && requests.iter().all(|vias| is_callers(vias)), "{requests:?}");
    }
    assert_eq!((seen.responses, seen.calls, seen.requests), (0, 0, 0));
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
