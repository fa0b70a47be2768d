//! The soak: real calls through a balancer for as long as it takes, over a network that loses datagrams, to destinations
//! that are killed and started again; and a witness of where every message went.
//!
//! `make soak` runs it. Callers are `tandem stone` (answers, cancels, hang-ups) and SIPp (re-INVITEs); destinations are
//! `tandem stone uas`, SIPp, Kamailio and Tandem nodes. Ends with a table and fails if a request of a call went astray, if
//! the balancer's audit found a difference, or if anything is left in its table.
//!
//! Left out: TCP, and a balancer that is killed (the tests in `tests/pools.rs` do that).

mod ends;
mod relay;
mod witness;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::Value;
use tandem_interop::{Lab, Port};

use crate::ends::{Destination, Kind, Load};
use crate::relay::{Network, Passed};
use crate::witness::Witness;

/// How long a killed destination is gone.
const GONE: Duration = Duration::from_secs(2);
/// The witness forgets a call that nobody spoke of for this long, at the earliest.
const REMEMBERED: Duration = Duration::from_secs(120);
/// What a balancer may take after the last call until its table is empty: `ringing_max` for a call whose ends are both
/// gone while it rang, then `expired_for`.
const SETTLED: Duration = Duration::from_secs(240);
const TICK: Duration = Duration::from_millis(100);

/// Real calls through a balancer, with loss, cancels and destinations that are killed; counts what went astray.
#[derive(Debug, Parser)]
#[command(name = "tandem-soak")]
struct Args {
    /// Calls of `tandem stone`; SIPp's come on top.
    #[arg(long, default_value_t = 20_000)]
    calls: u64,
    /// Calls a second.
    #[arg(long, default_value_t = 1_000.0)]
    rate: f64,
    /// Share of datagrams that is lost on each leg, each way.
    #[arg(long, default_value = "1%", value_parser = share)]
    loss: f64,
    /// Share of calls that are cancelled while they ring.
    #[arg(long, default_value = "5%", value_parser = share)]
    cancel: f64,
    /// Seconds between two destinations' being killed; 0: none is.
    #[arg(long, default_value_t = 5)]
    restart_every: u64,
    /// SIPp's share of calls, beyond those of `--calls`.
    #[arg(long, default_value = "2%", value_parser = share)]
    sipp: f64,
    /// The destinations, from stone, sipp, kamailio and tandem; one tandem at most.
    #[arg(long, value_delimiter = ',', value_parser = Kind::read,
        default_value = "stone,stone,stone,sipp,sipp,kamailio,kamailio,tandem")]
    destinations: Vec<Kind>,
    /// The balancer's policy.
    #[arg(long, default_value = "tlwl")]
    policy: String,
    /// Seed of what is lost and who calls when.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|number| number / of);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "a share, such as 1%".to_owned())
}

#[expect(clippy::disallowed_methods, reason = "the laboratory is outside of all machines")]
fn now() -> Instant {
    Instant::now()
}

