//! Deadlines of calls, in queues by delay: pushing and popping cost a few nanoseconds however many are pending.
//!
//! Nearly all deadlines of a load are a constant delay from now (RFC 3261 §17.1: 500 ms doubling), so that each delay
//! is a queue that is in order by itself. Hold times are random and go to a heap. Entries are not removed when a call
//! moves on; the caller checks the token when one comes up. Coarse by design: a queue may run 10 ms late.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use tandem_base::Instant;

use crate::token::{Due, Token};

/// How late a constant-delay deadline may run, so that stale entries do not wake the loop one by one.
const SLACK: Duration = Duration::from_millis(10);
/// Delays of repeated requests: T1 doubled; RFC 3261 §17.1.1.2 and, capped at T2 = 4 s, §17.1.2.2.
const REPEATS: [u64; 6] = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/// Pending deadlines.
#[derive(Debug)]
pub(crate) struct Timers {
    repeats: [VecDeque<Due>; REPEATS.len()],
    /// The success limit, and 64·T1.
    limits: [(Duration, VecDeque<Due>); 2],
    others: BinaryHeap<Reverse<Due>>,
}

/// Which constant delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delay {
    /// Before the `n`-th repetition, from 0; past the last it stays there.
    Repeat(u8),
    /// The limit given at construction.
    Limit,
    /// 64·T1 = 32 s.
    GiveUp,
}

impl Timers {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            repeats: Default::default(),
            limits: [(limit, VecDeque::new()), (Duration::from_secs(32), VecDeque::new())],
            others: BinaryHeap::new(),
        }
    }

    pub(crate) fn after(&mut self, now: Instant, delay: Delay, token: Token, step: u8) {
        let [(limit, limits), (give_up, give_ups)] = &mut self.limits;
        let (delay, queue) = match delay {
            Delay::Repeat(n) => {
                let n = usize::from(n).min(REPEATS.len() - 1);
                let delay = Duration::from_millis(REPEATS.get(n).copied().unwrap_or_default());
                let Some(queue) = self.repeats.get_mut(n) else { return };
                (delay, queue)
            }
            Delay::Limit => (*limit, limits),
            Delay::GiveUp => (*give_up, give_ups),
        };
        queue.push_back(Due { at: now + delay, token, step });
    }

    pub(crate) fn at(&mut self, at: Instant, token: Token, step: u8) {
        self.others.push(Reverse(Due { at, token, step }));
    }

    fn queues(&mut self) -> impl Iterator<Item = &mut VecDeque<Due>> {
        self.repeats.iter_mut().chain(self.limits.iter_mut().map(|(_, queue)| queue))
    }

    /// Takes one that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Due> {
        if self.others.peek().is_some_and(|Reverse(due)| due.at <= now) {
            return self.others.pop().map(|Reverse(due)| due);
        }
        self.queues().find_map(|queue| queue.pop_front_if(|due| due.at <= now))
    }

    /// When to look again.
    pub(crate) fn next(&self) -> Option<Instant> {
        let queues = self.repeats.iter().chain(self.limits.iter().map(|(_, queue)| queue));
        let fixed = queues.filter_map(|queue| queue.front()).map(|due| due.at + SLACK).min();
        let other = self.others.peek().map(|Reverse(due)| due.at);
        [fixed, other].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_up_once_each_and_never_early() {
        let token = Token { slot: 0, serial: 0 };
        let mut timers = Timers::new(Duration::from_secs(2));
        timers.after(Instant::ZERO, Delay::GiveUp, token, 1);
        timers.after(Instant::ZERO, Delay::Limit, token, 2);
        timers.after(Instant::ZERO, Delay::Repeat(9), token, 3);
        timers.after(Instant::ZERO, Delay::Repeat(0), token, 4);
        timers.at(Instant::from_secs(1), token, 5);
        let mut seen = Vec::new();
        while let Some(next) = timers.next() {
            while let Some(due) = timers.pop(next) {
                assert!(due.at <= next);
                seen.push((due.at.as_millis(), due.step));
            }
        }
        assert_eq!(seen, [(500, 4), (1000, 5), (2000, 2), (16_000, 3), (32_000, 1)]);
    }
}
