//! Non-INVITE client transaction: RFC 3261 §17.1.2.
//!
//! Repeats the request until the final response, then absorbs repetitions of that for T4.
//! Left out: keeping the request over a reliable transport, where nothing is ever repeated.

use tandem_sip::Outbox;

use crate::Timer;
use crate::client::ClientCore;
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
pub(crate) struct NonInviteClient {
    state: State,
    pub(crate) core: ClientCore,
}

impl NonInviteClient {
    /// The request has been sent and lies in `core.kept`.
    pub(crate) fn new(core: ClientCore, cx: &mut Cx<'_>) -> Self {
        let mut this = Self { state: State::Trying, core };
        this.core.start(Timer::F, cx);
        if this.core.is_reliable() {
            this.core.forget();
        } else {
            this.core.start(Timer::E, cx);
        }
        this
    }

    /// A response came; true if it is for the TU.
    pub(crate) fn receive(&mut self, class: Class, cx: &mut Cx<'_>) -> bool {
        use {Class::*, State::*};
        match (self.state, class) {
            (Trying, Provisional) => {
                self.state = Proceeding; // E and F run on
                self.core.slow_down();
                true
            }
            (Proceeding, Provisional) => true,
            (Trying | Proceeding, Success | Failure) => {
                self.enter(Completed, cx);
                true
            }
            (Completed | Terminated, _) => false,
        }
    }

    pub(crate) fn fire(&mut self, timer: Timer, cx: &mut Cx<'_>, out: &mut Outbox) {
        use State::*;
        match (self.state, timer) {
            (Trying | Proceeding, Timer::E) => {
                self.core.repeat(out);
                cx.shared.counters.requests_repeated += 1;
                self.core.start(Timer::E, cx);
            }
            (Trying | Proceeding, Timer::F) => {
                cx.shared.counters.timeouts_f += 1;
                self.core.report_timeout(timer, cx);
                self.enter(Terminated, cx);
            }
            (Completed, Timer::K) => self.enter(Terminated, cx),
            // Entering a state stops the timers of the one before.
            (Trying | Proceeding | Completed | Terminated, _) => {}
        }
    }

    /// The request could not be sent (§17.1.4).
    pub(crate) fn transport_error(&mut self, cx: &mut Cx<'_>) {
        use State::*;
        match self.state {
            Trying | Proceeding => {
                self.core.report_transport_error(cx);
                self.enter(Terminated, cx);
            }
            Completed | Terminated => {}
        }
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.state == State::Terminated
    }

    /// Completed and Terminated are entered through here; the two states before share their timers.
    fn enter(&mut self, state: State, cx: &mut Cx<'_>) {
        use State::*;
        self.core.stop_timers(cx);
        self.core.forget();
        self.state = state;
        match state {
            Completed if self.core.is_reliable() => self.enter(Terminated, cx), // K is zero
            Completed => self.core.start(Timer::K, cx),
            Trying | Proceeding | Terminated => {}
        }
    }
}
