//! The loop of one shard.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use rtrb::{Consumer, Producer};
use tandem_base::Instant;
use tandem_net::{Net, Steering};
use tandem_sip::Outbox;

use crate::control::{Exit, GO_ON, StopFlag};
use crate::counters::{Counters, Snapshot};
use crate::hand_over::{HandOver, Lost};
use crate::{Clock, Machine};

/// Commands, and messages from each other shard, handled in one turn; the rest takes the next one.
const QUEUE_BATCH: usize = 64;

/// One shard: a machine, its sockets, its ends of the queues.
pub(crate) struct Shard<M: Machine> {
    pub(crate) number: usize,
    pub(crate) clock: Clock,
    pub(crate) now: Instant,
    pub(crate) net: Net,
    pub(crate) machine: M,
    pub(crate) out: Outbox,
    /// `None` if this is the only shard.
    pub(crate) steering: Option<Steering>,
    pub(crate) hand_over: HandOver,
    pub(crate) commands: Consumer<M::Command>,
    pub(crate) events: Producer<M::Event>,
    /// An event that found the queue full.
    pub(crate) stuck: Option<M::Event>,
    pub(crate) on_event: Arc<dyn Fn() + Send + Sync>,
    pub(crate) stop: StopFlag,
    /// When the grace of a stop is over.
    pub(crate) stop_at: Option<Instant>,
    pub(crate) totals: Snapshot,
    pub(crate) counters: Counters,
}

impl<M: Machine> Shard<M> {
    /// Turns until it is told to stop.
    pub(crate) fn run(&mut self) -> io::Result<Exit> {
        loop {
            self.net.wait(self.time_left())?; // recvmmsg, or until the deadline
            self.now = self.clock.now(); // the turn's only clock read
            self.handle_batch();
            self.handle_transport_errors();
            self.handle_queues();
            self.machine.handle_timeout(self.now, &mut self.out); // does nothing when no timer is due
            self.net.flush(&mut self.out); // one sendmmsg for the whole turn
            self.hand_over.wake();
            self.deliver_events();
            self.publish();
            if let Some(exit) = self.exit() {
                return Ok(exit);
            }
        }
    }

    /// How long the turn may sleep: until a timer is due; not at all while a queue has more than a turn takes.
    fn time_left(&self) -> Option<Duration> {
        if !self.commands.is_empty() || self.hand_over.waiting() > 0 {
            return Some(Duration::ZERO);
        }
        let until = |deadline: Instant| deadline.saturating_since(self.now);
        let timers = self.machine.poll_timeout().map(until);
        let stop = self.stop_at.map(until);
        timers.into_iter().chain(stop).min()
    }

    /// What is ours goes to the machine, what is not to its owner.
    fn handle_batch(&mut self) {
        for datagram in self.net.batch() {
            if datagram.overlong {
                continue; // counted by the net
            }
            match self.steering.and_then(|steering| steering.owner(datagram.bytes)).map(index) {
                Some(owner) if owner != self.number => {
                    match self.hand_over.give(owner, datagram.hop, datagram.bytes) {
                        Ok(()) => self.totals.handed_over += 1,
                        Err(Lost::Full) => self.totals.dropped_hand_over_full += 1,
                        Err(Lost::Gone) => self.totals.dropped_hand_over_gone += 1,
                    }
                }
                _ => self.machine.handle_input(self.now, datagram.hop, datagram.bytes, &mut self.out),
            }
        }
    }

    fn handle_transport_errors(&mut self) {
        for error in self.net.errors() {
            self.machine.handle_transport_error(self.now, error, &mut self.out);
        }
        self.net.clear_errors();
    }

    /// Messages from other shards, then commands.
    fn handle_queues(&mut self) {
        let Self { machine, now, out, totals, .. } = self;
        let taken =
            self.hand_over.take(QUEUE_BATCH, |hop, message| machine.handle_input(*now, hop, message, out));
        totals.taken_over += count(taken);
        for _ in 0..QUEUE_BATCH {
            let Ok(command) = self.commands.pop() else { break };
            machine.handle_command(*now, command, out);
            totals.commands += 1;
        }
        if self.stop_at.is_none() {
            let grace = self.stop.load(Ordering::Acquire);
            if grace != GO_ON {
                self.stop_at = Some(*now + Duration::from_nanos(grace));
                machine.handle_drain(*now, out);
            }
        }
    }

    /// Moves events to the control thread as long as there is room; those that find none stay in the machine.
    fn deliver_events(&mut self) {
        let mut delivered = 0;
        while let Some(event) = self.stuck.take().or_else(|| self.machine.poll_event()) {
            match self.events.push(event) {
                Ok(()) => delivered += 1,
                Err(rtrb::PushError::Full(event)) => {
                    self.stuck = Some(event);
                    self.totals.events_stuck += 1;
                    break;
                }
            }
        }
        if delivered > 0 {
            self.totals.events += delivered;
            (self.on_event)();
        }
    }

    fn publish(&mut self) {
        self.totals.turns += 1;
        self.totals.wakes += u64::from(self.net.was_woken());
        self.totals.set_net(&self.net.counts());
        self.totals.queue_commands = count(self.commands.slots());
        self.totals.queue_events = count(self.events.buffer().capacity() - self.events.slots());
        self.totals.queue_taken_over = count(self.hand_over.waiting());
        if let Some(cells) = self.counters.cells(self.number) {
            cells.store(&self.totals);
        }
    }

    fn exit(&self) -> Option<Exit> {
        let stop_at = self.stop_at?;
        if self.machine.is_drained() {
            Some(Exit::Drained)
        } else if self.now >= stop_at {
            Some(Exit::GraceOver)
        } else {
            None
        }
    }
}

fn index(owner: u32) -> usize {
    usize::try_from(owner).unwrap_or(usize::MAX)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