fn main() -> ExitCode {
    let args = Args::parse();
    ends::politely();
    let (text, holds) = soak(&args);
    print!("{text}");
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the balancer says of itself.
#[derive(Clone, Copy, Debug, Default)]
struct Balancer {
    calls: f64,
    entries: f64,
    copies: f64,
    work: f64,
    difference: f64,
    failovers: f64,
    forged: f64,
    audits: f64,
}

impl Balancer {
    fn read(admin: SocketAddr) -> Option<Self> {
        let mut stream = TcpStream::connect(admin).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        if !text.contains("tandem_balancer_audit_difference") {
            return None;
        }
        let sum = |name: &str, label: &str| {
            let lines = text.lines().filter(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']))
                    && line.contains(label)
            });
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        Some(Self {
            calls: sum("tandem_balancer_calls", ""),
            entries: sum("tandem_balancer_entries", ""),
            copies: sum("tandem_balancer_copies", ""),
            work: sum("tandem_pool_work_thousandths", "") + sum("tandem_pool_calls", ""),
            difference: sum("tandem_balancer_audit_difference", ""),
            failovers: sum("tandem_balancer_failovers_total", "done"),
            forged: sum("tandem_balancer_requests_total", "token_forged"),
            audits: sum("tandem_balancer_audits_total", ""),
        })
    }

    fn is_empty(&self) -> bool {
        self.calls + self.entries + self.copies + self.work == 0.0
    }
}

fn soak(args: &Args) -> (String, bool) {
    let lab = Lab::new("soak");
    #[expect(clippy::cast_precision_loss, reason = "a number of calls fits a double")]
    let seconds = args.calls as f64 / args.rate * 1.005 + 0.1;
    // Nobody outlives the run by more than minutes, whatever becomes of us.
    let life = Duration::from_secs_f64(seconds).as_secs() + 600;
    let (sip, admin, caller, sipp) = (Port::free(), Port::free(), Port::free(), Port::free());
    let witness = Arc::new(Mutex::new(Witness::new(args.destinations.len())));
    let network = Network {
        passed: Arc::new(Passed::default()),
        witness: Arc::clone(&witness),
        stop: Arc::new(AtomicBool::new(false)),
        loss: args.loss,
        seed: args.seed,
    };
    let mut relays = Vec::new();
    // Relays have addresses of their own and the port of the end that they stand for: who answers to the packet's
    // address and the Via's port reaches them.
    let on = |host: u8, port: &Port| SocketAddr::from(([127, 0, 1, host], port.number()));
    let mut destinations = Vec::new();
    for (place, kind) in (0_u8..).zip(args.destinations.iter().copied()) {
        let relay = on(place + 10, &sip);
        let destination = Destination::start(&lab, life, u16::from(place), kind, relay);
        let opened = network.open(relay, destination.port.v4(), Some((place, sip.v4())));
        relays.push(opened.expect("an address on loopback is free"));
        destinations.push(destination);
    }
    for port in [&caller, &sipp] {
        relays.push(network.open(on(1, port), sip.v4(), None).expect("an address on loopback is free"));
    }
    let mut balancer = ends::balancer(&lab, life, sip.v4(), admin.v4(), &args.policy, &destinations);
    balancer.wait_until("it tells its metrics", Duration::from_secs(60), |_| {
        Balancer::read(admin.v4()).is_some()
    });
    sleep(Duration::from_secs(3)); // probes have seen all destinations

    let home = destinations.iter().find_map(Destination::home).unwrap_or_else(|| sip.v4()).to_string();
    let load = Load { rate: args.rate, seconds, cancel: args.cancel, seed: args.seed };
    let mut stone = ends::caller(&lab, life, caller.v4(), on(1, &caller), &home, &load);
    let few = Load { rate: (args.rate * args.sipp).ceil(), ..load };
    let mut sipp_caller =
        (few.rate > 0.0).then(|| ends::sipp(&lab, life, sipp.v4(), on(1, &sipp), &home, &few));

    let begun = now();
    let (mut told, mut turned, mut killed) = (begun, begun, begun);
    let mut victim = 0;
    let mut gone: Option<(usize, Instant)> = None;
    let mut worst = 0.0_f64;
    let mut last = Balancer::default();
    let mut stone_over = false;
    loop {
        sleep(TICK);
        let at = now();
        stone_over |= stone.is_over();
        let calling = !stone_over || sipp_caller.as_mut().is_some_and(|sipp| !sipp.is_over());
        match gone {
            Some((place, since)) if at - since >= GONE || !calling => {
                if let Some(destination) = destinations.get_mut(place) {
                    destination.again(&lab, life);
                }
                gone = None;
            }
            None if calling
                && args.restart_every > 0
                && at - killed >= Duration::from_secs(args.restart_every)
                && (at - begun).as_secs_f64() < seconds =>
            {
                if let Some(destination) = destinations.get_mut(victim) {
                    destination.kill();
                }
                gone = Some((victim, at));
                killed = at;
                victim = (victim + 1) % destinations.len();
            }
            Some(_) | None => {}
        }
        if at - turned >= REMEMBERED {
            turned = at;
            witness.lock().unwrap_or_else(PoisonError::into_inner).turn();
        }
        if at - told >= Duration::from_secs(5) {
            told = at;
            if let Some(read) = Balancer::read(admin.v4()) {
                last = read;
                worst = worst.max(read.difference);
            }
            let witness = witness.lock().unwrap_or_else(PoisonError::into_inner);
            let calls: u64 = witness.sent.iter().map(|sent| sent.calls).sum();
            let restarts: u16 = destinations.iter().map(|one| one.restarts).sum();
            eprintln!(
                "{:>5} s  {calls:>9} calls, {:>6} in the table, {:>5} second tries, {restarts:>4} restarts, astray {}, audit {worst}",
                (at - begun).as_secs(),
                last.calls,
                witness.second_tries,
                witness.astray,
            );
        }
        if !calling && gone.is_none() {
            break;
        }
    }
    let over = now();
    eprintln!("the last call is over; waiting until the balancer's table is empty");
    while now() - over < SETTLED {
        sleep(Duration::from_secs(1));
        if let Some(read) = Balancer::read(admin.v4()) {
            last = read;
            worst = worst.max(read.difference);
        }
        if last.is_empty() {
            break;
        }
    }
    let settled = now() - over;
    network.stop.store(true, Ordering::Relaxed);
    for relay in relays {
        relay.join().expect("a relay does not panic");
    }
    let witness = witness.lock().unwrap_or_else(PoisonError::into_inner);
    let report = Report {
        args,
        stone: stone.log(),
        sipp: std::fs::read_to_string(lab.dir().join("sipp.csv")).unwrap_or_default(),
        witness: &witness,
        destinations: &destinations,
        passed: &network.passed,
        balancer: last,
        difference: worst,
        took: over - begun,
        settled,
    };
    report.table()
}

struct Report<'a> {
    args: &'a Args,
    stone: String,
    sipp: String,
    witness: &'a Witness,
    destinations: &'a [Destination],
    passed: &'a Passed,
    balancer: Balancer,
    difference: f64,
    took: Duration,
    settled: Duration,
}

