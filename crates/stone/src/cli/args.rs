//! The options that all loads share.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::net::ToSocketAddrs;
use std::path::PathBuf;

use clap::Args;
use tandem_net::NetOptions;

use crate::arrivals::{Ramp, Spacing};
use crate::audit::Limits;
use crate::cpu::CpuOf;
use crate::dns;
use crate::error::StoneError;
use crate::load::{Hold, InDialog, Load, Retransmit, Target, Workload};
use crate::run::{Roles, Run, net_options};
use crate::users::{Choice, Users};

/// Options of a load.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Where the load goes: `sip:HOST[:PORT]` or `HOST:PORT`, with `;weight=N` if there are several. A name without a
    /// port becomes the servers of its NAPTR and SRV records, by their weights.
    #[arg(long, value_name = "URI")]
    pub target: Vec<String>,
    /// Ask this name server about targets, instead of the system's.
    #[arg(long, value_name = "ADDR:PORT")]
    pub dns: Option<SocketAddr>,
    /// Attempts begun a second.
    #[arg(long, default_value_t = 100.0)]
    pub rate: f64,
    /// Start at this rate and grow to --rate over --ramp.
    #[arg(long, default_value_t = 0.0)]
    pub rate_from: f64,
    /// How long the rate grows; 0: not at all.
    #[arg(long, value_parser = seconds, default_value = "0s")]
    pub ramp: Duration,
    /// How long attempts are begun [default: 60s; the answering end alone: until it is interrupted].
    #[arg(long = "for", value_parser = seconds, value_name = "TIME")]
    pub length: Option<Duration>,
    /// The first part of that, which is not judged.
    #[arg(long, value_parser = seconds, default_value = "0s", value_name = "TIME")]
    pub warm_up: Duration,
    /// Spacing of attempts.
    #[arg(long, value_enum, default_value_t = Spacing::Poisson)]
    pub arrivals: Spacing,
    /// Attempts due within so long a time begin together, at its end; 0us: each at its own time.
    #[arg(long, value_parser = seconds, default_value = "200us", value_name = "TIME")]
    pub grain: Duration,
    /// Seed of all that is random; the same seed gives the same load.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Users: a number, `u000..u099`, `alice,bob` or `@FILE` (CSV: user,password).
    #[arg(long, default_value = "100")]
    pub users: String,
    /// Password of users that have none of their own; without one, challenges are failures.
    #[arg(long, default_value = "")]
    pub password: String,
    /// Domain of all addresses-of-record.
    #[arg(long, default_value = "localhost")]
    pub domain: String,
    /// How the called user is picked: uniform, zipf, 60:40.
    #[arg(long, default_value = "uniform")]
    pub choice: Choice,
    /// Workloads and weights, for `mix`.
    #[arg(long, value_name = "NAME:N,..", default_value = "proxy200:1")]
    pub mix: String,
    /// How long answered calls last: `0`, `10`, `normal:60,30`, `exp:60` (seconds).
    #[arg(long, default_value = "0")]
    pub hold: Hold,
    /// Time within which each wanted answer must come.
    #[arg(long, value_parser = seconds, default_value = "2s", value_name = "TIME")]
    pub within: Duration,
    /// Share of calls that are cancelled (`5%`), up to 250 ms after the first provisional answer, unless they are
    /// answered by then. Such a call succeeds with a 487, or as others do if the 200 was faster.
    #[arg(long, value_parser = share, default_value = "0%", value_name = "SHARE")]
    pub cancel: f64,
    /// When requests are repeated.
    #[arg(long, value_enum, default_value_t = Retransmit::Sipstone)]
    pub retransmit: Retransmit,
    /// Where requests inside a call go.
    #[arg(long, value_enum, default_value_t = InDialog::Route)]
    pub in_dialog: InDialog,
    /// Bytes of an INVITE.
    #[arg(long, default_value_t = 600)]
    pub invite_bytes: usize,
    /// Register the users first, whatever the workload.
    #[arg(long, conflicts_with = "no_register")]
    pub register_first: bool,
    /// Do not register users, whatever the workload.
    #[arg(long)]
    pub no_register: bool,
    /// Keep bindings that earlier runs left; calls may then go to ends that are gone.
    #[arg(long)]
    pub keep_bindings: bool,
    /// Expires of registrations, subscriptions and publications, in seconds.
    #[arg(long, default_value_t = 3600)]
    pub expires: u32,
    /// Address of the calling end [default: any port of the address that reaches the target].
    #[arg(long, value_name = "ADDR:PORT")]
    pub caller: Option<SocketAddr>,
    /// Address of the answering end; several, separated by commas, for the destinations of a balancer.
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',')]
    pub callee: Vec<SocketAddr>,
    /// Do not send 180.
    #[arg(long)]
    pub no_ringing: bool,
    /// How long the answering end rings.
    #[arg(long, value_parser = seconds, default_value = "0s", value_name = "TIME")]
    pub ring: Duration,
    /// Number of the answering end, by which strayed requests are told.
    #[arg(long, default_value_t = 0)]
    pub handler: u16,
    /// Threads; each takes its share of users and rate.
    #[arg(long, default_value_t = 1)]
    pub threads: u16,
    /// Most attempts in progress, per thread.
    #[arg(long, default_value_t = 1_000_000)]
    pub calls_max: usize,
    /// The 99th percentile of the generator's lateness that voids a run.
    #[arg(long, value_parser = seconds, default_value = "10ms", value_name = "TIME")]
    pub lateness_max: Duration,
    /// Measure the CPU time of this process and its descendants over the judged part.
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Measure the CPU time of this cgroup (a directory).
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// Report what the target tells of itself there over the judged part: how long its balancer took to decide and to
    /// forward, as in http://127.0.0.1:9090/metrics.
    #[arg(long, value_name = "URL")]
    pub target_metrics: Option<String>,
    /// How long a busy thread may let datagrams gather; up to that much is added to lateness and latencies.
    #[arg(long, value_parser = seconds, default_value = "0s", value_name = "TIME")]
    pub gather: Duration,
    /// Send each message by itself. Without this, messages of one size to one peer go through the kernel as one; on
    /// loopback a server of several sockets with one address then sees only the first of them when it steers.
    #[arg(long)]
    pub no_trains: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write result.json, stat.csv and report.html there.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// No progress lines.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Reads `10`, `10s`, `250ms`, `5m`, `1h`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) =
        units.iter().find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit))).unwrap_or((text, 1.0));
    let value: f64 = number.trim().parse().map_err(|_| "a time, such as 60s, 250ms, 5m".to_owned())?;
    Duration::try_from_secs_f64(value * unit).map_err(|_| "a time cannot be negative".to_owned())
}

