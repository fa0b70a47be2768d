//! Whole runs over loopback: both ends with a bare forwarder or reflector between them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::Read as _;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use tandem_stone::{
    Control, CpuOf, Hold, InDialog, Limits, Pair, Report, Run, StoneError, Target, Users, Workload, forward,
    reflect,
};

fn free_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A run of one second; the machine may be busy, so that lateness does not void it.
fn run(workload: Workload, target: SocketAddr, rate: f64) -> Run {
    let mut run = Run::new(workload, target, Users::parse("20", "").unwrap(), rate, Duration::from_secs(1));
    run.limits = Limits { lateness: Duration::from_secs(5), begun: 0.99 };
    run.load.within = Duration::from_secs(10);
    run.load.in_dialog = InDialog::Target;
    run
}

fn result(run: &Run) -> Result<Report, StoneError> {
    run.prepare()?.run(&Control::default(), &mut |_| {})
}

#[test]
fn calls_through_a_bare_forwarder_all_succeed_and_it_passes_six_datagrams_each() {
    let (listen, callee) = (free_port(), free_port());
    let stop = AtomicBool::new(false);
    let (report, passed) = std::thread::scope(|scope| {
        let forwarder = scope.spawn(|| forward(&[Pair { listen, callee }], &stop));
        let mut run = run(Workload::Outbound, listen, 200.0);
        run.callees = vec![callee];
        run.watch = CpuOf { pids: vec![std::process::id()], cgroup: None };
        let report = result(&run).unwrap();
        stop.store(true, Ordering::Relaxed);
        (report, forwarder.join().unwrap().unwrap())
    });
    assert!(report.stands(), "{:?}", report.void);
    assert!(report.judged.intended > 100);
    assert_eq!(report.judged.succeeded, report.judged.intended);
    assert_eq!((report.callee.byes, report.callee.strayed), (report.counts.invites, 0));
    assert_eq!(passed.sent, 6 * report.counts.invites + report.counts.retransmissions);
    assert!(report.server_cpu_seconds > 0.0 && report.server_us_per_attempt > 0.0);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["success"], 1.0);
    assert_eq!(json["setup"]["count"], report.judged.intended);
}

/// A server has started, and perhaps loaded a million users, before the first call: that is no call's cost.
#[test]
fn cpu_time_of_the_server_from_before_the_load_does_not_count() {
    let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; exec sleep 600";
    let mut server = Command::new("sh").args(["-c", work]).stdout(Stdio::piped()).spawn().unwrap();
    server.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let watch = CpuOf { pids: vec![server.id()], cgroup: None };
    let before = watch.used().as_secs_f64();
    let callee = free_port();
    let mut run = run(Workload::Outbound, callee, 100.0);
    run.callees = vec![callee];
    run.watch = watch;
    let report = result(&run);
    server.kill().unwrap();
    server.wait().unwrap();
    let used = report.unwrap().server_cpu_seconds;
    assert!(before > 0.01 && used < before / 2.0, "{before} s before the load, {used} s in it");
}

#[test]
fn registrations_at_a_bare_reflector_all_succeed() {
    let listen = free_port();
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let reflector = scope.spawn(|| reflect(&[listen], &stop));
        let report = result(&run(Workload::Register, listen, 300.0)).unwrap();
        stop.store(true, Ordering::Relaxed);
        reflector.join().unwrap().unwrap();
        report
    });
    assert!(report.stands() && report.judged.succeeded == report.judged.intended, "{report}");
}

#[test]
fn two_threads_share_users_and_rate_and_their_calls_do_not_mix() {
    let (listen, callee) = (free_port(), free_port());
    let mut run = run(Workload::Outbound, callee, 200.0);
    run.threads = 2;
    run.callees = vec![SocketAddr::new(listen.ip(), 0)];
    run.load.targets[0].addr = callee;
    // Each thread's calls name its own answering end; sent to the first one's address they would stray.
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let reflector = scope.spawn(|| reflect(&[callee], &stop));
        run.load.mix = vec![(Workload::Options, 1)];
        let report = result(&run).unwrap();
        stop.store(true, Ordering::Relaxed);
        reflector.join().unwrap().unwrap();
        report
    });
    assert_eq!((report.threads, report.judged.succeeded), (2, report.judged.intended));
    assert!(report.judged.intended > 100);
}

/// Calls to three answering ends at random, where in-dialog requests either follow the Contact or are spread anew, as by
/// a balancer without affinity.
#[test]
fn a_call_that_changes_its_answering_end_is_noticed() {
    for (in_dialog, strays) in [(InDialog::Route, false), (InDialog::Target, true)] {
        let callees: Vec<_> = (0..3).map(|_| free_port()).collect();
        let mut run = run(Workload::Outbound, callees[0], 200.0);
        run.callees = callees.clone();
        run.load.in_dialog = in_dialog;
        // A call keeps its target.
        run.load.targets = callees.iter().map(|&addr| Target { addr, weight: 1 }).collect();
        let stop = AtomicBool::new(false);
        let front = free_port();
        if strays {
            run.load.targets = vec![Target { addr: front, weight: 1 }];
        }
        let report = std::thread::scope(|scope| {
            let spreader = scope.spawn(|| spread(front, &callees, &stop));
            let report = result(&run).unwrap();
            stop.store(true, Ordering::Relaxed);
            spreader.join().unwrap();
            report
        });
        assert!(report.judged.intended > 100);
        assert_eq!(report.callee.strayed > 0, strays, "{report}");
        assert_eq!(report.judged.succeeded == report.judged.intended, !strays, "{report}");
    }
}

/// A balancer without a memory: each datagram from outside goes to the next of `callees`, theirs to whom it came from
/// last.
fn spread(front: SocketAddr, callees: &[SocketAddr], stop: &AtomicBool) {
    let socket = UdpSocket::bind(front).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (mut caller, mut next, mut buffer) = (None, 0, [0; 4096]);
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let to = if callees.contains(&from) {
            caller
        } else {
            caller = Some(from);
            next = (next + 1) % callees.len();
            callees.get(next).copied()
        };
        if let (Some(to), Some(datagram)) = (to, buffer.get(..length)) {
            socket.send_to(datagram, to).unwrap();
        }
    }
}

/// One call at a time, each held for a tenth of a second, cannot carry 200 a second: the generator is the bottleneck.
#[test]
fn a_generator_that_cannot_keep_up_voids_its_run() {
    let callee = free_port();
    let mut run = run(Workload::Outbound, callee, 200.0);
    run.callees = vec![callee];
    run.load.calls_max = 1;
    run.load.hold = Hold::Constant(0.1);
    let report = result(&run).unwrap();
    assert!(!report.stands());
    assert!(report.void.iter().any(|reason| reason.contains("were begun")), "{:?}", report.void);
}

#[test]
fn what_is_wrong_is_one_line_before_the_run() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut busy = run(Workload::Outbound, free_port(), 10.0);
    busy.callees = taken.local_addr().into_iter().collect();
    let nobody = run(Workload::Proxy200, free_port(), 10.0);
    let mut still = run(Workload::Outbound, free_port(), 10.0);
    still.load.ramp.to = 0.0;
    for (run, words) in
        [(busy, "ss -ulpn"), (nobody, "could not be registered at 127.0.0.1"), (still, "above zero")]
    {
        let mut run = run;
        run.load.within = Duration::from_millis(300);
        let error = result(&run).unwrap_err().to_string();
        assert!(error.contains(words) && error.lines().count() == 1, "{error}");
    }
}
