//! Sleeping until a socket is ready, a deadline is due, or another thread has something for us.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use crate::sys;

/// What an epoll event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Another thread called [`Waker::wake`].
    Waker,
    /// The UDP socket of that number.
    Udp(usize),
}

impl Source {
    fn token(self) -> u64 {
        match self {
            Self::Waker => 0,
            Self::Udp(index) => u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1),
        }
    }

    fn from_token(token: u64) -> Self {
        token
            .checked_sub(1)
            .map_or(Self::Waker, |index| Self::Udp(usize::try_from(index).unwrap_or(usize::MAX)))
    }
}

/// What a [`Source`] is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ready {
    pub(crate) source: Source,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) failed: bool,
}

/// Wakes a sleeping [`Net`](crate::Net) from another thread.
///
/// Costs a system call only if it sleeps; otherwise the next [`Net::wait`](crate::Net::wait) does not sleep.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    event: OwnedFd,
    rung: AtomicBool,
    asleep: AtomicBool,
}

impl Waker {
    /// Makes the current or the next wait return.
    ///
    /// What was written before is seen by the thread that wakes.
    pub fn wake(&self) {
        let bell = &*self.0;
        bell.rung.store(true, Ordering::SeqCst);
        if bell.asleep.swap(false, Ordering::SeqCst) {
            // Fails only if the counter is at its limit, and then the event is set anyway.
            let _ = rustix::io::write(&bell.event, &1_u64.to_ne_bytes());
        }
    }
}

/// One epoll instance with its waker.
pub(crate) struct Poller {
    epoll: OwnedFd,
    bell: Arc<Bell>,
    events: Box<[libc::epoll_event]>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let token = EventData::new_u64(Source::Waker.token());
        epoll::add(&epoll, &event, token, EventFlags::IN)?;
        let bell = Bell { event, rung: AtomicBool::new(false), asleep: AtomicBool::new(false) };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; 64].into();
        Ok(Self { epoll, bell: Arc::new(bell), events })
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.bell))
    }

    /// Starts to watch a descriptor for input.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, source: Source) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(source.token()), EventFlags::IN)?)
    }

    /// Watches a descriptor for room to write too, or no longer.
    pub(crate) fn watch_writable(&self, fd: BorrowedFd<'_>, source: Source, on: bool) -> io::Result<()> {
        let flags = if on { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(source.token()), flags)?)
    }

    /// Whether a wake-up has come since the last call; forgets it.
    pub(crate) fn take_rung(&self) -> bool {
        // The plain read first: it is almost always false, and costs nothing.
        self.bell.rung.load(Ordering::Relaxed) && self.bell.rung.swap(false, Ordering::SeqCst)
    }

    /// Sleeps until something is ready, the waker rings, or `timeout` has passed; gives how many sources are ready.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        if timeout == Some(Duration::ZERO) {
            return self.poll(timeout);
        }
        // The order matters: a waker rings first and looks whether we sleep second; we do the reverse.
        self.bell.asleep.store(true, Ordering::SeqCst);
        if self.bell.rung.load(Ordering::SeqCst) {
            self.bell.asleep.store(false, Ordering::SeqCst);
            return self.poll(Some(Duration::ZERO));
        }
        let ready = self.poll(timeout);
        self.bell.asleep.store(false, Ordering::Relaxed);
        ready
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        match sys::epoll_wait(self.epoll.as_fd(), &mut self.events, timeout) {
            Ok(ready) => Ok(ready),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The source at place `index` of what [`wait`](Self::wait) found ready.
    pub(crate) fn ready(&self, index: usize) -> Option<Ready> {
        let event = self.events.get(index)?;
        let flags = EventFlags::from_bits_retain(event.events);
        let source = Source::from_token(event.u64);
        if source == Source::Waker {
            // Resets the counter; it cannot fail in a way that matters, since the event was just reported.
            let _ = rustix::io::read(&self.bell.event, &mut [0; 8]);
        }
        Some(Ready {
            source,
            readable: flags.contains(EventFlags::IN),
            writable: flags.contains(EventFlags::OUT),
            failed: flags.contains(EventFlags::ERR),
        })
    }
}
