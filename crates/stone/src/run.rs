//! One run: sockets and threads for a load, from the first registration to the report.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::net::UdpSocket as Plain;
use std::sync::Arc;
use std::sync::mpsc::channel;

use tandem_net::{Net, NetOptions, UdpOptions, UdpSocket};
use tandem_sip::ListenerId;

use crate::arrivals::Ramp;
use crate::audit::Limits;
use crate::clock;
use crate::cpu::CpuOf;
use crate::drive::{CALLEE, CALLER, Control, Ends, drive};
use crate::error::StoneError;
use crate::follow::{Points, Progress, Watched, follow};
use crate::load::{Load, Workload};
use crate::outcome::{merge, registered};
use crate::report::Report;
use crate::target;
use crate::uac::Uac;
use crate::uas::{Answering, Uas};
use crate::users::Users;

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
    /// The answering end's address, in the same way; none takes any. Of several, each is an answering end of its own,
    /// all on one thread: a balancer's destinations.
    pub callees: Vec<SocketAddr>,
    /// What is offered, by all threads together. Its addresses, run number and whether users are registered are
    /// settled for each thread by [`Run::prepare`].
    pub load: Load,
    /// Whether users are registered first; `None`: if the mix needs it.
    pub register_first: Option<bool>,
    /// Whether the answering end sends 180.
    pub ringing: bool,
    /// How long it rings.
    pub ring: Duration,
    /// The number of the first thread's handler; stands in its tags.
    pub handler: u16,
    /// When the generator counts as the bottleneck.
    pub limits: Limits,
    /// Processes whose CPU time is measured over the on-interval.
    pub watch: CpuOf,
    /// Where the target tells its metrics (`http://HOST:PORT/metrics`), of which a balancer's times are reported.
    pub target_metrics: Option<String>,
    /// Batches, trains and how long a busy thread lets datagrams gather.
    pub net: NetOptions,
}

impl Run {
    /// SIPstone's Proxy 200 against one target, with every default.
    #[must_use]
    pub fn new(workload: Workload, target: SocketAddr, users: Users, rate: f64, length: Duration) -> Self {
        Self {
            roles: Roles::Both,
            threads: 1,
            caller: None,
            callees: Vec::new(),
            load: Load::new(workload, target, users, rate, length),
            register_first: None,
            ringing: true,
            ring: Duration::ZERO,
            handler: 0,
            limits: Limits::default(),
            watch: CpuOf::default(),
            target_metrics: None,
            net: net_options(),
        }
    }

    fn check(&self) -> Result<(), StoneError> {
        let (rate, of) = (self.load.ramp.to, usize::from(self.threads.max(1)));
        if self.roles.calls() && !(rate > 0.0 && rate.is_finite() && self.load.ramp.from >= 0.0) {
            return Err(StoneError::plan(
                "rate",
                &rate.to_string(),
                "a rate is above zero attempts a second",
            ));
        }
        if self.load.warm_up >= self.load.length && self.roles.calls() {
            return Err(StoneError::plan(
                "warm-up",
                &format!("{:?}", self.load.warm_up),
                "must be shorter than the run",
            ));
        }
        if self.load.mix.iter().all(|&(_, weight)| weight == 0) || self.load.targets.is_empty() {
            return Err(StoneError::plan("mix", "", "name at least one workload and one target"));
        }
        if of > 1 && self.load.users.len() < of {
            return Err(StoneError::plan(
                "users",
                &self.load.users.len().to_string(),
                "each thread needs a user of its own",
            ));
        }
        if self.callees.len() > 1 && of > 1 {
            return Err(StoneError::plan("callee", "", "several answering ends need --threads 1"));
        }
        Ok(())
    }

    fn load(&self, part: u16, run: u32, caller: SocketAddr, callee: SocketAddr) -> Load {
        let threads = self.threads.max(1);
        let Ramp { from, to, over } = self.load.ramp;
        let registers = matches!(self.roles, Roles::Both | Roles::Handler);
        Load {
            users: self.load.users.share(usize::from(part), usize::from(threads)),
            ramp: Ramp { from: from / f64::from(threads), to: to / f64::from(threads), over },
            register_first: self.register_first.unwrap_or(registers && self.load.needs_bindings()),
            run: run ^ u32::from(self.handler).wrapping_add(u32::from(part)).rotate_left(24),
            caller_addr: caller,
            callee_addr: callee,
            ..self.load.clone()
        }
    }

    /// Opens the sockets: whatever is wrong with addresses shows here, before a datagram leaves.
    ///
    /// # Errors
    ///
    /// [`StoneError::Plan`] for values that make no sense, [`StoneError::Socket`] for what the system refuses.
    pub fn prepare(&self) -> Result<Prepared, StoneError> {
        self.check()?;
        if let Some(url) = &self.target_metrics {
            target::read(url)?;
        }
        let target = self.load.targets.first().map(|target| target.addr);
        let local = local_ip(target)?;
        let stamp = clock::wall().as_nanos() ^ (u128::from(std::process::id()) << 40);
        let run = u32::try_from(stamp >> 10 & 0xffff_ff00).unwrap_or(1);
        let mut threads = Vec::new();
        for part in 0..self.threads.max(1) {
            let mut net = Net::new(self.net).map_err(|error| StoneError::socket("epoll", &error))?;
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
            let none = self.callees.first().copied().unwrap_or(SocketAddr::new(local, 5060));
            let caller = if self.roles == Roles::Callee { none } else { open(CALLER, self.caller)? };
            let wishes = if self.callees.is_empty() {
                vec![None]
            } else {
                self.callees.iter().copied().map(Some).collect()
            };
            let mut callees = Vec::new();
            for (place, wish) in (0..).zip(wishes).filter(|_| self.roles != Roles::Caller) {
                callees.push((place, open(ListenerId(CALLEE.0 + place), wish)?));
            }
            let callee = callees.first().map_or(none, |(_, addr)| *addr);
            let load = Arc::new(self.load(part, run, caller, callee));
            let answering = |place: u16, addr| Answering {
                addr,
                handler: self.handler.wrapping_add(part).wrapping_add(place),
                ringing: self.ringing,
                ring: self.ring,
                retransmit: self.load.retransmit,
                calls_max: self.load.calls_max,
                seed: self.load.seed ^ u64::from(run),
            };
            let uac = (self.roles != Roles::Callee).then(|| Uac::new(load, CALLER, u64::from(part)));
            let uas = callees.into_iter();
            let uas = uas.map(|(place, addr)| Uas::new(answering(place, addr), ListenerId(CALLEE.0 + place)));
            let uas = uas.collect();
            threads.push((Ends { uac, uas, gather: self.net.gather }, net));
        }
        Ok(Prepared { run: self.clone(), threads })
    }
}

/// Large batches, since a generator has nothing to do but to be quick.
pub(crate) fn net_options() -> NetOptions {
    NetOptions { batch: 256, ..NetOptions::default() }
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

impl Prepared {
    /// The addresses of the answering ends.
    pub fn callees(&self) -> impl Iterator<Item = SocketAddr> {
        let nets = self.threads.iter().map(|(_, net)| net);
        nets.flat_map(|net| {
            net.sockets()
                .filter(|(listener, _)| *listener != CALLER)
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
