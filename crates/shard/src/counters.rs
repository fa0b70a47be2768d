//! What each shard counted, for any thread to read.
//!
//! One writer each: the shard stores its totals once a turn, without a locked instruction, into cache lines that no
//! other shard writes.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use tandem_net::Counts;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Totals of one shard since its start, and its queues as the last turn left them.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Snapshot {
            /// Processor time of its thread, user and system; zero before it runs and after it ended.
            pub processor_time: Duration,
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The cells of one shard, alone on their cache lines.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct Cells {
            thread: AtomicU64,
            $($name: AtomicU64,)*
        }

        impl Cells {
            /// Publishes the totals.
            pub(crate) fn store(&self, totals: &Snapshot) {
                $(self.$name.store(totals.$name, Ordering::Relaxed);)*
            }

            fn load(&self) -> Snapshot {
                let thread = self.thread.load(Ordering::Relaxed);
                Snapshot {
                    processor_time: tandem_net::thread_processor_time(thread).unwrap_or_default(),
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }
        }
    };
}

counters! {
    /// Turns of the loop.
    turns,
    /// Turns that slept before they began.
    sleeps,
    /// Turns that let datagrams gather first.
    gathers,
    /// Wake-ups by another thread.
    wakes,
    /// Datagrams received.
    received,
    /// Bytes of those.
    received_bytes,
    /// Messages handed to the kernel.
    sent,
    /// Bytes of those.
    sent_bytes,
    /// System calls made to receive.
    receive_calls,
    /// System calls made to send.
    send_calls,
    /// Messages given to the shard that owns their Call-ID.
    handed_over,
    /// Messages taken from other shards.
    taken_over,
    /// Commands handled.
    commands,
    /// Events delivered.
    events,
    /// Dropped: datagrams longer than the longest that is received whole.
    dropped_overlong,
    /// Dropped by the kernel: a receive buffer was full.
    dropped_receive_buffer,
    /// Dropped: the ring to the owner was full.
    dropped_hand_over_full,
    /// Dropped: the owner had ended.
    dropped_hand_over_gone,
    /// Dropped: send buffer, waiting queue or device full.
    dropped_send_buffer,
    /// Messages that waited for room in a send buffer.
    send_waits,
    /// Messages that the kernel refused; the machine was told.
    send_errors,
    /// ICMP errors; the machine was told.
    icmp_errors,
    /// Transport errors beyond the bound of a turn; the machine was not told.
    errors_dropped,
    /// Turns that ended with events which found the queue full.
    events_stuck,
    /// Commands that wait.
    queue_commands,
    /// Events that wait.
    queue_events,
    /// Handed-over messages that wait.
    queue_taken_over,
}

impl Cells {
    /// Names the thread whose processor time counts; 0 for none.
    pub(crate) fn set_thread(&self, thread: u64) {
        self.thread.store(thread, Ordering::Relaxed);
    }
}

impl Snapshot {
    /// Takes over what the net counted.
    pub(crate) fn set_net(&mut self, counts: &Counts) {
        self.sleeps = counts.sleeps;
        self.gathers = counts.gathers;
        self.received = counts.received;
        self.received_bytes = counts.received_bytes;
        self.sent = counts.sent;
        self.sent_bytes = counts.sent_bytes;
        self.receive_calls = counts.receive_calls;
        self.send_calls = counts.send_calls;
        self.dropped_overlong = counts.overlong;
        self.dropped_receive_buffer = counts.receive_overflows;
        self.dropped_send_buffer = counts.send_overflows;
        self.send_waits = counts.send_waits;
        self.send_errors = counts.send_errors;
        self.icmp_errors = counts.icmp_errors;
        self.errors_dropped = counts.errors_dropped;
    }
}

/// Reads the counters of all shards; copies read the same ones.
#[derive(Clone)]
pub struct Counters(Arc<[Cells]>);

impl Counters {
    pub(crate) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Cells::default()).collect())
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.0.len()
    }

    /// What shard number `shard` counted, or `None` if there is no such shard.
    #[must_use]
    pub fn snapshot(&self, shard: usize) -> Option<Snapshot> {
        self.0.get(shard).map(Cells::load)
    }

    pub(crate) fn cells(&self, shard: usize) -> Option<&Cells> {
        self.0.get(shard)
    }
}

impl core::fmt::Debug for Counters {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.0.iter().map(Cells::load)).finish()
    }
}
