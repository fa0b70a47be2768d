//! One `sendmmsg` for a turn's messages, and what becomes of those the kernel does not take.
//!
//! The kernel stops at the first frame it refuses, a message or a [train](crate::train) of them, so every refusal is
//! put down to one. One trap: a socket that hears of ICMP errors returns a *pending* one, about an earlier message, from
//! the next send; then the error queue is emptied and the same frame tried again before it is blamed. A train that is
//! blamed is taken apart, and its messages and all behind it go one by one: the path may take less than a message, or
//! the device no train at all.
#![expect(unsafe_code, reason = "sendmmsg reads the messages through pointers")]

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use tandem_sip::{Hop, ListenerId, Outbox, Transport};

use crate::Counts;
use crate::errors::{Cause, Errors};
use crate::frames::Frames;
use crate::locals::Locals;
use crate::socket::UdpSocket;
use crate::sys::{ControlWriter, Name};
use crate::train::Trains;

/// Messages that wait for room in one socket's send buffer.
pub(crate) struct Waiting {
    queue: VecDeque<(SocketAddr, Box<[u8]>)>,
    max: usize,
}

impl Waiting {
    pub(crate) fn new(max: usize) -> Self {
        Self { queue: VecDeque::new(), max }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn push(&mut self, peer: SocketAddr, message: &[u8], counts: &mut Counts) {
        if self.queue.len() < self.max {
            counts.send_waits += 1;
            self.queue.push_back((peer, message.into()));
        } else {
            counts.send_overflows += 1;
        }
    }
}

/// What became of a frame that was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The send buffer is full: to be kept for later, like all after it.
    Wait,
    /// The device's queue is full: lost as on the wire.
    Lost,
    Failed(Cause),
}

/// What `deliver` needs from the kernel; tests script it.
trait Kernel {
    /// Whether the frame is a train.
    fn is_train(&self, index: usize) -> bool;
    /// Sends frames from `first` on, at most `count`.
    fn send(&mut self, first: usize, count: usize) -> io::Result<usize>;
    /// Sends one frame in fragments.
    fn send_in_fragments(&mut self, index: usize) -> io::Result<usize>;
    /// Takes pending errors about earlier messages out of the way.
    fn settle(&mut self);
}

/// A train that the kernel refused; nothing from it on was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Refused {
    frame: usize,
    errno: i32,
}

/// Sends `count` frames; `fates` tells, in order, of those that were not sent.
fn deliver(count: usize, kernel: &mut impl Kernel, fates: &mut Vec<(usize, Fate)>) -> Result<(), Refused> {
    let mut done = 0;
    let mut settled = false;
    while done < count {
        let error = match kernel.send(done, count - done) {
            Ok(sent) => {
                done += sent;
                settled = false;
                if sent > 0 {
                    continue;
                }
                io::ErrorKind::WouldBlock.into()
            }
            Err(error) => error,
        };
        match error.raw_os_error().unwrap_or(libc::EAGAIN) {
            libc::EINTR => {}
            libc::EAGAIN => {
                fates.extend((done..count).map(|index| (index, Fate::Wait)));
                return Ok(());
            }
            libc::ENOBUFS | libc::ENOMEM => {
                fates.push((done, Fate::Lost));
                done += 1;
            }
            errno if settled && kernel.is_train(done) => return Err(Refused { frame: done, errno }),
            libc::EMSGSIZE if settled => {
                if let Err(error) = kernel.send_in_fragments(done) {
                    fates.push((done, Fate::Failed(Cause::from_error(&error))));
                }
                done += 1;
                settled = false;
            }
            _ if settled => {
                fates.push((done, Fate::Failed(Cause::from_error(&error))));
                done += 1;
                settled = false;
            }
            _ => {
                kernel.settle();
                settled = true;
            }
        }
    }
    Ok(())
}

/// The socket, its arrays, and where errors about earlier messages go.
struct Calls<'a> {
    frames: &'a mut Frames,
    layout: &'a [Range<usize>],
    socket: &'a UdpSocket,
    listener: ListenerId,
    errors: &'a mut Errors,
    counts: &'a mut Counts,
}

