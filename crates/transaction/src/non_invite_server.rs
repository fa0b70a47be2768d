//! Non-INVITE server transaction: RFC 3261 §17.2.2.
//!
//! Answers a repeated request with the response sent last, for 64·T1 after the final one.
//! Left out: any timer in Trying and Proceeding, as in the RFC; the TU answers or abandons (RFC 4320 §4.2 forbids
//! a 408 here).

use tandem_sip::Outbox;

use crate::Timer;
use crate::server::ServerCore;
use crate::shared::{Class, Cx};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Trying,
    Proceeding,
    Completed,
    Terminated,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct NonInviteServer {
    state: State,
    pub(crate) core: ServerCore,
}

impl NonInviteServer {
    pub(crate) fn new(core: ServerCore) -> Self {
        Self { state: State::Trying, core }
    }

    /// The request came again.
    pub(crate) fn receive_request(&mut self, cx: &mut Cx<'_>, out: &mut Outbox) {
        use State::*;
        match self.state {
            Trying => {}
            Proceeding | Completed => self.core.repeat(cx, out),
            Terminated => {}
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
            (Trying, Provisional) => {
                self.core.send_and_keep(write, out);
                self.enter(Proceeding, cx);
            }
            (Proceeding, Provisional) => self.core.send_and_keep(write, out),
            (Trying | Proceeding, Success | Failure) => {
                self.core.send_and_keep(write, out);
                self.enter(Completed, cx);
            }
            (Completed | Terminated, _) => return false,
        }
        true
    }

    pub(crate) fn fire(&mut self, timer: Timer, cx: &mut Cx<'_>) {
        use State::*;
        match (self.state, timer) {
            (Completed, Timer::J) => self.enter(Terminated, cx),
            // Entering a state stops the timers of the one before.
            (Trying | Proceeding | Completed | Terminated, _) => {}
        }
    }

    /// A response could not be sent. The transaction stays as it is: §17.2.4 was changed for both kinds (RFC 6026
    /// §8.8), though figure 8 still ends it; a repeated request must not be taken for a new one.
    pub(crate) fn transport_error(&mut self, cx: &mut Cx<'_>) {
        use State::*;
        match self.state {
            Proceeding | Completed => self.core.report_transport_error(cx),
            Trying | Terminated => {}
        }
    }

    /// The TU gives it up without a final response.
    pub(crate) fn abandon(&mut self, cx: &mut Cx<'_>) {
        use State::*;
        match self.state {
            Trying | Proceeding => self.enter(Terminated, cx),
            Completed | Terminated => {}
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
            Trying | Proceeding => {}
            Completed if self.core.is_reliable() => self.enter(Terminated, cx), // J is zero
            Completed => self.core.start(Timer::J, cx),
            Terminated => {}
        }
    }
}
