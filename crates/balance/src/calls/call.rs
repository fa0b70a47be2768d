//! One entry of the call table: where a call is, how far it is, and what it weighs there.

use core::time::Duration;

use tandem_base::{Instant, Key, TimerId};
use tandem_sip::Method;

use crate::{Slot, Work};

/// A destination of one of the pools.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The pool, by its place in the configuration.
    pub pool: u16,
    /// The destination.
    pub slot: Slot,
}

/// How far a call is: Jiang et al., figure 4, and what that figure leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// `INV`: the INVITE is on its way or rings.
    Inv,
    /// `INV_200`: accepted, not acknowledged yet.
    Inv200,
    /// `ACK`: people talk.
    Ack,
    /// `BYE`: one of them hangs up.
    Bye,
    /// `BYE_200`: over; kept for its strays.
    Bye200,
    /// The INVITE got a 3xx to 6xx, a CANCEL, or nothing; kept for its ACK, its strays and a second try with
    /// credentials.
    Failed,
    /// A request outside calls, not answered yet.
    Request,
    /// A request outside calls that was answered; kept as a failed call is.
    Answered,
    /// The call goes on past us: its pool keeps out of the path.
    Away,
}

impl State {
    /// Whether it counts as a call on its destination.
    #[must_use]
    pub const fn is_call(self) -> bool {
        matches!(self, Self::Inv | Self::Inv200 | Self::Ack | Self::Bye)
    }

    /// Whether it belongs to the expired table: nothing of it weighs any more.
    #[must_use]
    pub const fn is_expired(self) -> bool {
        matches!(self, Self::Bye200 | Self::Failed | Self::Answered | Self::Away)
    }

    /// Its name, as figure 4 has it where it has one.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inv => "INV",
            Self::Inv200 => "INV_200",
            Self::Ack => "ACK",
            Self::Bye => "BYE",
            Self::Bye200 => "BYE_200",
            Self::Failed => "FAILED",
            Self::Request => "REQUEST",
            Self::Answered => "ANSWERED",
            Self::Away => "AWAY",
        }
    }
}

/// Why a call is where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The pool's policy chose it.
    Policy,
    /// The destination before failed.
    Failover,
    /// A response of the destination told it: the table had been empty.
    Learned,
}

impl Cause {
    /// In a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Failover => "failover",
            Self::Learned => "learned",
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// A BYE was answered.
    Bye,
    /// The INVITE was refused.
    Refused,
    /// The INVITE was cancelled (487).
    Cancelled,
    /// The INVITE got no final answer in time.
    NoAnswer,
    /// The 2xx got no ACK in time.
    NoAck,
    /// The BYE got no answer in time.
    LostBye,
    /// It was up for longer than any call may be.
    TooLong,
    /// One end said 481: it knows nothing of the call.
    Unknown,
    /// Its destination was removed.
    Removed,
    /// It goes on past us.
    Away,
}

impl Ending {
    /// All endings, in the order in which they are counted.
    pub const ALL: [Self; 10] = [
        Self::Bye,
        Self::Refused,
        Self::Cancelled,
        Self::NoAnswer,
        Self::NoAck,
        Self::LostBye,
        Self::TooLong,
        Self::Unknown,
        Self::Removed,
        Self::Away,
    ];

    /// The label of its metric.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bye => "bye",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::NoAnswer => "no_answer",
            Self::NoAck => "no_ack",
            Self::LostBye => "lost_bye",
            Self::TooLong => "too_long",
            Self::Unknown => "unknown",
            Self::Removed => "removed",
            Self::Away => "away",
        }
    }
}

/// How long each state may last; every entry has a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// A request without any response: 64·T1 and what the network may add.
    pub trying: Duration,
    /// An INVITE since its last provisional response (RFC 3261 §16.6 step 11: more than three minutes).
    pub ringing: Duration,
    /// A call without a sign of life.
    pub call_max: Duration,
    /// What is over, for strays and second tries: 64·T1 covers every retransmission.
    pub expired: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            trying: Duration::from_secs(40),
            ringing: Duration::from_secs(190),
            call_max: Duration::from_secs(12 * 3600),
            expired: Duration::from_secs(34),
        }
    }
}

/// A request that its destination works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) is_open: bool,
    /// Whether there was one at all.
    pub(crate) was_any: bool,
    pub(crate) method: Method,
    pub(crate) cseq: u32,
    /// Microseconds, modulo 2³².
    pub(crate) began: u32,
    /// Microseconds until its first response; 0 before that.
    pub(crate) took: u32,
    pub(crate) work: Work,
}

impl Open {
    pub(crate) fn none(method: Method) -> Self {
        Self { is_open: false, was_any: false, method, cseq: 0, began: 0, took: 0, work: Work::default() }
    }

    /// Notes the first response: how long a phone rings says nothing of its server.
    pub(crate) fn heard(&mut self, now: Instant) {
        if self.is_open && self.took == 0 {
            self.took = micros(now).wrapping_sub(self.began).max(1);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "differences of up to an hour are what is asked for")]
pub(crate) const fn micros(now: Instant) -> u32 {
    (now.as_nanos() / 1_000) as u32
}

/// One entry.
#[derive(Clone, Debug)]
pub struct Call {
    /// Halves of the hash; a `u128` would be aligned to sixteen octets.
    pub(crate) hash: [u64; 2],
    pub(crate) place: Place,
    pub(crate) state: State,
    pub(crate) cause: Cause,
    /// Whether the last final answer asked for credentials.
    pub(crate) challenged: bool,
    pub(crate) cancelled: bool,
    /// Calls that were ahead of it on its destination, 65,535 and above as one.
    pub(crate) ahead: u16,
    /// Hash of the caller's tag.
    pub(crate) caller: u32,
    /// When it came.
    pub(crate) since_secs: u32,
    /// The INVITE (of the call, or the latest within it).
    pub(crate) invite: Open,
    /// Any other request.
    pub(crate) other: Open,
    pub(crate) deadline: Instant,
    pub(crate) timer: Option<TimerId>,
    /// The copy of its first request, while it may still go elsewhere.
    pub(crate) copy: Option<Key>,
}

impl Call {
    /// Where it is.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Why it is there.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        self.cause
    }

    /// How many calls its destination had when it came.
    #[must_use]
    pub const fn ahead(&self) -> u16 {
        self.ahead
    }

    /// When it came, in seconds of the balancer's clock.
    #[must_use]
    pub const fn since_secs(&self) -> u32 {
        self.since_secs
    }

    pub(crate) const fn hash(&self) -> u128 {
        let [low, high] = self.hash;
        (high as u128) << 64 | low as u128
    }
}
