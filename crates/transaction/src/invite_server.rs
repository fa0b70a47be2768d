//! INVITE server transaction: RFC 3261 §17.2.1 with the Accepted state of RFC 6026 §7.1.
//!
//! Absorbs retransmitted INVITEs, repeats the failure until it is acknowledged, and reports a lost ACK.
//! Left out: the automatic 100 after 200 ms; every TU of ours answers 100 at once (§16.2). A 2xx is not kept: the
//! UAS core repeats it (§13.3.1.4), and a proxy passes each repetition on.

use tandem_sip::Outbox;

use crate::Timer;
use crate::server::ServerCore;
use crate::shared::{Class, Cx};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Proceeding,
    Accepted,
    Completed,
    Confirmed,
    Terminated,
}

/// Where an ACK belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ack {
    /// It ends here.
    Absorbed,
    /// It acknowledges a 2xx.
    ForUser,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct InviteServer {
    state: State,
    pub(crate) core: ServerCore,
}

impl InviteServer {
    pub(crate) fn new(core: ServerCore) -> Self {
        Self { state: State::Proceeding, core }
    }

    /// The INVITE came again.
    pub(crate) fn receive_invite(&mut self, cx: &mut Cx<'_>, out: &mut Outbox) {
        use State::*;
        match self.state {
            Proceeding | Completed => self.core.repeat(cx, out),
            Accepted => {} // absorbed without an answer (RFC 6026 §7.1)
            Confirmed | Terminated => {}
        }
    }

    /// An ACK came.
    pub(crate) fn receive_ack(&mut self, cx: &mut Cx<'_>) -> Ack {
        use State::*;
        match self.state {
            Accepted => Ack::ForUser,
            Completed => {
                self.enter(Confirmed, cx);
                Ack::Absorbed
            }
            Proceeding => Ack::Absorbed, // acknowledges what was never sent
            Confirmed | Terminated => Ack::Absorbed,
        }
    }

    /// Passes a response from the TU to the wire; false if it came too late and was dropped.
    pub(crate) fn respond(
        &mut self,
        class: Class,
        write: impl FnOnce(&mut Vec<u8>),
        cx: &mut Cx<'_>,
        out: &mut Outbox,
    ) -> bool {
        use {Class::*, State::*};
        match (self.state, class) {
            (Proceeding, Provisional) => self.core.send_and_keep(write, out),
            (Proceeding, Success) => {
                self.core.send(write, out);
                self.core.expect_legacy_ack(cx, out);
                self.enter(Accepted, cx);
            }
            (Proceeding, Failure) => {
                self.core.send_and_keep(write, out);
                self.core.expect_legacy_ack(cx, out);
                self.enter(Completed, cx);
            }
            (Accepted, Success) => self.core.send(write, out), // the UAS core repeats its 2xx
            (Accepted, Provisional | Failure) | (Completed | Confirmed | Terminated, _) => return false,
        }
        true
    }

    pub(crate) fn fire(&mut self, timer: Timer, cx: &mut Cx<'_>, out: &mut Outbox) {
        use State::*;
        match (self.state, timer) {
            (Completed, Timer::G) => {
                self.core.repeat(cx, out);
                self.core.start(Timer::G, cx);
            }
            (Completed, Timer::H) => {
                self.core.report_ack_timeout(cx);
                self.enter(Terminated, cx);
            }
            (Confirmed, Timer::I) | (Accepted, Timer::L) => self.enter(Terminated, cx),
            // Entering a state stops the timers of the one before.
            (Proceeding | Accepted | Completed | Confirmed | Terminated, _) => {}
        }
    }

    /// A response could not be sent. The transaction stays as it is (RFC 6026 §8.8): another response, or the
    /// same one on the repeated request, may find a better way.
    pub(crate) fn transport_error(&mut self, cx: &mut Cx<'_>) {
        use State::*;
        match self.state {
            Proceeding | Accepted | Completed => self.core.report_transport_error(cx),
            Confirmed | Terminated => {}
        }
    }

    /// The TU gives it up without a final response.
    pub(crate) fn abandon(&mut self, cx: &mut Cx<'_>) {
        use State::*;
        match self.state {
            Proceeding => self.enter(Terminated, cx),
            Accepted | Completed | Confirmed | Terminated => {}
        }
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.state == State::Terminated
    }

    fn enter(&mut self, state: State, cx: &mut Cx<'_>) {
        use State::*;
        self.core.stop_timers(cx);
        self.state = state;
        match state {
            Proceeding => {}
            Accepted => {
                self.core.forget();
                self.core.start(Timer::L, cx);
            }
            Completed => {
                self.core.start(Timer::H, cx);
                if !self.core.is_reliable() {
                    self.core.start(Timer::G, cx);
                }
            }
            Confirmed if self.core.is_reliable() => self.enter(Terminated, cx), // I is zero
            Confirmed => {
                self.core.forget();
                self.core.start(Timer::I, cx);
            }
            Terminated => {}
        }
    }
}