/// Reads `5%` or `0.05`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|number| number / of);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "a share, such as 5%".to_owned())
}

/// Reads one target. A name without a port may become several, by NAPTR and SRV.
pub(crate) fn target(text: &str, dns: Option<SocketAddr>) -> Result<Vec<Target>, StoneError> {
    let wrong = |why: &str| StoneError::plan("target", text, why);
    let uri = text.strip_prefix("sip:").unwrap_or(text);
    let (host, params) = uri.split_once(';').unwrap_or((uri, ""));
    let mut weight = 1;
    for param in params.split(';').filter(|param| !param.is_empty()) {
        match param.split_once('=') {
            Some(("weight", value)) => {
                let value = value.parse().ok().filter(|weight| (1..=10_000).contains(weight));
                weight = value.ok_or_else(|| wrong("a weight is a number from 1 to 10000"))?;
            }
            Some(("transport", "udp")) => {}
            Some(("transport", _)) => return Err(wrong("only transport=udp is spoken")),
            Some(_) | None => return Err(wrong("a target may have the parameters weight and transport")),
        }
    }
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let literal = host.parse().ok().or_else(|| Some(SocketAddr::new(ip.ok()?, 5060)));
    if let Some(addr) = literal {
        return Ok(vec![Target { addr, weight }]);
    }
    if host.contains(':') {
        let mut found =
            host.to_socket_addrs().map_err(|error| wrong(&format!("cannot be resolved: {error}")))?;
        let addr = found.next().ok_or_else(|| wrong("has no address"))?;
        return Ok(vec![Target { addr, weight }]);
    }
    if host == "localhost" {
        return Ok(vec![Target { addr: ([127, 0, 0, 1], 5060).into(), weight }]);
    }
    dns::targets(host, dns, weight).map_err(|why| wrong(&format!("cannot be resolved: {why}")))
}

