//! Hand-over of messages between shards: a bounded ring for each pair, one wake-up a turn.
//!
//! A message that the kernel gave to the wrong shard is copied into the ring of its owner, at most once: the owner
//! does not look again. When the ring is full the message is dropped and counted; whoever sent it will retransmit.

use rtrb::{Consumer, Producer, RingBuffer};
use tandem_net::Waker;
use tandem_sip::Hop;

/// Where a message came from and how long it is; its bytes follow in a ring of their own.
#[derive(Clone, Copy)]
struct Label {
    hop: Hop,
    length: usize,
}

/// Why a message could not be handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lost {
    /// The ring is full.
    Full,
    /// The owner has ended, or there is no such shard.
    Gone,
}

/// The ring to one other shard.
struct Outgoing {
    labels: Producer<Label>,
    bytes: Producer<u8>,
    waker: Waker,
    used: bool,
}

/// The ring from one other shard.
struct Incoming {
    labels: Consumer<Label>,
    bytes: Consumer<u8>,
}

/// All rings of one shard.
pub(crate) struct HandOver {
    outgoing: Vec<Option<Outgoing>>,
    incoming: Vec<Incoming>,
    message: Vec<u8>,
    used: bool,
}

/// The rings between shards with these wakers, one [`HandOver`] for each.
pub(crate) fn mesh(wakers: &[Waker], messages_max: usize, bytes_max: usize) -> Vec<HandOver> {
    let mut shards: Vec<HandOver> = wakers
        .iter()
        .map(|_| HandOver { outgoing: vec![], incoming: vec![], message: vec![], used: false })
        .collect();
    for from in 0..wakers.len() {
        for (to, waker) in wakers.iter().enumerate() {
            let outgoing = (from != to).then(|| {
                let (labels, labels_out) = RingBuffer::new(messages_max);
                let (bytes, bytes_out) = RingBuffer::new(bytes_max);
                if let Some(shard) = shards.get_mut(to) {
                    shard.incoming.push(Incoming { labels: labels_out, bytes: bytes_out });
                }
                Outgoing { labels, bytes, waker: waker.clone(), used: false }
            });
            if let Some(shard) = shards.get_mut(from) {
                shard.outgoing.push(outgoing);
            }
        }
    }
    shards
}

impl HandOver {
    /// Gives a message to its owner.
    pub(crate) fn give(&mut self, owner: usize, hop: Hop, message: &[u8]) -> Result<(), Lost> {
        let ring = self.outgoing.get_mut(owner).and_then(Option::as_mut).ok_or(Lost::Gone)?;
        if ring.labels.is_abandoned() {
            return Err(Lost::Gone);
        }
        if ring.labels.is_full() {
            return Err(Lost::Full);
        }
        ring.bytes.push_entire_slice(message).map_err(|_| Lost::Full)?;
        ring.labels.push(Label { hop, length: message.len() }).map_err(|_| Lost::Full)?;
        ring.used = true;
        self.used = true;
        Ok(())
    }

    /// Wakes those that were given something since the last call.
    pub(crate) fn wake(&mut self) {
        if !core::mem::take(&mut self.used) {
            return;
        }
        for ring in self.outgoing.iter_mut().flatten() {
            if core::mem::take(&mut ring.used) {
                ring.waker.wake();
            }
        }
    }

    /// Takes up to `limit` messages from each ring; gives how many there were.
    pub(crate) fn take(&mut self, limit: usize, mut handle: impl FnMut(Hop, &[u8])) -> usize {
        let Self { incoming, message, .. } = self;
        let mut taken = 0;
        for ring in incoming {
            for _ in 0..limit {
                let Ok(label) = ring.labels.pop() else { break };
                message.resize(label.length, 0);
                // The bytes were written before the label, so they are there.
                if ring.bytes.pop_entire_slice(message).is_ok() {
                    handle(label.hop, message);
                }
                taken += 1;
            }
        }
        taken
    }

    /// How many messages wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.incoming.iter().map(|ring| ring.labels.slots()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_net::{Net, NetOptions};
    use tandem_sip::ListenerId;

    fn pair(messages_max: usize, bytes_max: usize) -> (HandOver, HandOver) {
        let wakers = [0, 1].map(|_| Net::new(NetOptions::default()).unwrap().waker());
        let mut shards = mesh(&wakers, messages_max, bytes_max);
        let second = shards.pop().unwrap();
        (shards.pop().unwrap(), second)
    }

    fn hop() -> Hop {
        Hop::udp(ListenerId(3), "192.0.2.1:5060".parse().unwrap())
    }

    #[test]
    fn messages_arrive_whole_in_order_and_across_the_end_of_the_ring() {
        let (mut from, mut to) = pair(8, 100);
        for round in 0..50_u8 {
            from.give(1, hop(), &[round; 30]).unwrap();
            from.give(1, hop(), &[round, 1]).unwrap();
            let mut got = vec![];
            assert_eq!(to.take(8, |hop, message| got.push((hop, message.to_vec()))), 2);
            assert_eq!(got, [(hop(), vec![round; 30]), (hop(), vec![round, 1])]);
        }
    }

    #[test]
    fn a_ring_without_room_refuses_and_keeps_what_it_has() {
        let (mut from, mut to) = pair(2, 100);
        assert_eq!(from.give(1, hop(), &[0; 101]), Err(Lost::Full));
        from.give(1, hop(), &[1; 60]).unwrap();
        assert_eq!(from.give(1, hop(), &[2; 60]), Err(Lost::Full));
        from.give(1, hop(), &[3; 10]).unwrap();
        assert_eq!(from.give(1, hop(), &[4; 10]), Err(Lost::Full));
        let mut got = vec![];
        to.take(8, |_, message| got.push(message.len()));
        assert_eq!(got, [60, 10]);
        assert_eq!(from.give(0, hop(), b"to itself"), Err(Lost::Gone));
        drop(to);
        assert_eq!(from.give(1, hop(), b"x"), Err(Lost::Gone));
    }
}
