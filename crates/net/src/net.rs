//! All that one shard listens and sends with.

use core::time::Duration;
use std::io;
use std::os::fd::AsFd;

use tandem_sip::{Hop, ListenerId, Outbox, Transport};

use crate::Counts;
use crate::arena::{Arena, Batch};
use crate::disguise::Disguises;
use crate::errors::{Cause, Errors, TransportError};
use crate::locals::Locals;
use crate::poll::{Poller, Source, Waker};
use crate::send::{Route, Sender, Waiting};
use crate::socket::UdpSocket;
use crate::sys;

/// Turns in a row that may read a busy socket without asking epoll about the others.
const TURNS_WITHOUT_POLL: u32 = 8;

/// Of so many turns with datagrams, one tries whether gathering pays.
const TURNS_PER_TRIAL: u32 = 16;

/// Gathers in vain, in excess of those that paid, that end it. Arrivals are uneven: one gather proves little.
const CREDIT_MAX: u32 = 8;

/// Sources under whose addresses a net sends, each with a socket that is kept; see [`Outbox::write_as`].
const DISGUISES_MAX: usize = 256;

/// Up to so many sockets it is cheaper to try them all than to ask epoll which are ready.
const SOCKETS_TRIED: usize = 2;

/// The sizes of a [`Net`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetOptions {
    /// Longest datagram that is received whole, in bytes. UDP carries up to 65,507 over IPv4.
    pub datagram_bytes_max: usize,
    /// Most datagrams, or trains of them, received in a turn, and messages sent in a call; from 1 to 1,024.
    pub batch: usize,
    /// Most messages that wait for room in one socket's send buffer; later ones are dropped and counted.
    pub waiting_max: usize,
    /// Most transport errors reported in a turn; more are counted.
    pub errors_max: usize,
    /// How long a busy net lets datagrams gather before it reads on; zero to read each as it comes.
    ///
    /// A wake-up costs more than a message, so at some 10,000 messages a second most of the processor time goes into
    /// waking up for one or two of them. Like a network card's interrupt moderation, this trades up to so much delay
    /// per message (and the kernel's timer slack, 50 µs unless the thread sets it) for fewer wake-ups; it stops by
    /// itself where it seldom gathers two or more.
    pub gather: Duration,
    /// Whether messages of one size to one peer leave as a train (`UDP_SEGMENT`) that the kernel carries as one.
    ///
    /// Within a host a train stays whole up to the receiving socket's choice: several sockets that share one address
    /// and steer by Call-ID then see only its first message. Between hosts the network sees single datagrams.
    pub trains: bool,
}

impl Default for NetOptions {
    fn default() -> Self {
        Self {
            datagram_bytes_max: 65_535,
            batch: 64,
            waiting_max: 1024,
            errors_max: 256,
            gather: Duration::ZERO,
            trains: true,
        }
    }
}

/// A socket with what is remembered about it.
struct Link {
    socket: UdpSocket,
    listener: ListenerId,
    /// It is the first socket of its listener, the one that sends.
    sends: bool,
    locals: Option<Locals>,
    waiting: Waiting,
    /// `SO_RXQ_OVFL` as last seen.
    overflows: u32,
    /// The last receive took as much as it asked for, so there may be more.
    full: bool,
    /// Messages may leave in trains.
    joins: bool,
}

/// The sockets of one thread, received from and sent to in batches. Nothing here blocks but [`wait`](Self::wait).
pub struct Net {
    poller: Poller,
    links: Vec<Link>,
    arena: Arena,
    sender: Sender,
    disguises: Disguises,
    errors: Errors,
    counts: Counts,
    options: NetOptions,
    turns_without_poll: u32,
    /// Turns with datagrams until gathering is tried; 0 while it pays.
    turns_to_trial: u32,
    /// Gathers that paid, less those that did not, from 0 to [`CREDIT_MAX`].
    credit: u32,
    rung: bool,
}

impl Net {
    /// A net without sockets.
    ///
    /// # Errors
    ///
    /// When the process may open no more descriptors.
    pub fn new(options: NetOptions) -> io::Result<Self> {
        let batch = options.batch.clamp(1, 1024);
        Ok(Self {
            poller: Poller::new()?,
            links: Vec::new(),
            arena: Arena::new(batch, options.datagram_bytes_max.max(1)),
            sender: Sender::new(batch),
            disguises: Disguises::new(DISGUISES_MAX),
            errors: Errors::new(options.errors_max),
            counts: Counts::default(),
            options,
            turns_without_poll: 0,
            turns_to_trial: TURNS_PER_TRIAL,
            credit: 0,
            rung: false,
        })
    }

