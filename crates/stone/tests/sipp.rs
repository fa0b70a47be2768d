//! SIPp as the peer on either side: what one end counts, the other counts too.
//!
//! `make setup-test` installs SIPp.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

use tandem_stone::scenario::{PlayLimits, Script, parse, play};
use tandem_stone::{Control, InDialog, Limits, Roles, Run, Spacing, User, Users, Workload};

const CALLS: u64 = 200;

fn free_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn sipp(arguments: &[String]) -> Child {
    Command::new("sipp")
        .args(arguments)
        .args(["-i", "127.0.0.1", "-nostdin", "-m", &CALLS.to_string(), "-timeout", "60s"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("sipp does not start ({error}): `make setup-test` installs it"))
}

fn calling(target: SocketAddr) -> Child {
    let port = free_port().port().to_string();
    sipp(&["-sn", "uac", &target.to_string(), "-p", &port, "-r", "100", "-d", "0"].map(str::to_owned))
}

fn answering(at: SocketAddr) -> Child {
    sipp(&["-sn", "uas", "-p", &at.port().to_string()].map(str::to_owned))
}

fn run(roles: Roles, target: SocketAddr) -> Run {
    let users = Users::parse("10", "").unwrap();
    let mut run = Run::new(Workload::Proxy200, target, users, 100.0, Duration::from_secs(2));
    run.roles = roles;
    run.limits = Limits { lateness: Duration::from_secs(5), begun: 0.99 };
    run.load.within = Duration::from_secs(10);
    run
}

fn script(source: &str, local: SocketAddr, remote: SocketAddr) -> Script {
    Script {
        scenario: parse(source, "test").unwrap(),
        remote,
        local,
        service: "service".to_owned(),
        rows: Vec::new(),
        user: User { name: "u".into(), password: "p".into() },
        rate: 100.0,
        spacing: Spacing::Uniform,
        calls: Some(CALLS),
        length: Some(Duration::from_secs(60)),
        limits: PlayLimits {
            calls_max: 1000,
            pause: Duration::ZERO,
            patience: Duration::from_secs(10),
            seed: 1,
        },
    }
}

#[test]
fn sipp_calls_and_our_end_answers() {
    let at = free_port();
    let mut run = run(Roles::Callee, at);
    run.callees = vec![at];
    let prepared = run.prepare().unwrap();
    let control = Control::default();
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| prepared.run(&control, &mut |_| {}));
        let status = calling(at).wait().unwrap();
        control.stop.store(true, Ordering::Relaxed);
        assert!(status.success());
        running.join().unwrap().unwrap()
    });
    assert_eq!([report.callee.invites, report.callee.acks, report.callee.byes], [CALLS; 3]);
    assert_eq!(report.unexpected.total(), 0, "{:?}", report.unexpected);
}

#[test]
fn our_end_calls_and_sipp_answers() {
    let at = free_port();
    let mut sipp = answering(at);
    std::thread::sleep(Duration::from_millis(500));
    let mut run = run(Roles::Caller, at);
    run.load.in_dialog = InDialog::Target;
    run.load.spacing = Spacing::Uniform;
    run.load.length = Duration::from_millis(2005); // uniform at 100 a second: 200 calls
    let report = run.prepare().unwrap().run(&Control::default(), &mut |_| {}).unwrap();
    let status = sipp.wait().unwrap();
    assert!(status.success());
    assert_eq!([report.counts.started, report.counts.succeeded], [CALLS; 2], "{report}");
    assert_eq!(report.unexpected.total(), 0);
}

#[test]
fn our_scenarios_talk_with_sipps() {
    let (uac, uas) = (include_str!("../scenarios/uac.xml"), include_str!("../scenarios/uas.xml"));
    let at = free_port();
    let stop = AtomicBool::new(false);
    let mut sipp = answering(at);
    std::thread::sleep(Duration::from_millis(500));
    let played = play(&script(uac, free_port(), at), &stop).unwrap();
    assert!(sipp.wait().unwrap().success());
    assert_eq!((played.succeeded, played.failed), (CALLS, 0), "{played}");
    let at = free_port();
    let played = std::thread::scope(|scope| {
        let script = script(uas, at, at);
        let playing = scope.spawn({
            let stop = &stop;
            move || play(&script, stop)
        });
        std::thread::sleep(Duration::from_millis(300));
        assert!(calling(at).wait().unwrap().success());
        playing.join().unwrap().unwrap()
    });
    assert_eq!((played.succeeded, played.failed), (CALLS, 0), "{played}");
}
