//! INVITE client transaction: RFC 3261 §17.1.1 with the Accepted state of RFC 6026 §7.2; CANCEL by §9.1.
//!
//! Repeats the INVITE until anything answers, acknowledges failures, and passes on every 2xx for 64·T1.
//! Left out: a limit on Proceeding, which is the proxy's timer C or the caller's patience.

use tandem_base::Key;
use tandem_sip::{HeaderName, Message, Outbox};

use crate::Timer;
use crate::client::ClientCore;
use crate::shared::{Class, Cx};
use crate::write::{self, OWN};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Calling,
    Proceeding,
    Accepted,
    Completed,
    Terminated,
}

/// How far the CANCEL is.
#[derive(Debug)]
enum Cancel {
    No,
    /// Asked for before any provisional response; these are its further header field lines.
    Wanted(Box<[u8]>),
    /// Sent as the client transaction of this key; without one, sent once as the table was full.
    Sent(Option<Key>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct InviteClient {
    state: State,
    cancel: Cancel,
    pub(crate) core: ClientCore,
}

impl InviteClient {
    /// The request has been sent and lies in `core.kept`.
    pub(crate) fn new(core: ClientCore, cx: &mut Cx<'_>) -> Self {
        let mut this = Self { state: State::Calling, cancel: Cancel::No, core };
        this.enter(State::Calling, cx);
        this
    }

    /// A response came; true if it is for the TU.
    pub(crate) fn receive(&mut self, response: &Message<'_>, cx: &mut Cx<'_>, out: &mut Outbox) -> bool {
        use {Class::*, State::*};
        match (self.state, Class::of(response.status())) {
            (Calling, Provisional) => {
                self.enter(Proceeding, cx);
                true
            }
            (Proceeding, Provisional) => true,
            (Calling | Proceeding, Success) => {
                self.enter(Accepted, cx);
                true
            }
            (Calling | Proceeding, Failure) => {
                self.acknowledge(response, cx, out);
                self.enter(Completed, cx);
                true
            }
            (Accepted, Success) => true, // a repetition, or another branch of the fork (RFC 6026 §7.2)
            (Completed, Failure) => {
                self.core.repeat(out);
                cx.shared.counters.acks_repeated += 1;
                false
            }
            (Accepted, Provisional | Failure) | (Completed, Provisional | Success) | (Terminated, _) => false,
        }
    }

    pub(crate) fn fire(&mut self, timer: Timer, cx: &mut Cx<'_>, out: &mut Outbox) {
        use State::*;
        match (self.state, timer) {
            (Calling, Timer::A) => {
                self.core.repeat(out);
                cx.shared.counters.requests_repeated += 1;
                self.core.start(Timer::A, cx);
            }
            (Calling, Timer::B) => {
                cx.shared.counters.timeouts_b += 1;
                self.core.report_timeout(timer, cx);
                self.enter(Terminated, cx);
            }
            (Proceeding, Timer::Cancelled) => {
                cx.shared.counters.timeouts_cancelled += 1;
                self.core.report_timeout(timer, cx);
                self.enter(Terminated, cx);
            }
            (Accepted, Timer::M) | (Completed, Timer::D) => self.enter(Terminated, cx),
            // Entering a state stops the timers of the one before.
            (Calling | Proceeding | Accepted | Completed | Terminated, _) => {}
        }
    }

    /// The INVITE or its ACK could not be sent (§17.1.4). Word of it that comes after a provisional response
    /// is old: the INVITE did arrive.
    pub(crate) fn transport_error(&mut self, cx: &mut Cx<'_>) {
        use State::*;
        match self.state {
            Calling | Completed => {
                self.core.report_transport_error(cx);
                self.enter(Terminated, cx);
            }
            Proceeding | Accepted | Terminated => {}
        }
    }

    /// The TU wants no answer any more; false if one is here already. The CANCEL waits for a provisional response
    /// (§9.1), see [`InviteClient::due_cancel`].
    pub(crate) fn cancel(&mut self, headers: &[u8]) -> bool {
        use State::*;
        match self.state {
            Calling | Proceeding => {
                if matches!(self.cancel, Cancel::No) {
                    self.cancel = Cancel::Wanted(headers.into());
                }
                true
            }
            Accepted | Completed | Terminated => false,
        }
    }

    /// Sends the CANCEL if it is wanted and allowed: true once.
    pub(crate) fn due_cancel(&mut self, cx: &mut Cx<'_>, out: &mut Outbox) -> bool {
        use State::*;
        match self.state {
            Proceeding => {}
            Calling | Accepted | Completed | Terminated => return false,
        }
        if !matches!(self.cancel, Cancel::Wanted(_)) {
            return false;
        }
        let Cancel::Wanted(headers) = core::mem::replace(&mut self.cancel, Cancel::Sent(None)) else {
            return false; // excluded above
        };
        self.core.start(Timer::Cancelled, cx);
        let sent = self.write(cx, out, |invite, bytes| write::cancel(invite, &headers, bytes));
        cx.shared.counters.cancels_sent += u64::from(sent);
        sent
    }

    /// Notes the transaction that carries our CANCEL.
    pub(crate) fn set_cancel(&mut self, key: Key) {
        self.cancel = Cancel::Sent(Some(key));
    }

    /// The transaction that carries our CANCEL. It has our branch, so its responses are found through us.
    pub(crate) fn sent_cancel(&self) -> Option<Key> {
        match self.cancel {
            Cancel::Sent(key) => key,
            Cancel::No | Cancel::Wanted(_) => None,
        }
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.state == State::Terminated
    }

    /// Sends the ACK of a failure (§17.1.1.3) and keeps it in place of the INVITE.
    fn acknowledge(&mut self, failure: &Message<'_>, cx: &mut Cx<'_>, out: &mut Outbox) {
        let to = failure.header(HeaderName::To).unwrap_or_default();
        let sent = self.write(cx, out, |invite, bytes| write::ack(invite, to, bytes));
        self.core.kept = sent.then(|| out.last().into());
    }

    /// Sends what `write` makes of the INVITE; false if that is unreadable.
    fn write(
        &self,
        cx: &mut Cx<'_>,
        out: &mut Outbox,
        write: impl FnOnce(&Message<'_>, &mut Vec<u8>),
    ) -> bool {
        let invite = self.core.kept.as_deref().unwrap_or_default();
        let Ok(invite) = Message::parse(invite, &mut cx.shared.own, &OWN) else {
            cx.shared.counters.unbuildable += 1;
            return false;
        };
        out.write(self.core.hop, |bytes| write(&invite, bytes));
        true
    }

    fn enter(&mut self, state: State, cx: &mut Cx<'_>) {
        use State::*;
        self.core.stop_timers(cx);
        self.state = state;
        match state {
            Calling => {
                self.core.start(Timer::B, cx);
                if !self.core.is_reliable() {
                    self.core.start(Timer::A, cx);
                }
            }
            Proceeding => {}
            Accepted => {
                self.core.forget();
                self.core.start(Timer::M, cx);
            }
            Completed if self.core.is_reliable() => self.enter(Terminated, cx), // D is zero
            Completed => self.core.start(Timer::D, cx),
            Terminated => {}
        }
    }
}
