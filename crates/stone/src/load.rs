//! What a load is: workloads, users, rates, limits; checked, with nothing left to guess.

use core::net::SocketAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use tandem_sip::Transport;

use crate::arrivals::{Ramp, Spacing};
use crate::dice::{Dice, secs};
use crate::users::{Choice, Users};

/// One kind of attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// SIPstone's Proxy 200: a registered user is called through the target and hangs up.
    Proxy200,
    /// A call whose Request-URI already names the answering end: SIPstone's outbound proxy test.
    Outbound,
    /// An INVITE that the target answers with 3xx: SIPstone's redirect test.
    Redirect,
    /// A registration.
    Register,
    /// An OPTIONS to the target itself.
    Options,
    /// An instant message (RFC 3428) to a registered user.
    Message,
    /// A subscription to presence (RFC 6665).
    Subscribe,
    /// A publication of presence (RFC 3903).
    Publish,
}

impl Workload {
    /// Every workload, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Proxy200,
        Self::Outbound,
        Self::Redirect,
        Self::Register,
        Self::Options,
        Self::Message,
        Self::Subscribe,
        Self::Publish,
    ];

    /// Its name in plans and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proxy200 => "proxy200",
            Self::Outbound => "outbound",
            Self::Redirect => "redirect",
            Self::Register => "register",
            Self::Options => "options",
            Self::Message => "message",
            Self::Subscribe => "subscribe",
            Self::Publish => "publish",
        }
    }

    /// The method of its first request.
    pub(crate) const fn method(self) -> &'static str {
        match self {
            Self::Proxy200 | Self::Outbound | Self::Redirect => "INVITE",
            Self::Register => "REGISTER",
            Self::Options => "OPTIONS",
            Self::Message => "MESSAGE",
            Self::Subscribe => "SUBSCRIBE",
            Self::Publish => "PUBLISH",
        }
    }

    /// Whether an attempt is a whole call, with an answering end of ours.
    #[must_use]
    pub const fn is_call(self) -> bool {
        matches!(self, Self::Proxy200 | Self::Outbound)
    }

    /// Whether users must be registered first, with the answering end as their contact.
    #[must_use]
    pub const fn needs_bindings(self) -> bool {
        matches!(self, Self::Proxy200 | Self::Redirect | Self::Message)
    }
}

impl core::str::FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| {
            "one of proxy200, outbound, redirect, register, options, message, subscribe, publish".to_owned()
        })
    }
}

/// When an unanswered request is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Retransmit {
    /// Never: each lost datagram is a failed attempt.
    None,
    /// On the timers of RFC 3261 until the attempt has failed, and never after: SIPstone.
    #[default]
    Sipstone,
    /// On the timers of RFC 3261 to their end, 32 s; an answer after the success limit is a late one.
    Rfc3261,
}

/// How long an answered call lasts.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// BYE at once.
    #[default]
    None,
    /// The same for all, in seconds.
    Constant(f64),
    /// Normal, cut off at zero; mean and standard deviation in seconds.
    Normal(f64, f64),
    /// Exponential, of the mean in seconds.
    Exponential(f64),
}

impl Hold {
    pub(crate) fn draw(self, dice: &mut Dice) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Constant(seconds) => secs(seconds),
            Self::Normal(mean, deviation) => secs(dice.normal(mean, deviation).max(0.0)),
            Self::Exponential(mean) => secs(dice.exponential(mean)),
        }
    }
}

impl core::str::FromStr for Hold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const REMEDY: &str = "seconds (`10`), `normal:60,30`, `exp:60` or `0`";
        let number = |text: &str| {
            text.trim_end_matches('s').parse::<f64>().ok().filter(|n| *n >= 0.0 && n.is_finite())
        };
        let wrong = || REMEDY.to_owned();
        if let Some(rest) = text.strip_prefix("normal:") {
            let (mean, deviation) = rest.split_once(',').ok_or_else(wrong)?;
            return Ok(Self::Normal(number(mean).ok_or_else(wrong)?, number(deviation).ok_or_else(wrong)?));
        }
        if let Some(rest) = text.strip_prefix("exp:") {
            return Ok(Self::Exponential(number(rest).ok_or_else(wrong)?));
        }
        let seconds = number(text).ok_or_else(wrong)?;
        Ok(if seconds == 0.0 { Self::None } else { Self::Constant(seconds) })
    }
}