pub(crate) fn mix(text: &str) -> Result<Vec<(Workload, u32)>, StoneError> {
    text.split(',')
        .map(|part| {
            let (name, weight) = part.trim().split_once(':').unwrap_or((part.trim(), "1"));
            let workload = name.parse().map_err(|why: String| StoneError::plan("mix", name, &why))?;
            let weight = weight
                .parse()
                .map_err(|_| StoneError::plan("mix", part, "a weight is a whole number, as in proxy200:3"))?;
            Ok((workload, weight))
        })
        .collect()
}

impl LoadArgs {
    /// The profile of long calls, where its options were left at their defaults: 1 call/s growing, hold times normal
    /// 60 s / 30 s, 10 minutes of warm-up and 3 of run.
    #[must_use]
    pub(crate) fn with_profile(&self) -> Self {
        let mut args = self.clone();
        if args.hold == Hold::None {
            args.hold = Hold::Normal(60.0, 30.0);
        }
        if args.warm_up.is_zero() && args.length.is_none() {
            args.warm_up = Duration::from_secs(600);
            args.length = Some(Duration::from_secs(780));
        }
        if args.ramp.is_zero() {
            args.rate_from = 1.0;
            args.ramp = args.warm_up / 2;
        }
        args
    }

    /// As a run, checked.
    pub(crate) fn to_run(&self, workload: Option<Workload>, roles: Roles) -> Result<Run, StoneError> {
        let targets = if self.target.is_empty() && roles == Roles::Callee {
            vec![Target {
                addr: self.callee.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 5060).into()),
                weight: 1,
            }]
        } else {
            self.target.iter().map(|text| target(text, self.dns)).collect::<Result<Vec<_>, _>>()?.concat()
        };
        if targets.is_empty() {
            return Err(StoneError::plan(
                "target",
                "",
                "say where the load goes, as in --target sip:127.0.0.1:5060",
            ));
        }
        let mix = match workload {
            Some(workload) => vec![(workload, 1)],
            None => mix(&self.mix)?,
        };
        let ramp = if self.ramp.is_zero() {
            Ramp::flat(self.rate)
        } else {
            Ramp { from: self.rate_from, to: self.rate, over: self.ramp.as_secs_f64() }
        };
        let target = targets.first().map_or_else(|| ([127, 0, 0, 1], 5060).into(), |target| target.addr);
        let length = self.length.unwrap_or(Duration::from_secs(60));
        Ok(Run {
            roles,
            threads: self.threads,
            caller: self.caller,
            callees: self.callee.clone(),
            load: Load {
                mix,
                targets,
                domain: self.domain.clone(),
                choice: self.choice,
                ramp,
                spacing: self.arrivals,
                grain: self.grain,
                warm_up: self.warm_up,
                hold: self.hold,
                within: self.within,
                retransmit: self.retransmit,
                in_dialog: self.in_dialog,
                cancel: self.cancel,
                invite_bytes: self.invite_bytes,
                clear_first: !self.keep_bindings,
                expires: self.expires,
                calls_max: self.calls_max,
                seed: self.seed,
                ..Load::new(
                    Workload::Proxy200,
                    target,
                    Users::parse(&self.users, &self.password)?,
                    self.rate,
                    length,
                )
            },
            register_first: if self.no_register { Some(false) } else { self.register_first.then_some(true) },
            ringing: !self.no_ringing,
            ring: self.ring,
            handler: self.handler,
            limits: Limits { lateness: self.lateness_max, ..Limits::default() },
            watch: CpuOf { pids: self.pid.clone(), cgroup: self.cgroup.clone() },
            target_metrics: self.target_metrics.clone(),
            net: NetOptions { gather: self.gather, trains: !self.no_trains, ..net_options() },
        })
    }
}