    /// Takes over a socket: datagrams from it bear `listener`, and messages for `listener` leave by it. Of two sockets
    /// with the same number, the first one sends.
    ///
    /// # Errors
    ///
    /// When the kernel will watch no more descriptors.
    pub fn add_udp(&mut self, listener: ListenerId, socket: UdpSocket) -> io::Result<()> {
        self.poller.add(socket.as_fd(), Source::Udp(self.links.len()))?;
        self.links.push(Link {
            sends: self.links.iter().all(|link| link.listener != listener),
            locals: socket.is_wildcard().then(Locals::new),
            socket,
            listener,
            waiting: Waiting::new(self.options.waiting_max),
            overflows: 0,
            full: false,
            joins: self.options.trains,
        });
        Ok(())
    }

    /// The sockets, in the order they were added.
    pub fn sockets(&self) -> impl Iterator<Item = (ListenerId, &UdpSocket)> {
        self.links.iter().map(|link| (link.listener, &link.socket))
    }

    /// A handle that ends the sleep of [`wait`](Self::wait) from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.poller.waker()
    }

    /// Totals since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the waker rang before or during the last [`wait`](Self::wait).
    #[must_use]
    pub const fn was_woken(&self) -> bool {
        self.rung
    }

    /// Starts a turn: forgets the last batch and errors, and receives what there is.
    ///
    /// Sleeps until something comes, `timeout` has passed (`None`: no limit) or the waker rings. Gives how many
    /// datagrams came, which may be none; they are in [`batch`](Self::batch), and errors about messages sent are in
    /// [`errors`](Self::errors).
    ///
    /// # Errors
    ///
    /// Only when the epoll instance itself fails, which means that the process is out of memory or has closed it.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let last = self.arena.filled();
        self.arena.clear();
        self.rung = self.poller.take_rung();
        if self.turns_without_poll < TURNS_WITHOUT_POLL && self.receive_from_full() > 0 {
            self.turns_without_poll += 1;
            return Ok(self.arena.datagrams());
        }
        self.turns_without_poll = 0;
        // Errors of the last flush are still to be handled, so there is no time to sleep.
        let hurry = self.rung || !self.errors.is_empty() || timeout == Some(Duration::ZERO);
        if last > 0 && !hurry && self.gather(timeout)? {
            return Ok(self.arena.datagrams());
        }
        self.counts.sleeps += u64::from(!hurry);
        self.poll(if hurry { Some(Duration::ZERO) } else { timeout })?;
        Ok(self.arena.datagrams())
    }

    /// Sleeps for a moment without being woken by each datagram, if that pays, and then takes what has come; gives
    /// whether anything has.
    fn gather(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        let moment = self.options.gather;
        if moment.is_zero() || timeout.is_some_and(|timeout| timeout < moment) {
            return Ok(false);
        }
        self.turns_to_trial = self.turns_to_trial.saturating_sub(1);
        if self.turns_to_trial > 0 {
            return Ok(false);
        }
        self.counts.gathers += 1;
        sys::sleep(moment);
        if self.links.len() <= SOCKETS_TRIED {
            (0..self.links.len()).for_each(|number| self.receive(number));
        } else {
            self.poll(Some(Duration::ZERO))?;
        }
        if self.arena.datagrams() >= 2 {
            self.credit = (self.credit + 1).min(CREDIT_MAX);
        } else {
            self.credit = self.credit.saturating_sub(1);
            if self.credit == 0 {
                self.turns_to_trial = TURNS_PER_TRIAL;
            }
        }
        Ok(self.arena.filled() > 0)
    }

    /// Handles what epoll reports within `timeout`.
    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let ready = self.poller.wait(timeout)?;
        for index in 0..ready {
            let Some(event) = self.poller.ready(index) else { break };
            match event.source {
                Source::Waker => self.rung |= self.poller.take_rung(),
                Source::Udp(number) => {
                    if event.failed {
                        self.take_errors(number);
                    }
                    if event.writable {
                        self.send_waiting(number);
                    }
                    if event.readable {
                        self.receive(number);
                    }
                }
            }
        }
        Ok(())
    }

    /// What the last [`wait`](Self::wait) received.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        self.arena.batch(0)
    }

    /// What failed at the transport since [`clear_errors`](Self::clear_errors).
    pub fn errors(&self) -> impl Iterator<Item = TransportError<'_>> {
        self.errors.iter()
    }

    /// Forgets the errors, once they are handled. Until then [`wait`](Self::wait) does not sleep.
    pub fn clear_errors(&mut self) {
        self.errors.clear();
    }

    /// Sends all that `out` holds and clears it: one system call per socket and batch.
    ///
    /// Messages of one size to one peer leave as a train that the kernel carries as one (`UDP_SEGMENT`); the order of
    /// the messages to each peer stays.
    ///
    /// Never blocks. What finds the send buffer full waits, within [`NetOptions::waiting_max`]; what fails is in
    /// [`errors`](Self::errors).
    pub fn flush(&mut self, out: &mut Outbox) {
        let Self { poller, links, sender, errors, counts, .. } = self;
        let mut sent = 0;
        for (number, link) in links.iter_mut().enumerate() {
            if sent == out.len() {
                break;
            }
            if link.sends {
                let waited = !link.waiting.is_empty();
                sent += sender.send(&mut link.route(), out, errors, counts);
                link.watch_waiting(poller, number, waited);
            }
        }
        if sent < out.len() {
            let known = |hop: Hop| {
                hop.transport == Transport::Udp && links.iter().any(|link| link.listener == hop.listener)
            };
            for (hop, message) in out.iter().filter(|(hop, _)| !known(*hop)) {
                counts.send_errors += 1;
                errors.push(hop, Cause::NoListener, message, counts);
            }
        }
        self.disguises.send(out, &mut self.errors, &mut self.counts);
        out.clear();
    }

    /// Reads on where the last turn took all it asked for.
    fn receive_from_full(&mut self) -> usize {
        for number in 0..self.links.len() {
            if self.links.get(number).is_some_and(|link| link.full) {
                self.receive(number);
            }
        }
        self.arena.filled()
    }

    /// Receives one batch from a socket, as far as there is room.
    fn receive(&mut self, number: usize) {
        let first = self.arena.filled();
        let asked = self.arena.room();
        if asked == 0 {
            return; // epoll reports the socket again
        }
        for attempt in 0..2 {
            let Some(link) = self.links.get_mut(number) else { return };
            self.counts.receive_calls += 1;
            match self.arena.receive(link.socket.as_fd(), link.listener, link.locals.is_some(), asked) {
                Ok(received) => {
                    link.full = received == asked;
                    break;
                }
                Err(error) => {
                    link.full = false;
                    if attempt == 0 && error.kind() != io::ErrorKind::WouldBlock {
                        self.take_errors(number); // a pending ICMP error; the datagrams are behind it
                        continue;
                    }
                    return;
                }
            }
        }
        let Some(link) = self.links.get_mut(number) else { return };
        for datagram in self.arena.batch(first) {
            self.counts.received += 1;
            self.counts.received_bytes += u64::try_from(datagram.bytes.len()).unwrap_or_default();
            self.counts.overlong += u64::from(datagram.overlong);
            if let Some(overflows) = datagram.overflows() {
                self.counts.receive_overflows += u64::from(overflows.wrapping_sub(link.overflows));
                link.overflows = overflows;
            }
            if let Some(locals) = &mut link.locals
                && let Some(local) = datagram.local()
            {
                locals.learn(datagram.hop.peer, local);
            }
        }
    }

    fn take_errors(&mut self, number: usize) {
        if let Some(link) = self.links.get(number) {
            self.errors.take_from(&link.socket, link.listener, &mut self.counts);
        }
    }

    fn send_waiting(&mut self, number: usize) {
        if let Some(link) = self.links.get_mut(number) {
            let waited = !link.waiting.is_empty();
            self.sender.send_waiting(&mut link.route(), &mut self.errors, &mut self.counts);
            link.watch_waiting(&self.poller, number, waited);
        }
    }
}

impl Link {
    fn route(&mut self) -> Route<'_> {
        Route {
            socket: &self.socket,
            listener: self.listener,
            locals: self.locals.as_ref(),
            waiting: &mut self.waiting,
            joins: &mut self.joins,
        }
    }

    /// Asks epoll for room to write while messages wait, and no longer.
    fn watch_waiting(&self, poller: &Poller, number: usize, waited: bool) {
        let waits = !self.waiting.is_empty();
        if waits != waited {
            // It cannot fail for a descriptor that is watched already.
            let _ = poller.watch_writable(self.socket.as_fd(), Source::Udp(number), waits);
        }
    }
}

impl core::fmt::Debug for Net {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Net")
            .field("sockets", &self.links.len())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
