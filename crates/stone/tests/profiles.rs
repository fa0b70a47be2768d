//! Whole profiles with their times cut short, what a held call costs, and a generator that is held up.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tandem_base::Instant;
use tandem_sip::{ListenerId, Outbox};
use tandem_stone::{
    Answering, Control, Hold, InDialog, Limits, Load, Ramp, Report, Retransmit, Run, Uac, Uas, Users,
    Workload, reflect,
};

fn free_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The machine may be busy, so that lateness does not void a run.
fn run(workload: Workload, target: SocketAddr, rate: f64, length: Duration) -> Run {
    let mut run = Run::new(workload, target, Users::parse("20", "").unwrap(), rate, length);
    run.limits = Limits { lateness: Duration::from_secs(5), begun: 0.99 };
    run.load.within = Duration::from_secs(10);
    run.load.in_dialog = InDialog::Target;
    run
}

fn result(run: &Run) -> Report {
    run.prepare().unwrap().run(&Control::default(), &mut |_| {}).unwrap()
}

fn reflected(run: &Run, listen: SocketAddr) -> Report {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reflector = scope.spawn(|| reflect(&[listen], &stop));
        let report = result(run);
        stop.store(true, Ordering::Relaxed);
        reflector.join().unwrap().unwrap();
        report
    })
}

/// Jiang's profile, minutes made tenths of a second: a ramp from 1 call a second, hold times normal 0.6 s / 0.3 s, a
/// warm-up that is not judged.
#[test]
fn held_calls_ramp_up_and_only_those_after_the_warm_up_are_judged() {
    let callee = free_port();
    let mut run = run(Workload::Outbound, callee, 200.0, Duration::from_millis(1500));
    run.callees = vec![callee];
    run.load.ramp = Ramp { from: 1.0, to: 200.0, over: 0.5 };
    run.load.warm_up = Duration::from_millis(700);
    run.load.hold = Hold::Normal(0.6, 0.3);
    let report = result(&run);
    assert!(report.stands(), "{:?}", report.void);
    let (all, judged) = (report.counts, report.judged);
    assert_eq!((judged.succeeded, all.succeeded), (judged.intended, all.intended));
    // 50 expected while it grows, 200 a second after that: 250 in all, of which 160 are judged.
    assert!(
        (170..330).contains(&all.intended) && (100..220).contains(&judged.intended),
        "{all:?} {judged:?}"
    );
    assert!(report.bye.count == judged.intended && report.took_seconds > 1.5);
    assert!(report.series.iter().any(|point| point.open > 50), "calls are held: {:?}", report.series);
}

#[test]
fn a_mix_of_subscriptions_and_publications_runs_whole_and_each_is_measured_by_itself() {
    let listen = free_port();
    let mut run = run(Workload::Subscribe, listen, 300.0, Duration::from_secs(1));
    run.load.mix = vec![(Workload::Subscribe, 2), (Workload::Publish, 1)];
    let report = reflected(&run, listen);
    assert!(report.stands(), "{:?}", report.void);
    assert_eq!(report.judged.succeeded, report.judged.intended);
    let (subscribe, publish) = (report.single["subscribe"].count, report.single["publish"].count);
    assert_eq!(subscribe + publish, report.judged.intended);
    assert!(subscribe > publish && publish > 30, "{subscribe} {publish}");
}

/// The target's histogram grows by four decisions of at most 10 µs between two readings.
#[test]
fn what_the_target_tells_of_its_decisions_stands_in_the_report() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for reading in 0.. {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 500]).unwrap();
            let (count, sum) = (4 * reading, 2e-5 * f64::from(reading));
            let name = "tandem_balancer_decision_seconds";
            let text = format!(
                "{name}_bucket{{le=\"0.00001\"}} {count}\n{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}\n"
            );
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{text}").unwrap();
        }
    });
    let listen = free_port();
    let mut run = run(Workload::Options, listen, 100.0, Duration::from_secs(1));
    run.target_metrics = Some(url);
    let report = reflected(&run, listen);
    let span = report.target_spans["decision"];
    assert_eq!((span.count, span.p99_us), (4, 10.0));
    assert!((span.mean_us - 5.0).abs() < 1e-6);
    assert!(report.to_string().contains("decision   5.00 us on average"), "{report}");
    run.target_metrics = Some(format!("http://{}/", free_port()));
    assert!(run.prepare().unwrap_err().to_string().contains("refused"));
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Both ends in virtual time, each call answered, acknowledged and then held for an hour.
#[test]
fn a_hundred_thousand_held_calls_cost_at_most_200_mib_at_both_ends() {
    const CALLS: usize = 100_000;
    let (near, far): (SocketAddr, SocketAddr) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
    let before = resident();
    let load = Load {
        hold: Hold::Constant(3600.0),
        caller_addr: near,
        callee_addr: far,
        ..Load::new(
            Workload::Proxy200,
            far,
            Users::parse("1000", "").unwrap(),
            10_000.0,
            Duration::from_secs(20),
        )
    };
    let answering = Answering {
        addr: far,
        handler: 0,
        ringing: true,
        ring: Duration::ZERO,
        retransmit: Retransmit::Sipstone,
        calls_max: 1_000_000,
        seed: 1,
    };
    let mut uac = Uac::new(Arc::new(load), ListenerId(0), 0);
    let mut uas = Uas::new(answering, ListenerId(1));
    let mut now = Instant::from_secs(1);
    uac.begin(now);
    let (mut out, mut wire) = (Outbox::new(), Outbox::new());
    while uas.counts.acks < 100_000 {
        now = uac.next().unwrap().max(now);
        uac.tick(now, &mut out);
        while !out.is_empty() {
            core::mem::swap(&mut out, &mut wire);
            for (hop, message) in wire.iter() {
                if hop.listener == ListenerId(0) {
                    uas.receive(now, near, message, &mut out);
                } else {
                    uac.receive(now, far, message, &mut out);
                }
            }
            wire.clear();
            uas.tick(now, &mut out);
        }
    }
    assert!(uac.attempts() >= CALLS && uas.calls() >= CALLS);
    assert_eq!(uac.unexpected.total() + uas.unexpected.total(), 0);
    let cost = resident() - before;
    assert!(cost <= 200 << 20, "{} MiB", cost >> 20);
    assert!(cost >= CALLS * 100, "something was held: {cost} bytes");
}

const INSIDE: &str = "TANDEM_TEST_HELD_UP";

/// A process that is stopped for 700 ms of a run of 3 s begins a fifth of its attempts late, whatever the machine does.
#[test]
fn a_generator_that_is_held_up_says_that_its_run_is_void() {
    if std::env::var_os(INSIDE).is_some() {
        let callee = free_port();
        let mut run = run(Workload::Outbound, callee, 200.0, Duration::from_secs(3));
        run.callees = vec![callee];
        run.limits = Limits::default();
        let report = run.prepare().unwrap().run(&Control::default(), &mut |_| eprintln!("a second is over"));
        eprintln!("void: {:?}", report.unwrap().void);
        return;
    }
    let test = "a_generator_that_is_held_up_says_that_its_run_is_void";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("a second is over")));
    let signal = |name: &str| {
        let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
        assert!(status.success());
    };
    signal("-STOP");
    std::thread::sleep(Duration::from_millis(700));
    signal("-CONT");
    let verdict = lines.find(|line| line.starts_with("void: ")).unwrap();
    assert!(verdict.contains("requests left late: 99th percentile"), "{verdict}");
    assert!(child.wait().unwrap().success());
}
