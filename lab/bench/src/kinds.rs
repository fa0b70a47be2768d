//! What is measured: jobs, and who does them.

use serde::Serialize;

/// What a server is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Job {
    /// SIPstone's Proxy 200 with registered users: INVITE, 180, 200, ACK, BYE, 200; six messages in, six out.
    Proxy200,
    /// REGISTER without digest, kept in RAM.
    Register,
}

impl Job {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Proxy200 => "proxy200",
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
}

impl Subject {
    pub(crate) const ALL: [Self; 9] = [
        Self::Forwarder,
        Self::KamailioStateless,
        Self::TandemStateless,
        Self::KamailioStateful,
        Self::TandemStateful,
        Self::Reflector,
        Self::KamailioRegistrar,
        Self::TandemRegistrar,
        Self::TandemStatelessTwo,
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
        }
    }

    pub(crate) fn is_stateful(self) -> bool {
        matches!(self, Self::KamailioStateful | Self::TandemStateful)
    }

    pub(crate) fn is_sharded(self) -> bool {
        matches!(self, Self::TandemStatelessTwo)
    }

    /// True if the node is measured, false if something it is measured against.
    pub(crate) fn is_ours(self) -> bool {
        self.name().starts_with("tandem")
    }
}
