//! Searches for what a target carries, against one whose capacity is exact: it answers so many requests a run, and 503 to
//! what is above.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use tandem_stone::{
    Control, Found, Limits, Method, Report, Run, Search, Spacing, StoneError, Users, Workload, search,
};

/// Requests that the target answers in a run, which lasts half a second: 200 a second.
const CAPACITY: usize = 100;

/// Answers until `stop`; forgets what it has answered when the file `renewed` appears.
fn serve(socket: &UdpSocket, renewed: &Path, stop: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut known, mut buffer) = (BTreeSet::new(), [0; 4096]);
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        if std::fs::remove_file(renewed).is_ok() {
            known.clear();
        }
        let text = String::from_utf8_lossy(buffer.get(..length).unwrap()).into_owned();
        let (_, rest) = text.split_once("\r\n").unwrap();
        let call = rest.lines().find(|line| line.starts_with("Call-ID")).unwrap().to_owned();
        let is_carried = known.contains(&call) || known.len() < CAPACITY;
        if is_carried {
            known.insert(call);
        }
        let status = if is_carried { "200 OK" } else { "503 Service Unavailable" };
        socket.send_to(format!("SIP/2.0 {status}\r\n{rest}").as_bytes(), from).unwrap();
    }
}

/// A search from 100 a second on; what was found, and the rates in the order in which they were tried.
fn found(
    name: &str,
    method: Method,
    before: impl Fn(&str) -> String,
) -> (Result<Found, StoneError>, Vec<f64>) {
    let renewed: PathBuf = std::env::temp_dir().join(format!("tandem-search-{name}-{}", std::process::id()));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target: SocketAddr = socket.local_addr().unwrap();
    let users = Users::parse("20", "").unwrap();
    let mut run = Run::new(Workload::Options, target, users, 100.0, Duration::from_millis(500));
    // However busy the machine is, lateness and slow answers end no search here.
    run.limits = Limits { lateness: Duration::from_secs(60), begun: 0.0 };
    run.load.within = Duration::from_secs(60);
    run.load.spacing = Spacing::Uniform;
    let wanted = Search {
        method,
        runs: 2,
        before: Some(before(renewed.to_str().unwrap())),
        pause: Duration::ZERO,
        rate_max: 10_000.0,
    };
    let stop = AtomicBool::new(false);
    let mut tried = Vec::new();
    let found = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&socket, &renewed, &stop));
        let mut note = |report: &Report| tried.push(report.rate.round());
        let found = search(&run, &wanted, &Control::default(), &mut |_| {}, &mut note);
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap();
        found
    });
    (found, tried)
}

/// As Singh §5.1 has it: half of all fail at twice the capacity.
#[test]
fn steps_climb_until_too_many_fail_and_the_command_before_each_run_renews_the_server() {
    let steps = Method::Steps { step: 100.0, fail: 0.45 };
    let (found, tried) = found("steps", steps, |file| format!("touch {file}"));
    let found = found.unwrap();
    assert_eq!(tried, [100.0, 200.0, 300.0, 400.0]);
    assert_eq!((found.rate, found.generator_limited), (Some(300.0), false));
    let success: Vec<f64> = found.reports.iter().map(|report| (report.success * 100.0).round()).collect();
    assert_eq!(success, [100.0, 100.0, 67.0, 50.0]);
}

#[test]
fn the_highest_rate_of_a_given_success_is_found_by_doubling_and_then_by_halving_the_gap() {
    let highest = Method::Highest { success: 0.9999, within: 0.1 };
    let (found, tried) = found("highest", highest, |file| format!("touch {file}"));
    assert_eq!(tried, [100.0, 200.0, 400.0, 300.0, 250.0, 225.0, 213.0]);
    assert_eq!(found.unwrap().rate, Some(200.0));
}

#[test]
fn a_command_that_fails_ends_the_search_and_is_named() {
    let highest = Method::Highest { success: 0.9999, within: 0.1 };
    let (found, tried) = found("fails", highest, |_| "exit 3".to_owned());
    let error = found.unwrap_err().to_string();
    assert!(tried.is_empty() && error.contains("exit 3") && error.contains("--before"), "{error}");
}
