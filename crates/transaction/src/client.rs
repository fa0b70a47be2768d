//! What both client machines are made of.

use tandem_base::Key;
use tandem_sip::{Hop, Method, Outbox};

use crate::invite_client::InviteClient;
use crate::non_invite_client::NonInviteClient;
use crate::shared::Cx;
use crate::timer::Timers;
use crate::{Event, Timer};

/// Names a client transaction; finds nothing once that is over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub(crate) Key);

impl ClientId {
    /// The id as a number, never 0.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The id of [`ClientId::to_bits`]; `None` for a number that is none.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        Key::from_bits(bits).map(Self)
    }
}

/// A client transaction of either kind.
#[derive(Debug)]
pub(crate) enum Client {
    Invite(InviteClient),
    Other(NonInviteClient),
}

impl Client {
    pub(crate) fn core(&self) -> &ClientCore {
        match self {
            Self::Invite(machine) => &machine.core,
            Self::Other(machine) => &machine.core,
        }
    }

    pub(crate) fn core_mut(&mut self) -> &mut ClientCore {
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
            Self::Other(machine) => machine.fire(timer, cx, out),
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
pub(crate) struct ClientCore {
    pub(crate) id: ClientId,
    /// The random bits of the branch.
    pub(crate) secret: u64,
    pub(crate) method: Method,
    /// `None` for our own CANCEL, of which the TU hears nothing.
    pub(crate) user: Option<u64>,
    /// Where the request went, and its ACK and CANCEL go.
    pub(crate) hop: Hop,
    /// The request; from a failure on, an INVITE's ACK.
    pub(crate) kept: Option<Box<[u8]>>,
    timers: Timers,
}

impl ClientCore {
    pub(crate) fn new(key: Key, secret: u64, method: Method, user: Option<u64>, hop: Hop) -> Self {
        Self { id: ClientId(key), secret, method, user, hop, kept: None, timers: Timers::default() }
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.hop.transport.is_reliable()
    }

    /// Sends the kept request or ACK again.
    pub(crate) fn repeat(&self, out: &mut Outbox) {
        if let Some(request) = &self.kept {
            out.send(self.hop, request);
        }
    }

    /// Keeps nothing any more.
    pub(crate) fn forget(&mut self) {
        self.kept = None;
    }

    pub(crate) fn start(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        self.timers.start(cx.now, timer, self.id.0, &cx.shared.config, &mut cx.shared.wheel);
    }

    /// Lets E wait for T2 from now on.
    pub(crate) fn slow_down(&mut self) {
        self.timers.slow_down();
    }

    pub(crate) fn stop_timers(&mut self, cx: &mut Cx<'_>) {
        self.timers.stop(&mut cx.shared.wheel);
    }

    pub(crate) fn report_timeout(&self, timer: Timer, cx: &mut Cx<'_>) {
        if let Some(user) = self.user {
            cx.shared.events.push_back(Event::ClientTimeout { client: self.id, user, timer });
        }
    }

    pub(crate) fn report_transport_error(&self, cx: &mut Cx<'_>) {
        cx.shared.counters.transport_errors += 1;
        if let Some(user) = self.user {
            cx.shared.events.push_back(Event::ClientTransportError { client: self.id, user });
        }
    }
}
