//! What the callers know of their calls.

use core::time::Duration;
use std::collections::VecDeque;

use tandem_base::Instant;

/// How far a call is, as its caller sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The first request is not answered.
    Asking,
    /// The INVITE is; people talk.
    Talking,
    /// The BYE is not answered.
    Leaving,
    Over,
}

/// A call, or a request outside calls.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) stage: Stage,
    /// The place of its first method in `world::FIRSTS`.
    pub(crate) first: u8,
    pub(crate) front: u16,
    /// The user it goes to, by number.
    pub(crate) user: u32,
    /// When its first request began, or its BYE.
    pub(crate) began: Instant,
    pub(crate) interval: Duration,
    /// A provisional answer came: no more repetitions.
    pub(crate) is_heard: bool,
    pub(crate) is_judged: bool,
    /// The occupancy that its first request found.
    pub(crate) ahead: Option<u32>,
    /// Its BYE goes past the balancer.
    pub(crate) leaks: bool,
    /// The server that has it.
    pub(crate) home: Option<u16>,
    /// What that server has worked on: the first request, the BYE.
    pub(crate) is_served: bool,
    pub(crate) is_bye_served: bool,
    pub(crate) dialog: Box<[u8]>,
}

/// Calls by number; numbers rise, and what is over leaves from the front.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    first: u64,
    calls: VecDeque<Call>,
}

impl Calls {
    /// Enters a call and returns its number.
    pub(crate) fn push(&mut self, call: Call) -> u64 {
        while self.calls.front().is_some_and(|call| call.stage == Stage::Over) {
            self.calls.pop_front();
            self.first += 1;
        }
        self.calls.push_back(call);
        self.first + self.calls.len() as u64 - 1
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Call> {
        usize::try_from(number.checked_sub(self.first)?).ok().and_then(|at| self.calls.get_mut(at))
    }
}
