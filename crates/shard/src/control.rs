//! The control thread's ends of the queues: commands in, events out, and how the threads end.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rtrb::{Consumer, Producer};
use tandem_net::Waker;

/// Why a command was not taken; gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused<C> {
    /// The queue is full: the shard is behind. May be tried again.
    Full(C),
    /// The shard has ended, or there is no such shard.
    Gone(C),
}

/// Sends commands to shards, from any number of control threads; copies share the queues.
///
/// The lock is among control threads only. The shard takes none.
pub struct Commands<C>(pub(crate) Arc<[(Mutex<Producer<C>>, Waker)]>);

impl<C> Clone for Commands<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Commands<C> {
    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.0.len()
    }

    /// Queues a command for shard number `shard` and wakes it. Never waits for the shard.
    ///
    /// # Errors
    ///
    /// The command itself, when the queue is full or the shard gone.
    pub fn send(&self, shard: usize, command: C) -> Result<(), Refused<C>> {
        let Some((queue, waker)) = self.0.get(shard) else { return Err(Refused::Gone(command)) };
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_abandoned() {
            return Err(Refused::Gone(command));
        }
        queue.push(command).map_err(|rtrb::PushError::Full(command)| Refused::Full(command))?;
        waker.wake();
        Ok(())
    }
}

impl<C> core::fmt::Debug for Commands<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Commands").field("shards", &self.0.len()).finish()
    }
}

/// Receives what the machines tell.
pub struct Events<E> {
    pub(crate) queues: Vec<Consumer<E>>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) next: usize,
}

impl<E> Events<E> {
    /// The next event and the number of its shard, fairly from all; `None` when there is none now.
    pub fn poll(&mut self) -> Option<(usize, E)> {
        for _ in 0..self.queues.len() {
            let shard = self.next;
            self.next = (self.next + 1) % self.queues.len();
            let queue = self.queues.get_mut(shard)?;
            let was_full = queue.slots() == queue.buffer().capacity();
            if let Ok(event) = queue.pop() {
                if was_full && let Some(waker) = self.wakers.get(shard) {
                    waker.wake(); // more events may wait in the machine for room
                }
                return Some((shard, event));
            }
        }
        None
    }
}

impl<E> core::fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Events").field("shards", &self.queues.len()).finish()
    }
}

/// How a shard ended.
#[derive(Debug)]
pub enum Exit {
    /// It was told to stop and had nothing left in progress.
    Drained,
    /// It was told to stop, and the grace was over before all in progress had ended.
    GraceOver,
    /// Its epoll instance failed.
    Failed(io::Error),
    /// Its machine panicked, with this message. Its calls are lost; the other shards go on.
    Panicked(String),
}

/// The grace of a stop in nanoseconds; [`GO_ON`] until one is asked for.
pub(crate) type StopFlag = Arc<AtomicU64>;

/// No stop was asked for.
pub(crate) const GO_ON: u64 = u64::MAX;

/// The running threads.
#[derive(Debug)]
pub struct Threads {
    pub(crate) handles: Vec<JoinHandle<Exit>>,
    pub(crate) stop: StopFlag,
    pub(crate) wakers: Vec<Waker>,
}

impl Threads {
    /// Tells all shards to drain and to end when they have, or when `grace` has passed. Returns at once.
    pub fn stop(&self, grace: Duration) {
        let grace = u64::try_from(grace.as_nanos()).unwrap_or(GO_ON).min(GO_ON - 1);
        self.stop.store(grace, Ordering::Release);
        for waker in &self.wakers {
            waker.wake();
        }
    }

    /// Whether a shard has ended, whatever the reason.
    #[must_use]
    pub fn any_ended(&self) -> bool {
        self.handles.iter().any(JoinHandle::is_finished)
    }

    /// Waits until all have ended; tells how, in the order of their numbers.
    #[must_use]
    pub fn join(self) -> Vec<Exit> {
        let end = |handle: JoinHandle<Exit>| {
            handle.join().unwrap_or_else(|_| Exit::Panicked("while it ended".to_owned()))
        };
        self.handles.into_iter().map(end).collect()
    }
}
