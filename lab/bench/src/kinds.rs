//! What is measured: jobs, and who does them.

use std::time::Duration;

use serde::Serialize;

/// What a server is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Job {
    /// SIPstone's Proxy 200 with registered users: INVITE, 180, 200, ACK, BYE, 200; six messages in, six out.
    Proxy200,
    /// REGISTER without digest, kept in RAM.
    Register,
    /// The calls of Proxy 200 without any user registered, spread over [`CALLEES`] answering ends.
    Balance,
    /// The same with conversations of [`PAUSES`]: what Jiang et al. call pauses.
    Pauses,
}

/// Jiang's are of 60 s and 30 s; a shorter run fills the table with as many calls a rate.
pub(crate) const PAUSES: &str = "normal:4,2";
/// Load before the conversations that begin are as many as those that end.
pub(crate) const PAUSES_WARM_UP: Duration = Duration::from_secs(9);

/// Answering ends of [`Job::Balance`] and [`Job::Pauses`].
pub(crate) const CALLEES: usize = 8;

impl Job {
    pub(crate) const ALL: [Self; 4] = [Self::Proxy200, Self::Register, Self::Balance, Self::Pauses];

    /// Whether calls are spread over answering ends that need not register.
    pub(crate) fn is_balanced(self) -> bool {
        matches!(self, Self::Balance | Self::Pauses)
    }

    /// Load at least that comes before what is judged.
    pub(crate) fn warm_up(self) -> Duration {
        match self {
            Self::Pauses => PAUSES_WARM_UP,
            Self::Proxy200 | Self::Register | Self::Balance => Duration::from_secs(1),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Proxy200 => "proxy200",
            Self::Register => "register",
            Self::Balance => "balance",
            Self::Pauses => "pauses",
        }
    }

    /// The driver's name for its calls.
    pub(crate) fn workload(self) -> &'static str {
        match self {
            Self::Proxy200 | Self::Balance | Self::Pauses => "proxy200",
            Self::Register => "register",
        }
    }
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Subject {
    /// recvmmsg and sendmmsg, and no look into the message.
    Forwarder,
    /// Kamailio, `forward()`.
    KamailioStateless,
    /// The node, `mode = "stateless"`.
    TandemStateless,
    /// Kamailio, `t_relay()`.
    KamailioStateful,
    /// The node, `mode = "stateful"`.
    TandemStateful,
    /// Answers each datagram with itself as a 200.
    Reflector,
    /// Kamailio, `save("location")`, `db_mode` 0.
    KamailioRegistrar,
    /// The node, `durability = "memory"`.
    TandemRegistrar,
    /// The node with two shards, not pinned to one core.
    TandemStatelessTwo,
    /// The forwarder again, with one answering end: the bar of the balancers.
    BalanceForwarder,
    /// Kamailio's dispatcher, algorithm 0: hash of the Call-ID.
    KamailioHash,
    /// Kamailio's dispatcher, algorithm 10: fewest calls.
    KamailioCallLoad,
    /// The node with a pool and nothing else, `policy = "tlwl"`.
    TandemBalancer,
    /// The same, where calls last.
    TandemBalancerPauses,
}

impl Subject {
    pub(crate) const ALL: [Self; 14] = [
        Self::Forwarder,
        Self::KamailioStateless,
        Self::TandemStateless,
        Self::KamailioStateful,
        Self::TandemStateful,
        Self::Reflector,
        Self::KamailioRegistrar,
        Self::TandemRegistrar,
        Self::TandemStatelessTwo,
        Self::BalanceForwarder,
        Self::KamailioHash,
        Self::KamailioCallLoad,
        Self::TandemBalancer,
        Self::TandemBalancerPauses,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forwarder => "forwarder",
            Self::KamailioStateless => "kamailio-stateless",
            Self::TandemStateless => "tandem-stateless",
            Self::KamailioStateful => "kamailio-stateful",
            Self::TandemStateful => "tandem-stateful",
            Self::Reflector => "reflector",
            Self::KamailioRegistrar => "kamailio-registrar",
            Self::TandemRegistrar => "tandem-registrar",
            Self::TandemStatelessTwo => "tandem-stateless-2",
            Self::BalanceForwarder => "balance-forwarder",
            Self::KamailioHash => "kamailio-hash",
            Self::KamailioCallLoad => "kamailio-call-load",
            Self::TandemBalancer => "tandem-balancer",
            Self::TandemBalancerPauses => "tandem-balancer-pauses",
        }
    }

    /// As a row of a table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Forwarder => "bare forwarder",
            Self::KamailioStateless => "Kamailio, stateless",
            Self::TandemStateless => "Tandem, stateless",
            Self::KamailioStateful => "Kamailio, stateful",
            Self::TandemStateful => "Tandem, stateful",
            Self::Reflector => "bare reflector",
            Self::KamailioRegistrar => "Kamailio, bindings in RAM",
            Self::TandemRegistrar => "Tandem, bindings in RAM",
            Self::TandemStatelessTwo => "Tandem, stateless, two shards",
            Self::BalanceForwarder => "bare forwarder",
            Self::KamailioHash => "Kamailio dispatcher, hash of the Call-ID",
            Self::KamailioCallLoad => "Kamailio dispatcher, fewest calls",
            Self::TandemBalancer | Self::TandemBalancerPauses => "Tandem, TLWL",
        }
    }

    pub(crate) fn job(self) -> Job {
        match self {
            Self::Forwarder
            | Self::KamailioStateless
            | Self::TandemStateless
            | Self::KamailioStateful
            | Self::TandemStateful
            | Self::TandemStatelessTwo => Job::Proxy200,
            Self::Reflector | Self::KamailioRegistrar | Self::TandemRegistrar => Job::Register,
            Self::BalanceForwarder | Self::KamailioHash | Self::KamailioCallLoad | Self::TandemBalancer => {
                Job::Balance
            }
            Self::TandemBalancerPauses => Job::Pauses,
        }
    }

    /// Whether it keeps what is finished for a while, so that it is warm only after that.
    pub(crate) fn is_stateful(self) -> bool {
        matches!(
            self,
            Self::KamailioStateful
                | Self::TandemStateful
                | Self::KamailioCallLoad
                | Self::TandemBalancer
                | Self::TandemBalancerPauses
        )
    }

    /// Whether it only copies datagrams, and answers nothing of its own.
    pub(crate) fn is_bare(self) -> bool {
        matches!(self, Self::Forwarder | Self::Reflector | Self::BalanceForwarder)
    }

    pub(crate) fn is_forwarder(self) -> bool {
        matches!(self, Self::Forwarder | Self::BalanceForwarder)
    }

    /// How many answering ends it spreads its calls over.
    pub(crate) fn callees(self) -> usize {
        match self.job() {
            Job::Balance | Job::Pauses if !self.is_bare() => CALLEES,
            Job::Balance | Job::Pauses | Job::Proxy200 | Job::Register => 1,
        }
    }

    pub(crate) fn is_sharded(self) -> bool {
        matches!(self, Self::TandemStatelessTwo)
    }

    /// True if the node is measured, false if something it is measured against.
    pub(crate) fn is_ours(self) -> bool {
        self.name().starts_with("tandem")
    }
}
