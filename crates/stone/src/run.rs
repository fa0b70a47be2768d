//! One run: sockets and threads for a load, from the first registration to the report.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::net::UdpSocket as Plain;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tandem_net::{Net, NetOptions, UdpOptions, UdpSocket};
use tandem_sip::Transport;

use crate::arrivals::Ramp;
use crate::audit::{Limits, audit};
use crate::clock;
use crate::cpu::CpuOf;
use crate::drive::{CALLEE, CALLER, Control, Ends, Finished, Sample, drive};
use crate::error::StoneError;
use crate::load::{InDialog, Load, Retransmit, Target, Workload};
use crate::report::{Point, Report};
use crate::tally::{CalleeCounts, CallerCounts, Kinds};
use crate::times::{Second, Times};
use crate::uac::Uac;
use crate::uas::{Answering, Uas};
use crate::users::Users;
use crate::{Choice, Hold, Spacing};

/// Which ends a process plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Roles {
    /// Calls and answers.
    #[default]
    Both,
    /// Only calls; who answers is someone else.
    Caller,
    /// Only answers, until it is stopped.
    Callee,
    /// Registers its users, then answers until it is stopped.
    Handler,
}

impl Roles {
    /// Whether it calls.
    #[must_use]
    pub const fn calls(self) -> bool {
        matches!(self, Self::Both | Self::Caller)
    }
}

/// A run, before any socket is open.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Which ends it plays.
    pub roles: Roles,
    /// Threads; each has its own sockets and its share of users and rate.
    pub threads: u16,
    /// The calling end's address; `None` takes the one from which the first target is reached. Thread `n` adds `n` to
    /// a port other than 0.
    pub caller: Option<SocketAddr>,
    /// The answering end's address, in the same way.
    pub callee: Option<SocketAddr>,
    /// Workloads and their weights.
    pub mix: Vec<(Workload, u32)>,
    /// Where the load goes.
    pub targets: Vec<Target>,
    /// The domain of all addresses-of-record.
    pub domain: String,
    /// Who calls and is called.
    pub users: Users,
    /// How the called one is picked.
    pub choice: Choice,
    /// Offered attempts a second, of all threads together.
    pub ramp: Ramp,
    /// Spacing of attempts.
    pub spacing: Spacing,
    /// How long attempts are begun.
    pub length: Duration,
    /// The part of it that is not judged.
    pub warm_up: Duration,
    /// How long answered calls last.
    pub hold: Hold,
    /// Time for each wanted answer.
    pub within: Duration,
    /// When requests are repeated.
    pub retransmit: Retransmit,
    /// Where requests inside a call go.
    pub in_dialog: InDialog,
    /// Bytes of an INVITE.
    pub invite_bytes: usize,
    /// Whether users are registered first; `None`: if the mix needs it.
    pub register_first: Option<bool>,
    /// Whether bindings that earlier runs left are removed before that.
    pub clear_first: bool,
    /// Expires of registrations, in seconds.
    pub expires: u32,
    /// Most attempts in progress at once.
    pub calls_max: usize,
    /// Whether the answering end sends 180.
    pub ringing: bool,
    /// How long it rings.
    pub ring: Duration,
    /// The number of the first thread's handler; stands in its tags.
    pub handler: u16,
    /// The seed of all that is random.
    pub seed: u64,
    /// When the generator counts as the bottleneck.
    pub limits: Limits,
    /// Processes whose CPU time is measured over the on-interval.
    pub watch: CpuOf,
}

impl Run {
    /// SIPstone's Proxy 200 against one target, with every default.
    #[must_use]
    pub fn new(workload: Workload, target: SocketAddr, users: Users, rate: f64, length: Duration) -> Self {
        Self {
            roles: Roles::Both,
            threads: 1,
            caller: None,
            callee: None,
            mix: vec![(workload, 1)],
            targets: vec![Target { addr: target, weight: 1 }],
            domain: "localhost".to_owned(),
            users,
            choice: Choice::Uniform,
            ramp: Ramp::flat(rate),
            spacing: Spacing::Poisson,
            length,
            warm_up: Duration::ZERO,
            hold: Hold::None,
            within: Duration::from_secs(2),
            retransmit: Retransmit::Sipstone,
            in_dialog: InDialog::Route,
            invite_bytes: 600,
            register_first: None,
            clear_first: true,
            expires: 3600,
            calls_max: 1_000_000,
            ringing: true,
            ring: Duration::ZERO,
            handler: 0,
            seed: 1,
            limits: Limits::default(),
            watch: CpuOf::default(),
        }
    }

