//! What both server machines are made of.

use tandem_base::Key;
use tandem_sip::{Hop, Message, Outbox};

use crate::invite_server::InviteServer;
use crate::non_invite_server::NonInviteServer;
use crate::shared::Cx;
use crate::timer::Timers;
use crate::write::OWN;
use crate::{Event, Timer};

/// Names a server transaction; finds nothing once that is over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerId(pub(crate) Key);

impl ServerId {
    /// The id as a number, never 0.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The id of [`ServerId::to_bits`]; `None` for a number that is none.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        Key::from_bits(bits).map(Self)
    }
}

/// A server transaction of either kind.
#[derive(Debug)]
pub(crate) enum Server {
    Invite(InviteServer),
    Other(NonInviteServer),
}

impl Server {
    pub(crate) fn core(&self) -> &ServerCore {
        match self {
            Self::Invite(machine) => &machine.core,
            Self::Other(machine) => &machine.core,
        }
    }

    pub(crate) fn core_mut(&mut self) -> &mut ServerCore {
        match self {
            Self::Invite(machine) => &mut machine.core,
            Self::Other(machine) => &mut machine.core,
        }
    }

    pub(crate) fn is_terminated(&self) -> bool {
        match self {
            Self::Invite(machine) => machine.is_terminated(),
            Self::Other(machine) => machine.is_terminated(),
        }
    }

    pub(crate) fn fire(&mut self, timer: Timer, cx: &mut Cx<'_>, out: &mut Outbox) {
        match self {
            Self::Invite(machine) => machine.fire(timer, cx, out),
            Self::Other(machine) => machine.fire(timer, cx),
        }
    }

    pub(crate) fn transport_error(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Invite(machine) => machine.transport_error(cx),
            Self::Other(machine) => machine.transport_error(cx),
        }
    }
}

/// State and deeds common to both machines. Nothing in here looks at a machine's state.
#[derive(Debug)]
pub(crate) struct ServerCore {
    pub(crate) id: ServerId,
    /// Both halves of the request's hash; as a `u128` its alignment would waste eight bytes.
    hash: [u64; 2],
    pub(crate) user: u64,
    /// Where responses go.
    pub(crate) hop: Hop,
    /// The response to repeat, over an unreliable transport.
    kept: Option<Box<[u8]>>,
    timers: Timers,
    /// For the INVITE of an RFC 2543 element: the base of its hash, and its ACK's hash once known.
    legacy: Option<Box<(u128, Option<u128>)>>,
}

impl ServerCore {
    pub(crate) fn new(key: Key, hash: u128, legacy: Option<u128>, hop: Hop, user: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
        let hash = [hash as u64, (hash >> 64) as u64];
        let legacy = legacy.map(|base| Box::new((base, None)));
        Self { id: ServerId(key), hash, user, hop, kept: None, timers: Timers::default(), legacy }
    }

    /// The hash of the request.
    pub(crate) fn hash(&self) -> u128 {
        let [low, high] = self.hash;
        u128::from(high) << 64 | u128::from(low)
    }

    /// The hash of the ACK, where it has one of its own.
    pub(crate) fn legacy_ack(&self) -> Option<u128> {
        self.legacy.as_ref().and_then(|legacy| legacy.1)
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.hop.transport.is_reliable()
    }

    /// Sends a response that need not be repeated.
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut Vec<u8>), out: &mut Outbox) {
        out.write(self.hop, write);
    }

    /// Sends a response and keeps it for repetition, if the transport may lose it.
    pub(crate) fn send_and_keep(&mut self, write: impl FnOnce(&mut Vec<u8>), out: &mut Outbox) {
        self.send(write, out);
        if !self.is_reliable() {
            self.kept = Some(out.last().into());
        }
    }

    /// Sends the kept response again.
    pub(crate) fn repeat(&self, cx: &mut Cx<'_>, out: &mut Outbox) {
        if let Some(response) = &self.kept {
            out.send(self.hop, response);
            cx.shared.counters.responses_repeated += 1;
        }
    }

    /// Keeps no response any more.
    pub(crate) fn forget(&mut self) {
        self.kept = None;
    }

    /// Lets the ACK of the response sent last be found, if it is an RFC 2543 element's (§17.2.3).
    pub(crate) fn expect_legacy_ack(&mut self, cx: &mut Cx<'_>, out: &Outbox) {
        let Some(legacy) = &mut self.legacy else { return };
        let shared = &mut *cx.shared;
        let Ok(response) = Message::parse(out.last(), &mut shared.own, &OWN) else { return };
        let hash = shared.matcher.legacy_acknowledged(legacy.0, &response);
        if legacy.1.is_none() {
            legacy.1 = Some(hash);
            shared.index.insert(hash, self.id.0);
        }
    }

    pub(crate) fn start(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        self.timers.start(cx.now, timer, self.id.0, &cx.shared.config, &mut cx.shared.wheel);
    }

    pub(crate) fn stop_timers(&mut self, cx: &mut Cx<'_>) {
        self.timers.stop(&mut cx.shared.wheel);
    }

    pub(crate) fn report_ack_timeout(&self, cx: &mut Cx<'_>) {
        cx.shared.counters.timeouts_h += 1;
        cx.shared.events.push_back(Event::AckTimeout { server: self.id, user: self.user });
    }

    pub(crate) fn report_transport_error(&self, cx: &mut Cx<'_>) {
        cx.shared.counters.transport_errors += 1;
        cx.shared.events.push_back(Event::ServerTransportError { server: self.id, user: self.user });
    }
}