/// Where requests inside a call go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum InDialog {
    /// Where RFC 3261 §12.2.1.1 says: the first Route, or else the remote target.
    #[default]
    Route,
    /// To the target always, as SIPp does; needed through a bare forwarder, which leaves no Record-Route.
    Target,
}

/// One place that the load is sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// Where.
    pub addr: SocketAddr,
    /// Its share of the load, relative to the others'.
    pub weight: u32,
}

/// One load, complete.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// Workloads and their weights; at least one.
    pub mix: Vec<(Workload, u32)>,
    /// Where it is sent; at least one.
    pub targets: Vec<Target>,
    /// The domain of all addresses-of-record.
    pub domain: String,
    /// The users that call and are called.
    pub users: Users,
    /// How the called one is picked.
    pub choice: Choice,
    /// Offered attempts a second.
    pub ramp: Ramp,
    /// Spacing of attempts.
    pub spacing: Spacing,
    /// Attempts due within so long a time begin together, at its end; zero: each at its own time.
    pub grain: Duration,
    /// How long attempts are begun, warm-up included.
    pub length: Duration,
    /// Attempts begun in this first part are not judged.
    pub warm_up: Duration,
    /// How long answered calls last.
    pub hold: Hold,
    /// An answer counts if it comes within this time from the intended start.
    pub within: Duration,
    /// When requests are repeated.
    pub retransmit: Retransmit,
    /// Where requests inside a call go.
    pub in_dialog: InDialog,
    /// Share of calls that are cancelled before their answer, 0 to 1.
    pub cancel: f64,
    /// Bytes of an INVITE, filled up in its body; smaller than the least possible means no filling.
    pub invite_bytes: usize,
    /// Whether users are registered before the load.
    pub register_first: bool,
    /// Whether bindings that earlier runs left are removed before that.
    pub clear_first: bool,
    /// Expires of registrations, in seconds.
    pub expires: u32,
    /// Most attempts in progress at once, per thread.
    pub calls_max: usize,
    /// The seed of all that is random.
    pub seed: u64,
    /// Tells the messages of this run from those of others; each thread has its own.
    pub run: u32,
    /// How messages travel.
    pub transport: Transport,
    /// The address put in Via and Contact of the calling end.
    pub caller_addr: SocketAddr,
    /// The address put in Contact of registered users and in Contact of the answering end.
    pub callee_addr: SocketAddr,
}

impl Load {
    /// One workload against one target, with every default.
    #[must_use]
    pub fn new(workload: Workload, target: SocketAddr, users: Users, rate: f64, length: Duration) -> Self {
        Self {
            mix: vec![(workload, 1)],
            targets: vec![Target { addr: target, weight: 1 }],
            domain: "localhost".to_owned(),
            users,
            choice: Choice::Uniform,
            ramp: Ramp::flat(rate),
            spacing: Spacing::Poisson,
            grain: Self::GRAIN,
            length,
            warm_up: Duration::ZERO,
            hold: Hold::None,
            within: Duration::from_secs(2),
            retransmit: Retransmit::Sipstone,
            in_dialog: InDialog::Route,
            cancel: 0.0,
            invite_bytes: 600,
            register_first: false,
            clear_first: true,
            expires: 3600,
            calls_max: 1_000_000,
            seed: 1,
            run: 1,
            transport: Transport::Udp,
            caller_addr: target,
            callee_addr: target,
        }
    }

    /// The grain unless told otherwise: what begins together goes through the kernel together, and the arrivals of
    /// every millisecond are still five.
    pub const GRAIN: Duration = Duration::from_micros(200);

    /// Whether some workload in it needs registered users.
    #[must_use]
    pub fn needs_bindings(&self) -> bool {
        self.mix.iter().any(|&(workload, weight)| weight > 0 && workload.needs_bindings())
    }
}