    fn check(&self) -> Result<(), StoneError> {
        let (rate, of) = (self.ramp.to, usize::from(self.threads.max(1)));
        if self.roles.calls() && !(rate > 0.0 && rate.is_finite() && self.ramp.from >= 0.0) {
            return Err(StoneError::plan(
                "rate",
                &rate.to_string(),
                "a rate is above zero attempts a second",
            ));
        }
        if self.warm_up >= self.length && self.roles.calls() {
            return Err(StoneError::plan(
                "warm-up",
                &format!("{:?}", self.warm_up),
                "must be shorter than the run",
            ));
        }
        if self.mix.iter().all(|&(_, weight)| weight == 0) || self.targets.is_empty() {
            return Err(StoneError::plan("mix", "", "name at least one workload and one target"));
        }
        if of > 1 && self.users.len() < of {
            return Err(StoneError::plan(
                "users",
                &self.users.len().to_string(),
                "each thread needs a user of its own",
            ));
        }
        Ok(())
    }

    fn load(&self, part: u16, run: u32, caller: SocketAddr, callee: SocketAddr) -> Load {
        let threads = f64::from(self.threads.max(1));
        let Ramp { from, to, over } = self.ramp;
        let needs = self.mix.iter().any(|&(workload, weight)| weight > 0 && workload.needs_bindings());
        Load {
            mix: self.mix.clone(),
            targets: self.targets.clone(),
            domain: self.domain.clone(),
            users: self.users.share(usize::from(part), usize::from(self.threads.max(1))),
            choice: self.choice,
            ramp: Ramp { from: from / threads, to: to / threads, over },
            spacing: self.spacing,
            length: self.length,
            warm_up: self.warm_up,
            hold: self.hold,
            within: self.within,
            retransmit: self.retransmit,
            in_dialog: self.in_dialog,
            invite_bytes: self.invite_bytes,
            register_first: self
                .register_first
                .unwrap_or(needs && matches!(self.roles, Roles::Both | Roles::Handler)),
            clear_first: self.clear_first,
            expires: self.expires,
            calls_max: self.calls_max,
            seed: self.seed,
            run: run ^ u32::from(self.handler).wrapping_add(u32::from(part)).rotate_left(24),
            transport: Transport::Udp,
            caller_addr: caller,
            callee_addr: callee,
        }
    }

    /// Opens the sockets: whatever is wrong with addresses shows here, before a datagram leaves.
    ///
    /// # Errors
    ///
    /// [`StoneError::Plan`] for values that make no sense, [`StoneError::Socket`] for what the system refuses.
    pub fn prepare(&self) -> Result<Prepared, StoneError> {
        self.check()?;
        let target = self.targets.first().map(|target| target.addr);
        let local = local_ip(target)?;
        let stamp = clock::wall().as_nanos() ^ (u128::from(std::process::id()) << 40);
        let run = u32::try_from(stamp >> 10 & 0xffff_ff00).unwrap_or(1);
        let mut threads = Vec::new();
        for part in 0..self.threads.max(1) {
            let mut net =
                Net::new(NetOptions::default()).map_err(|error| StoneError::socket("epoll", &error))?;
            let mut open = |listener, wish: Option<SocketAddr>| {
                let wish = wish.unwrap_or(SocketAddr::new(local, 0));
                let port = if wish.port() == 0 { 0 } else { wish.port() + part };
                let addr = SocketAddr::new(wish.ip(), port);
                let options = UdpOptions {
                    receive_buffer_bytes: 32 << 20,
                    send_buffer_bytes: 8 << 20,
                    ..UdpOptions::default()
                };
                let socket = UdpSocket::bind(addr, &options);
                let socket = socket.map_err(|error| StoneError::socket(format!("udp {addr}"), &error))?;
                let bound = socket.local_address();
                net.add_udp(listener, socket).map_err(|error| StoneError::socket("epoll", &error))?;
                Ok(if bound.ip().is_unspecified() { SocketAddr::new(local, bound.port()) } else { bound })
            };
            let none = self.callee.unwrap_or(SocketAddr::new(local, 5060));
            let caller = if self.roles == Roles::Callee { none } else { open(CALLER, self.caller)? };
            let callee = if self.roles == Roles::Caller { none } else { open(CALLEE, self.callee)? };
            let load = Arc::new(self.load(part, run, caller, callee));
            let answering = Answering {
                addr: callee,
                handler: self.handler.wrapping_add(part),
                ringing: self.ringing,
                ring: self.ring,
                retransmit: self.retransmit,
                calls_max: self.calls_max,
                seed: self.seed ^ u64::from(run),
            };
            let uac = (self.roles != Roles::Callee).then(|| Uac::new(load, CALLER, u64::from(part)));
            let uas = (self.roles != Roles::Caller).then(|| Uas::new(answering, CALLEE));
            threads.push((Ends { uac, uas }, net));
        }
        Ok(Prepared { run: self.clone(), threads })
    }
}

