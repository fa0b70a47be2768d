//! One `sendmmsg` for a turn's messages, and what becomes of those the kernel does not take.
//!
//! The kernel stops at the first message it refuses, so every refusal is put down to one message. One trap: a socket
//! that hears of ICMP errors returns a *pending* one, about an earlier message, from the next send; then the error
//! queue is emptied and the same message tried again before it is blamed.
#![expect(unsafe_code, reason = "sendmmsg reads the messages through pointers")]

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use tandem_sip::{Hop, ListenerId, Outbox, Transport};

use crate::errors::{Cause, Errors};
use crate::frames::Frames;
use crate::locals::Locals;
use crate::socket::UdpSocket;
use crate::{Counts, sys};

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

/// What became of a message that was not sent.
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
    /// Sends messages from `first` on, at most `count`.
    fn send(&mut self, first: usize, count: usize) -> io::Result<usize>;
    /// Sends one message in fragments.
    fn send_in_fragments(&mut self, index: usize) -> io::Result<usize>;
    /// Takes pending errors about earlier messages out of the way.
    fn settle(&mut self);
}

/// Sends `count` messages; `fates` tells, in order, of those that were not sent.
fn deliver(count: usize, kernel: &mut impl Kernel, fates: &mut Vec<(usize, Fate)>) {
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
                return;
            }
            libc::ENOBUFS | libc::ENOMEM => {
                fates.push((done, Fate::Lost));
                done += 1;
            }
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
}

/// The socket, its arrays, and where errors about earlier messages go.
struct Calls<'a> {
    frames: &'a mut Frames,
    socket: &'a UdpSocket,
    listener: ListenerId,
    errors: &'a mut Errors,
    counts: &'a mut Counts,
}

impl Kernel for Calls<'_> {
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
}

/// The sending side of a shard's sockets: the arrays of one call, reused.
pub(crate) struct Sender {
    frames: Frames,
    fates: Vec<(usize, Fate)>,
}

impl Sender {
    /// Sends up to `batch` messages a call.
    pub(crate) fn new(batch: usize) -> Self {
        Self { frames: Frames::new(batch), fates: Vec::new() }
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
        let mut total = 0;
        let mut bytes = 0;
        for (index, (peer, message)) in chunk.enumerate() {
            let Some((slot, header)) = self.frames.get_mut(index) else { break };
            slot.set_buffer(message.as_ptr().cast_mut(), message.len());
            (slot.name, header.msg_hdr.msg_namelen) = sys::Name::from_address(peer);
            header.msg_hdr.msg_controllen = route
                .locals
                .and_then(|locals| locals.of(peer))
                .map_or(0, |local| sys::write_source(&mut slot.control, local));
            bytes += message.len();
            total += 1;
        }
        let (socket, listener) = (route.socket, route.listener);
        self.fates.clear();
        deliver(
            total,
            &mut Calls { frames: &mut self.frames, socket, listener, errors, counts },
            &mut self.fates,
        );
        for &(index, fate) in &self.fates {
            // SAFETY: the frame points at a message of `chunk`, which is borrowed for `'m`.
            let Some((peer, message)) = (unsafe { self.frames.message(index) }) else { continue };
            bytes -= message.len();
            match fate {
                Fate::Wait => route.waiting.push(peer, message, counts),
                Fate::Lost => counts.send_overflows += 1,
                Fate::Failed(cause) => {
                    counts.send_errors += 1;
                    errors.push(Hop::udp(listener, peer), cause, message, counts);
                }
            }
        }
        counts.sent += u64::try_from(total - self.fates.len()).unwrap_or_default();
        counts.sent_bytes += u64::try_from(bytes).unwrap_or_default();
        total
    }
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
    }

    impl Kernel for Script {
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
        let answers = answers.iter().copied().collect();
        let mut script = Script { answers, asked: vec![], settled: 0, fragmented: vec![] };
        let mut fates = vec![];
        deliver(count, &mut script, &mut fates);
        (script, fates)
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
    fn no_more_messages_wait_than_the_bound_allows() {
        let (mut waiting, mut counts) = (Waiting::new(2), Counts::default());
        for _ in 0..5 {
            waiting.push("192.0.2.1:5060".parse().unwrap(), b"x", &mut counts);
        }
        assert_eq!((waiting.queue.len(), counts.send_waits, counts.send_overflows), (2, 2, 3));
    }
}