impl Report<'_> {
    fn table(&self) -> (String, bool) {
        let mut lines = Vec::new();
        let mut row = |name: &str, value: String| lines.push(format!("{name:<22}{value}"));
        let stone: Value = serde_json::from_str(self.stone.trim()).unwrap_or_default();
        let count = |end: &str, name: &str| {
            stone.get(end).and_then(|end| end.get(name)).and_then(Value::as_u64).unwrap_or_default()
        };
        let caller = |name: &str| count("counts", name);
        let (begun, good) = (caller("started"), caller("answered") + caller("cancelled"));
        row("calls", format!("{begun} of tandem stone, {} of SIPp", self.sipp_count("TotalCallCreated")));
        row("answered", format!("{}; hung up and heard {}", caller("answered"), caller("ended")));
        row("cancelled", format!("{}, by {} CANCEL", caller("cancelled"), caller("cancels")));
        row(
            "SIPp, with re-INVITE",
            format!(
                "{} succeeded, {} failed",
                self.sipp_count("SuccessfulCall(C)"),
                self.sipp_count("FailedCall(C)")
            ),
        );
        row(
            "failed",
            format!(
                "{} ({} timed out, {} refused, {} late)",
                caller("failed"),
                caller("timed_out"),
                caller("refused"),
                caller("late")
            ),
        );
        let kinds = stone.get("unexpected").and_then(Value::as_object);
        for (kind, what) in kinds.into_iter().flatten() {
            let count = what.get("count").and_then(Value::as_u64).unwrap_or_default();
            row("", format!("{count} x {kind}"));
        }
        let repeated: u64 = self.witness.sent.iter().map(|sent| sent.again).sum();
        row(
            "retransmissions",
            format!(
                "{} requests by the caller, {} answers to it; {repeated} INVITEs at destinations",
                caller("retransmissions"),
                caller("repeated_answers")
            ),
        );
        let (all, lost) = (&self.passed.datagrams, &self.passed.lost);
        row(
            "datagrams",
            format!("{}, of which {} lost", all.load(Ordering::Relaxed), lost.load(Ordering::Relaxed)),
        );
        row(
            "second tries",
            format!(
                "{} calls; {} by the balancer's count",
                self.witness.second_tries, self.balancer.failovers
            ),
        );
        let restarts: u16 = self.destinations.iter().map(|one| one.restarts).sum();
        row("restarts", format!("{restarts} (kill -9)"));
        for (one, sent) in self.destinations.iter().zip(&self.witness.sent) {
            row(
                "",
                format!(
                    "{:<9} {:>3} restarts, {:>8} calls, {:>8} requests inside calls",
                    one.kind.name(),
                    one.restarts,
                    sent.calls,
                    sent.inside
                ),
            );
        }
        row("affinity violations", self.witness.astray.to_string());
        row("tokens refused", self.balancer.forged.to_string());
        row(
            "audit mismatches",
            format!("{} in {} passes over the table", self.difference, self.balancer.audits),
        );
        row(
            "left in the table",
            format!(
                "{} calls, {} entries, {} copies, {} work, {} s after the last call",
                self.balancer.calls,
                self.balancer.entries,
                self.balancer.copies,
                self.balancer.work,
                self.settled.as_secs()
            ),
        );
        row("took", format!("{} s", self.took.as_secs()));
        let idle = self.witness.sent.iter().any(|sent| sent.calls == 0 || sent.inside == 0);
        let checks = [
            (begun >= self.args.calls, "fewer calls were made than asked for"),
            (good * 10 >= begun * 9, "fewer than nine in ten calls were answered or cancelled"),
            (!idle, "a destination had no calls, or nothing inside calls"),
            (self.witness.astray == 0, "requests went astray"),
            (self.balancer.forged == 0.0, "good tokens were refused"),
            (
                self.difference == 0.0 && self.balancer.audits > 0.0,
                "the audit found a difference, or never ran",
            ),
            (self.balancer.is_empty(), "something is left in the table"),
        ];
        let mut holds = true;
        for (held, complaint) in checks {
            if !held {
                holds = false;
                lines.push(format!("FAILED: {complaint}"));
            }
        }
        for sample in &self.witness.samples {
            lines.push(format!("---- {sample}"));
        }
        if begun == 0 {
            lines.push(format!("---- tandem stone said:\n{}", self.stone));
        }
        lines.push(String::new());
        (lines.join("\n"), holds)
    }

    /// A figure from the last line of SIPp's statistics.
    fn sipp_count(&self, name: &str) -> u64 {
        let mut lines = self.sipp.lines();
        let column = lines.next().and_then(|head| head.split(';').position(|column| column == name));
        let value = column.and_then(|column| lines.next_back()?.split(';').nth(column)?.parse().ok());
        value.unwrap_or_default()
    }
}