/// The address from which `target` is reached, or loopback.
fn local_ip(target: Option<SocketAddr>) -> Result<IpAddr, StoneError> {
    let Some(target) = target else { return Ok(IpAddr::from([127, 0, 0, 1])) };
    let any: SocketAddr = if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let found = Plain::bind(any).and_then(|socket| {
        socket.connect(target)?;
        socket.local_addr()
    });
    found.map(|addr| addr.ip()).map_err(|error| StoneError::socket(format!("no route to {target}"), &error))
}

/// A run whose sockets are open.
#[derive(Debug)]
pub struct Prepared {
    run: Run,
    threads: Vec<(Ends, Net)>,
}

/// What is told while a load runs, once a second.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Whole seconds since the load began.
    pub second: u64,
    /// What happened in it.
    pub happened: Second,
    /// Attempts in progress.
    pub open: u64,
    /// The generator's CPU time, in shares of one core.
    pub cpu: f64,
}

impl Prepared {
    /// The addresses of the answering ends.
    pub fn callees(&self) -> impl Iterator<Item = SocketAddr> {
        let nets = self.threads.iter().map(|(_, net)| net);
        nets.flat_map(|net| {
            net.sockets()
                .filter(|(listener, _)| *listener == CALLEE)
                .map(|(_, socket)| socket.local_address())
        })
    }

    /// Runs it to its end, or until `control.stop` is set.
    ///
    /// # Errors
    ///
    /// [`StoneError::Target`] if users could not be registered; [`StoneError::Socket`] if the kernel fails us.
    pub fn run(self, control: &Control, progress: &mut dyn FnMut(&Progress)) -> Result<Report, StoneError> {
        let Self { run, threads } = self;
        let count = threads.len();
        let callers = if run.roles.calls() { count } else { 0 };
        let (sender, samples) = channel();
        let started = clock::now();
        let cpu_before = clock::process_cpu();
        let mut points = Points::new(count);
        let mut watched = Watched::default();
        let finished = std::thread::scope(|scope| {
            let mut handles = Vec::new();
            for (ends, net) in threads {
                let sender = sender.clone();
                handles.push(scope.spawn(move || {
                    let finished = drive(ends, net, control, callers, &sender);
                    if finished.is_err() {
                        control.stop.store(true, Ordering::Relaxed);
                    }
                    control.ended.fetch_add(1, Ordering::AcqRel);
                    finished
                }));
            }
            drop(sender);
            watched = follow(&run, control, callers, &samples, &mut points, progress);
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<_>>()
        });
        let finished = finished.into_iter().collect::<Result<Vec<_>, _>>()?;
        points.drain(&samples, progress);
        let report = merge(
            &run,
            finished,
            points,
            &watched,
            clock::now() - started,
            clock::process_cpu().saturating_sub(cpu_before),
        );
        registered(&run, &report)?;
        Ok(report)
    }
}

/// CPU time of the watched processes over the on-interval.
#[derive(Debug, Default)]
struct Watched {
    before: Duration,
    after: Duration,
    on: Duration,
    registration: Duration,
}

/// Follows the threads: starts them together, collects their seconds, and measures others' CPU while the load is on.
fn follow(
    run: &Run,
    control: &Control,
    callers: usize,
    samples: &Receiver<Sample>,
    points: &mut Points,
    progress: &mut dyn FnMut(&Progress),
) -> Watched {
    let mut watched = Watched::default();
    let opened = clock::now();
    let tick = Duration::from_millis(20);
    if callers == 0 {
        while !control.stop.load(Ordering::Relaxed) {
            std::thread::sleep(tick);
        }
        return watched;
    }
    while control.ready.load(Ordering::Acquire) < callers {
        if control.stop.load(Ordering::Relaxed) {
            return watched;
        }
        std::thread::sleep(tick);
    }
    watched.registration = clock::now() - opened;
    let begin = clock::now() + Duration::from_millis(50);
    control.begin.store(begin.as_nanos(), Ordering::Release);
    let (from, to) = (begin + run.warm_up, begin + run.length);
    let (mut first, mut last) = (None, None);
    while control.done.load(Ordering::Acquire) < callers && control.ended.load(Ordering::Acquire) == 0 {
        let now = clock::now();
        if first.is_none() && now >= from {
            first = Some((now, run.watch.used()));
        }
        let over = now >= to || control.stop.load(Ordering::Relaxed);
        if last.is_none() && over {
            last = Some((now, run.watch.used()));
        }
        points.drain(samples, progress);
        std::thread::sleep(if over { Duration::from_millis(5) } else { tick });
    }
    // The last attempt may be over before the time is: then the load was on until now.
    let last = last.or_else(|| Some((clock::now(), run.watch.used())));
    if let (Some((start, before)), Some((end, after))) = (first, last) {
        watched = Watched { before, after, on: end - start, ..watched };
    }
    watched
}