impl Kernel for Calls<'_> {
    fn is_train(&self, index: usize) -> bool {
        self.layout.get(index).is_some_and(|messages| messages.len() > 1)
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<usize> {
        self.counts.send_calls += 1;
        // SAFETY: `Sender` calls `deliver` only for frames it has just pointed at messages that are still borrowed.
        unsafe { self.frames.send(self.socket.as_fd(), first, count) }
    }

    fn send_in_fragments(&mut self, index: usize) -> io::Result<usize> {
        self.socket.set_fragmenting(true)?;
        let sent = self.send(index, 1);
        self.socket.set_fragmenting(false)?;
        sent
    }

    fn settle(&mut self) {
        self.errors.take_from(self.socket, self.listener, self.counts);
    }
}

/// One socket as the sender sees it.
pub(crate) struct Route<'a> {
    pub(crate) socket: &'a UdpSocket,
    pub(crate) listener: ListenerId,
    pub(crate) locals: Option<&'a Locals>,
    pub(crate) waiting: &'a mut Waiting,
    /// Whether trains may be tried; cleared when the device cannot carry them.
    pub(crate) joins: &'a mut bool,
}

/// A message of the flush in progress.
#[derive(Clone, Copy)]
struct Staged<'m> {
    train: usize,
    place: usize,
    peer: SocketAddr,
    message: &'m [u8],
}

/// The sending side of a shard's sockets: the arrays of one call, reused.
pub(crate) struct Sender {
    frames: Frames,
    trains: Trains,
    fates: Vec<(usize, Fate)>,
    /// Which messages each frame holds.
    layout: Vec<Range<usize>>,
    /// Empty between flushes.
    staged: Vec<Staged<'static>>,
}

impl Sender {
    /// Sends up to `batch` messages a call.
    pub(crate) fn new(batch: usize) -> Self {
        Self {
            frames: Frames::new(batch),
            trains: Trains::default(),
            fates: Vec::new(),
            layout: Vec::new(),
            staged: Vec::new(),
        }
    }

    /// Sends the datagrams in `out` that go by `route`; gives how many those were.
    pub(crate) fn send(
        &mut self,
        route: &mut Route<'_>,
        out: &Outbox,
        errors: &mut Errors,
        counts: &mut Counts,
    ) -> usize {
        let listener = route.listener;
        let mut messages = out
            .iter()
            .filter(|(hop, _)| hop.transport == Transport::Udp && hop.listener == listener)
            .map(|(hop, message)| (hop.peer, message));
        let mut total = 0;
        loop {
            // What waits goes first; behind it, order is kept by waiting too.
            if !route.waiting.is_empty() {
                for (peer, message) in messages {
                    total += 1;
                    route.waiting.push(peer, message, counts);
                }
                return total;
            }
            let chunk = messages.by_ref().take(self.frames.len());
            let sent = self.send_chunk(route, chunk, errors, counts);
            total += sent;
            if sent < self.frames.len() {
                return total;
            }
        }
    }

    /// Tries again what waited for room in the send buffer.
    pub(crate) fn send_waiting(&mut self, route: &mut Route<'_>, errors: &mut Errors, counts: &mut Counts) {
        while !route.waiting.is_empty() {
            let mut queue = core::mem::take(&mut route.waiting.queue);
            let count = queue.len().min(self.frames.len());
            let rest = queue.split_off(count);
            let chunk = queue.iter().map(|(peer, message)| (*peer, &**message));
            self.send_chunk(route, chunk, errors, counts);
            let stuck = !route.waiting.is_empty();
            route.waiting.queue.extend(rest);
            if stuck {
                return;
            }
        }
    }

