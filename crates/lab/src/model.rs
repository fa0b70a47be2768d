//! What is modelled, with every parameter: servers, their costs and stalls, the load, the wire.
//!
//! The servers are those of Jiang et al.: Java servers of one CPU that carry about 300 calls a second, INVITE : BYE =
//! 1.75 : 1. Two things in the paper's figures can't come from queueing alone. At 25 calls a second per server (A11:
//! 200 over 8) they are idle nine tenths of the time, yet answer in 15 ms where the policy doesn't look, and in 2 ms
//! where it avoids busy servers; so now and then a server stands still. [`Stalls`] is that: its length and spacing
//! give the 15 ms and are not fitted to anything else.

use core::time::Duration;

use serde::Serialize;

/// What a server's work costs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Costs {
    /// CPU time of one call on a server of speed 1: an INVITE and a BYE, on average.
    pub call: Duration,
    /// How much dearer an INVITE is than a BYE.
    pub invite_to_bye: f64,
    /// A repeated request costs this part of the first one: it is parsed and its answer sent again.
    pub repeat: f64,
    /// Service times are sums of so many exponential ones: 1 is exponential, more is more even.
    pub shape: u32,
    /// A MESSAGE, a PUBLISH and a SUBSCRIBE cost so many BYEs.
    pub single_to_bye: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            call: Duration::from_nanos(3_333_333),
            invite_to_bye: 1.75,
            repeat: 0.25,
            shape: 2,
            single_to_bye: 1.0,
        }
    }
}

impl Costs {
    /// Mean service time of a BYE, in seconds.
    #[must_use]
    pub fn bye(&self) -> f64 {
        self.call.as_secs_f64() / (1.0 + self.invite_to_bye)
    }

    /// Mean service time of an INVITE, in seconds.
    #[must_use]
    pub fn invite(&self) -> f64 {
        self.bye() * self.invite_to_bye
    }

    /// Calls a second that keep a server of speed 1 busy all the time.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        1.0 / self.call.as_secs_f64()
    }
}

/// A server stands still now and then, as a Java server does that collects its garbage.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stalls {
    /// Mean time from one stall's end to the next; drawn evenly between half and one and a half of it.
    pub every: Duration,
    /// The shortest.
    pub least: Duration,
    /// The longest; lengths are drawn evenly.
    pub most: Duration,
}

impl Default for Stalls {
    /// 3 % of the time, 0.47 s on average to the end of a stall from within one: 14 ms for a request that comes at any
    /// time, which with 2 ms of service is the paper's figure.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(30),
            least: Duration::from_millis(600),
            most: Duration::from_millis(1200),
        }
    }
}

/// All servers, and the wire to them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Model {
    /// What work costs.
    pub costs: Costs,
    /// Stalls, if servers have them.
    pub stalls: Option<Stalls>,
    /// Messages that wait in front of a server at most; what comes then is lost.
    pub queue_max: usize,
    /// From the balancer to a server, and back.
    pub one_way: Duration,
    /// Callers give up after this time without a final answer. Timers B and F would let them wait for 32 s, which makes
    /// no rate sustainable that is not, but lets overload show half a minute later.
    pub give_up: Duration,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            costs: Costs::default(),
            stalls: Some(Stalls::default()),
            queue_max: 4096,
            one_way: Duration::from_micros(100),
            give_up: Duration::from_secs(10),
        }
    }
}

/// One server.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// 1 does [`Costs::capacity`] calls a second.
    pub speed: f64,
    /// What the balancer is told of its capacity.
    pub capacity: Option<u32>,
    /// What the balancer is told of its weight.
    pub weight: u16,
    /// The cluster it belongs to.
    pub cluster: Option<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self { speed: 1.0, capacity: None, weight: 1, cluster: None }
    }
}

/// How long people talk: a normal distribution without its negative part.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Hold {
    /// Its mean.
    pub mean: Duration,
    /// Its standard deviation.
    pub deviation: Duration,
}

impl Hold {
    /// A15: mean 60 s, deviation 30 s (which the paper calls a variance).
    pub const PAPER: Self = Self { mean: Duration::from_secs(60), deviation: Duration::from_secs(30) };
    /// A15 without pauses: the BYE follows the ACK at once.
    pub const NONE: Self = Self { mean: Duration::ZERO, deviation: Duration::ZERO };

    /// After this long, all but two in a hundred calls have ended.
    #[must_use]
    pub fn mostly_over(&self) -> Duration {
        self.mean + 2 * self.deviation
    }
}

/// Who is called.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Callees {
    /// SIPp's `service`, always.
    #[default]
    Service,
    /// One of these, each as often as any other.
    Users(Vec<String>),
}

/// The load: an open loop of Poisson arrivals.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Calls begun a second.
    pub rate: f64,
    /// The rate grows from nothing over this time.
    pub ramp: Duration,
    /// Then this passes unjudged.
    pub warm_up: Duration,
    /// Requests begun in this time after that are judged.
    pub judged: Duration,
    /// How long people talk.
    pub hold: Hold,
    /// Requests outside calls a second: MESSAGE, PUBLISH and SUBSCRIBE in turn.
    pub singles: f64,
    /// Who is called.
    pub callees: Callees,
}

/// What control experiments change, to see whether a suspected reason is one. No policy is changed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Controls {
    /// The BYE of this part of all calls goes past the balancer, which goes on counting them: a count that leaks, as that
    /// of Jiang's figure 4 does where a call does not end by a 200 to BYE.
    pub leak: f64,
    /// BYEs are answered at once and cost nothing, also while the server stands still: counts of calls tell nothing of
    /// stalls then.
    pub has_instant_byes: bool,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Everything that is drawn follows from it.
    pub seed: u64,
    /// The model's parameters.
    pub model: Model,
    /// The servers.
    pub servers: Vec<Server>,
    /// The policy and its settings.
    pub policy: tandem_balance::PolicySettings,
    /// Balancers that know nothing of each other; each call comes by one of them, drawn evenly.
    pub balancers: usize,
    /// The load.
    pub profile: Profile,
    /// For control experiments.
    pub controls: Controls,
    /// End the run when so many judged requests have failed.
    pub failures_max: Option<u64>,
}

impl Run {
    /// Calls a second that all servers together could carry.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.servers.iter().map(|server| server.speed).sum::<f64>() * self.model.costs.capacity()
    }
}