fn registered(run: &Run, report: &Report) -> Result<(), StoneError> {
    if report.setup_failed == 0 {
        return Ok(());
    }
    let (kind, sample) = report
        .unexpected
        .0
        .iter()
        .next()
        .map(|(kind, u)| (kind.as_str(), u.sample.as_str()))
        .unwrap_or_default();
    let targets: Vec<String> = run.targets.iter().map(|target| target.addr.to_string()).collect();
    let first = sample.lines().next().unwrap_or_default();
    Err(StoneError::Target(format!(
        "{} of {} users could not be registered at {}: {kind}{}{first}",
        report.setup_failed,
        run.users.len(),
        targets.join(", "),
        if first.is_empty() { "" } else { "; first answer: " },
    )))
}

/// Seconds of all threads, put together.
#[derive(Debug)]
struct Points {
    threads: usize,
    /// The second, how many threads have told it, and what they told.
    open: Vec<(u64, usize, Progress)>,
    done: Vec<Point>,
}

impl Points {
    fn new(threads: usize) -> Self {
        Self { threads, open: Vec::new(), done: Vec::new() }
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds of one second fit a double")]
    fn drain(&mut self, samples: &Receiver<Sample>, progress: &mut dyn FnMut(&Progress)) {
        while let Ok(sample) = samples.try_recv() {
            let place =
                self.open.iter().position(|(second, _, _)| *second == sample.second).unwrap_or_else(|| {
                    let empty =
                        Progress { second: sample.second, happened: Second::default(), open: 0, cpu: 0.0 };
                    self.open.push((sample.second, 0, empty));
                    self.open.len() - 1
                });
            let Some((_, told, sum)) = self.open.get_mut(place) else { continue };
            *told += 1;
            sum.happened.merge(&sample.happened);
            sum.open += sample.open;
            sum.cpu += sample.cpu_us as f64 / 1e6;
            if *told == self.threads {
                let (_, _, sum) = self.open.swap_remove(place);
                progress(&sum);
                self.done.push(Point::of(&sum));
            }
        }
    }
}

fn merge(
    run: &Run,
    finished: Vec<Finished>,
    points: Points,
    watched: &Watched,
    took: Duration,
    process_cpu: Duration,
) -> Report {
    let mut counts = CallerCounts::default();
    let mut judged = CallerCounts::default();
    let mut answered = CalleeCounts::default();
    let mut unexpected = Kinds::default();
    let mut times = Times::default();
    let (mut drops, mut send_drops, mut setup_failed, mut open) = (0, 0, 0, 0);
    let mut cpu_max = 0.0_f64;
    let mut cpu = Duration::ZERO;
    let mut on = Duration::ZERO;
    for thread in finished {
        drops += thread.net.receive_overflows;
        send_drops += thread.net.send_overflows;
        cpu += thread.cpu;
        on = on.max(thread.on);
        if !thread.on.is_zero() {
            cpu_max = cpu_max.max(thread.cpu.as_secs_f64() / thread.on.as_secs_f64());
        }
        if let Some(uac) = thread.ends.uac {
            open += u64::try_from(uac.attempts()).unwrap_or(u64::MAX);
            setup_failed += u64::from(uac.setup_failed);
            counts.merge(&uac.counts);
            judged.merge(&uac.judged);
            unexpected.merge(&uac.unexpected);
            times.merge(&uac.times);
        }
        if let Some(uas) = thread.ends.uas {
            answered.merge(&uas.counts);
            unexpected.merge(&uas.unexpected);
        }
    }
    let mut series = points.done;
    series.extend(points.open.iter().map(|(_, _, sum)| Point::of(sum)));
    series.sort_by_key(|point| point.second);
    let mut report = Report {
        tool: format!("tandem stone {}", env!("CARGO_PKG_VERSION")),
        workload: run
            .mix
            .iter()
            .map(|&(workload, weight)| format!("{}:{weight}", workload.name()))
            .collect::<Vec<_>>()
            .join(","),
        targets: run.targets.iter().map(|target| target.addr.to_string()).collect(),
        seed: run.seed,
        threads: u64::from(run.threads),
        rate: run.ramp.to,
        seconds: (run.length - run.warm_up).as_secs_f64(),
        on_seconds: on.as_secs_f64(),
        took_seconds: took.as_secs_f64(),
        registration_seconds: watched.registration.as_secs_f64(),
        setup_failed,
        unfinished: open,
        receive_drops: drops,
        send_drops,
        generator_cpu_seconds: cpu.as_secs_f64(),
        generator_cpu_share: cpu_max,
        process_cpu_seconds: process_cpu.as_secs_f64(),
        counts,
        judged,
        callee: answered,
        unexpected,
        series,
        ..Report::default()
    };
    report.derive(&times);
    report.watch(watched.after.saturating_sub(watched.before), watched.on);
    report.times = times;
    report.void = audit(&report, run.roles, &run.limits);
    report
}
