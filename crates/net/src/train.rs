//! Trains: messages of one size to one peer that the kernel carries as one and cuts apart at the end (`UDP_SEGMENT`).
//!
//! Most of what a datagram costs is its way through the kernel, and a train makes that way once. A turn's messages are
//! of few sizes (the same response to many calls) and go to few peers, so trains are the rule on a busy server between
//! others. The order of the messages to one peer stays; that between peers, which nobody sees, does not.

use core::net::SocketAddr;

/// Most messages in a train: what every kernel that knows trains takes (`UDP_MAX_SEGMENTS`).
const MESSAGES_MAX: usize = 64;
/// Most bytes in a train, a little below what a datagram may have.
const BYTES_MAX: usize = 65_000;
/// Longest message that rides in a train: with every header it fits an Ethernet frame, since a train is not fragmented.
const MESSAGE_BYTES_MAX: usize = 1400;
/// Peers whose train is remembered; with more in turn, trains get shorter.
const RECENT: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Train {
    peer: SocketAddr,
    /// Bytes of each message but the last, which may have less.
    segment: usize,
    bytes: usize,
    messages: usize,
    /// Its last message is shorter than the others, so that nothing can follow.
    closed: bool,
}

impl Train {
    const fn takes(&self, length: usize) -> bool {
        !self.closed
            && length > 0
            && length <= self.segment
            && self.segment <= MESSAGE_BYTES_MAX
            && self.messages < MESSAGES_MAX
            && self.bytes + length <= BYTES_MAX
    }
}

/// Gives each message of a flush its train.
#[derive(Default)]
pub(crate) struct Trains {
    trains: Vec<Train>,
    recent: [Option<usize>; RECENT],
    /// Place in `recent` that is given up next.
    oldest: usize,
}

impl Trains {
    /// Begins a flush.
    pub(crate) fn clear(&mut self) {
        self.trains.clear();
        self.recent = [None; RECENT];
    }

    /// The number of the train for the next message. A message goes in the last train to its peer or in a later one,
    /// so that trains sent by number keep the order to each peer.
    pub(crate) fn place(&mut self, peer: SocketAddr, length: usize) -> usize {
        let new = self.trains.len();
        let trains = &mut self.trains;
        let to_peer = |number: &&mut usize| trains.get(**number).is_some_and(|train| train.peer == peer);
        match self.recent.iter_mut().flatten().find(to_peer) {
            Some(number) => {
                if let Some(train) = trains.get_mut(*number).filter(|train| train.takes(length)) {
                    train.closed = length < train.segment;
                    train.bytes += length;
                    train.messages += 1;
                    return *number;
                }
                *number = new;
            }
            None => {
                if let Some(slot) = self.recent.get_mut(self.oldest) {
                    *slot = Some(new);
                }
                self.oldest = (self.oldest + 1) % RECENT;
            }
        }
        self.trains.push(Train { peer, segment: length, bytes: length, messages: 1, closed: false });
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn placed(messages: &[(u16, usize)]) -> Vec<usize> {
        let mut trains = Trains::default();
        messages.iter().map(|&(port, length)| trains.place(peer(port), length)).collect()
    }

    #[test]
    fn messages_of_one_size_to_one_peer_share_a_train_whatever_lies_between_them() {
        assert_eq!(placed(&[(1, 600), (2, 300), (1, 600), (2, 300), (1, 600)]), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn a_shorter_message_ends_a_train_and_a_longer_one_begins_another() {
        assert_eq!(placed(&[(1, 600), (1, 600), (1, 500), (1, 500), (1, 600)]), [0, 0, 0, 1, 2]);
    }

    #[test]
    fn a_train_is_as_long_as_the_kernel_takes_it_and_no_longer() {
        let many = placed(&vec![(1, 100); 130]);
        assert_eq!([many[63], many[64], many[127], many[128]], [0, 1, 1, 2]);
        let heavy = placed(&vec![(1, 1400); 50]);
        assert_eq!([heavy[45], heavy[46]], [0, 1]);
        assert_eq!(placed(&[(1, 1401), (1, 1401), (1, 0), (1, 0)]), [0, 1, 2, 3]);
    }

    /// More peers in turn than are remembered: no train to a peer is taken up again once a later one has begun.
    #[test]
    fn trains_sent_by_number_keep_the_order_to_each_peer() {
        let mut trains = Trains::default();
        let mut last = [0; 12];
        let mut seed = 7_u32;
        for _ in 0..5000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (port, length) = ((seed >> 24) % 12, 300 + (seed >> 12) % 3);
            let train = trains.place(peer(u16::try_from(port).unwrap()), usize::try_from(length).unwrap());
            let last = &mut last[usize::try_from(port).unwrap()];
            assert!(train >= *last, "{train} after {last}");
            *last = train;
        }
    }
}