    /// Sends the messages of `chunk`, at most one per frame; gives how many there were.
    fn send_chunk<'m>(
        &mut self,
        route: &mut Route<'_>,
        chunk: impl Iterator<Item = (SocketAddr, &'m [u8])>,
        errors: &mut Errors,
        counts: &mut Counts,
    ) -> usize {
        let mut staged: Vec<Staged<'m>> = core::mem::take(&mut self.staged);
        self.trains.clear();
        for (place, (peer, message)) in chunk.take(self.frames.len()).enumerate() {
            let train = if *route.joins { self.trains.place(peer, message.len()) } else { place };
            staged.push(Staged { train, place, peer, message });
        }
        staged.sort_unstable_by_key(|staged| (staged.train, staged.place));
        let mut left: &[Staged<'m>] = &staged;
        let mut joined = *route.joins;
        loop {
            self.lay_out(left, joined, route.locals);
            let refused = self.deliver(left, route, errors, counts);
            let Some(first) = refused.and_then(|refused| {
                counts.trains_refused += 1;
                // EIO: the device cannot, and will not be able the next time. Else it is this path that cannot.
                *route.joins &= refused.errno != libc::EIO;
                Some(self.layout.get(refused.frame)?.start)
            }) else {
                break;
            };
            left = left.get(first..).unwrap_or_default();
            joined = false;
        }
        let total = staged.len();
        self.staged = emptied(staged);
        total
    }

    /// Points the frames at messages, those of a train at one frame if `joined`.
    fn lay_out(&mut self, messages: &[Staged<'_>], joined: bool, locals: Option<&Locals>) {
        self.layout.clear();
        for (place, staged) in messages.iter().enumerate() {
            self.frames.set_buffer(place, staged.message.as_ptr().cast_mut(), staged.message.len());
            let same = |before: &&Staged<'_>| joined && before.train == staged.train;
            match self.layout.last_mut() {
                Some(last) if place.checked_sub(1).and_then(|b| messages.get(b)).filter(same).is_some() => {
                    last.end = place + 1;
                }
                _ => self.layout.push(place..place + 1),
            }
        }
        for (index, range) in self.layout.iter().enumerate() {
            let Some(first) = messages.get(range.start) else { break };
            self.frames.set_buffers(index, range.start, range.len());
            let Some((slot, header)) = self.frames.get_mut(index) else { break };
            (slot.name, header.msg_hdr.msg_namelen) = Name::from_address(first.peer);
            let mut control = ControlWriter::new(&mut slot.control);
            if let Some(local) = locals.and_then(|locals| locals.of(first.peer)) {
                control.source(local);
            }
            if range.len() > 1 {
                control.segment(u16::try_from(first.message.len()).unwrap_or(u16::MAX));
            }
            header.msg_hdr.msg_controllen = control.length();
        }
    }

    /// Sends the frames as laid out over `messages`, and settles the fate of each message that did not go.
    fn deliver(
        &mut self,
        messages: &[Staged<'_>],
        route: &mut Route<'_>,
        errors: &mut Errors,
        counts: &mut Counts,
    ) -> Option<Refused> {
        let (socket, listener) = (route.socket, route.listener);
        let Self { frames, layout, fates, .. } = self;
        fates.clear();
        let mut calls = Calls { frames, layout, socket, listener, errors, counts };
        let refused = deliver(layout.len(), &mut calls, fates).err();
        let tried = refused.map_or(layout.len(), |refused| refused.frame);
        let mut fates = fates.iter().copied().peekable();
        for (index, range) in layout.iter().enumerate().take(tried) {
            let messages = messages.get(range.clone()).unwrap_or_default();
            let fate = fates.next_if(|(frame, _)| *frame == index).map(|(_, fate)| fate);
            for &Staged { peer, message, .. } in messages {
                match fate {
                    None => {
                        counts.sent += 1;
                        counts.sent_bytes += u64::try_from(message.len()).unwrap_or_default();
                        counts.joined += u64::from(messages.len() > 1);
                    }
                    Some(Fate::Wait) => route.waiting.push(peer, message, counts),
                    Some(Fate::Lost) => counts.send_overflows += 1,
                    Some(Fate::Failed(cause)) => {
                        counts.send_errors += 1;
                        errors.push(Hop::udp(listener, peer), cause, message, counts);
                    }
                }
            }
        }
        refused
    }
}

/// The vector without its messages, so that its memory serves the next flush.
fn emptied(mut staged: Vec<Staged<'_>>) -> Vec<Staged<'static>> {
    staged.clear();
    // Collects in place: nothing is allocated, and nothing is there to be converted.
    staged.into_iter().map(|staged| Staged { message: &[], ..staged }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that answers by a script: each entry is what one send takes, or its errno.
    struct Script {
        answers: VecDeque<Result<usize, i32>>,
        asked: Vec<(usize, usize)>,
        settled: usize,
        fragmented: Vec<usize>,
        trains: bool,
    }

    impl Kernel for Script {
        fn is_train(&self, _: usize) -> bool {
            self.trains
        }
        fn send(&mut self, first: usize, count: usize) -> io::Result<usize> {
            self.asked.push((first, count));
            self.answers.pop_front().unwrap_or(Ok(count)).map_err(io::Error::from_raw_os_error)
        }
        fn send_in_fragments(&mut self, index: usize) -> io::Result<usize> {
            self.fragmented.push(index);
            Ok(1)
        }
        fn settle(&mut self) {
            self.settled += 1;
        }
    }

    fn run(count: usize, answers: &[Result<usize, i32>]) -> (Script, Vec<(usize, Fate)>) {
        let (script, fates, refused) = run_trains(count, answers, false);
        assert_eq!(refused, Ok(()));
        (script, fates)
    }

    fn run_trains(
        count: usize,
        answers: &[Result<usize, i32>],
        trains: bool,
    ) -> (Script, Vec<(usize, Fate)>, Result<(), Refused>) {
        let answers = answers.iter().copied().collect();
        let mut script = Script { answers, asked: vec![], settled: 0, fragmented: vec![], trains };
        let mut fates = vec![];
        let refused = deliver(count, &mut script, &mut fates);
        (script, fates, refused)
    }

    #[test]
    fn a_partial_send_goes_on_where_the_kernel_stopped() {
        let (script, fates) = run(5, &[Ok(2), Err(libc::EINTR), Ok(1)]);
        assert_eq!(script.asked, [(0, 5), (2, 3), (2, 3), (3, 2)]);
        assert_eq!(fates, []);
    }

    #[test]
    fn a_full_send_buffer_keeps_the_rest_for_later() {
        let (script, fates) = run(3, &[Ok(1), Err(libc::EAGAIN)]);
        assert_eq!(script.asked.len(), 2);
        assert_eq!(fates, [(1, Fate::Wait), (2, Fate::Wait)]);
    }

    #[test]
    fn a_full_device_queue_loses_one_message_and_not_the_next() {
        assert_eq!(run(2, &[Err(libc::ENOBUFS), Ok(1)]).1, [(0, Fate::Lost)]);
    }

    /// The first ECONNREFUSED may be about an earlier message; the second one is about this.
    #[test]
    fn a_message_is_blamed_only_for_an_error_that_repeats() {
        let (script, fates) = run(2, &[Err(libc::ECONNREFUSED), Ok(2)]);
        assert_eq!((script.settled, fates), (1, vec![]));
        let (script, fates) = run(2, &[Err(libc::ENETUNREACH), Err(libc::ENETUNREACH), Ok(1)]);
        assert_eq!((script.settled, fates), (1, vec![(0, Fate::Failed(Cause::Unreachable))]));
    }

    #[test]
    fn a_message_above_the_path_mtu_goes_in_fragments() {
        let (script, fates) = run(3, &[Ok(1), Err(libc::EMSGSIZE), Err(libc::EMSGSIZE), Ok(1)]);
        assert_eq!((script.fragmented, fates), (vec![1], vec![]));
    }

    #[test]
    fn a_train_that_is_refused_twice_is_given_back_and_those_before_it_have_gone() {
        let (script, fates, refused) = run_trains(3, &[Ok(1), Err(libc::EINVAL), Err(libc::EINVAL)], true);
        assert_eq!((script.settled, fates), (1, vec![]));
        assert_eq!(refused, Err(Refused { frame: 1, errno: libc::EINVAL }));
        assert_eq!(run_trains(2, &[Err(libc::ECONNREFUSED), Ok(2)], true).2, Ok(()));
    }

    #[test]
    fn no_more_messages_wait_than_the_bound_allows() {
        let (mut waiting, mut counts) = (Waiting::new(2), Counts::default());
        for _ in 0..5 {
            waiting.push("192.0.2.1:5060".parse().unwrap(), b"x", &mut counts);
        }
        assert_eq!((waiting.queue.len(), counts.send_waits, counts.send_overflows), (2, 2, 3));
    }
}
