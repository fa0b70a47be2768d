//! The network: what happens to a datagram between two addresses.

use core::net::SocketAddr;
use core::time::Duration;

use tandem_base::Rng;

/// One direction between two hosts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Probability that a datagram is lost.
    pub loss: f64,
    /// How long each takes at least.
    pub delay: Duration,
    /// Up to so much longer, drawn for each: more than the gap between two datagrams reorders them.
    pub jitter: Duration,
    /// Probability that a datagram arrives twice.
    pub duplicate: f64,
    /// Probability that a datagram has some of its bits flipped.
    pub flip: f64,
    /// Nothing arrives.
    pub is_cut: bool,
}

impl Default for Link {
    /// A millisecond and nothing else.
    fn default() -> Self {
        Self {
            loss: 0.0,
            delay: Duration::from_millis(1),
            jitter: Duration::ZERO,
            duplicate: 0.0,
            flip: 0.0,
            is_cut: false,
        }
    }
}

impl Link {
    /// A poor network drawn from `rng`: 0 to 10 % loss, 1 to 60 ms and as much jitter, up to 5 % duplicates.
    #[must_use]
    pub fn poor(rng: &mut Rng) -> Self {
        Self {
            loss: 0.1 * rng.f64(),
            delay: Duration::from_millis(1 + rng.below(60)),
            jitter: Duration::from_millis(rng.below(60)),
            duplicate: 0.05 * rng.f64(),
            ..Self::default()
        }
    }
}

/// All links: one for all, and those that differ.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Every link that has no entry of its own.
    pub link: Link,
    own: Vec<(SocketAddr, SocketAddr, Link)>,
}

impl Network {
    /// Gives one direction a link of its own.
    pub fn set(&mut self, from: SocketAddr, to: SocketAddr, link: Link) {
        self.own.retain(|(a, b, _)| (*a, *b) != (from, to));
        self.own.push((from, to, link));
    }

    /// The link of one direction.
    #[must_use]
    pub fn between(&self, from: SocketAddr, to: SocketAddr) -> Link {
        self.own.iter().find(|(a, b, _)| (*a, *b) == (from, to)).map_or(self.link, |(.., link)| *link)
    }

    /// The delays of the copies that arrive; none if the datagram is lost.
    pub(crate) fn fate(&self, from: SocketAddr, to: SocketAddr, rng: &mut Rng) -> Vec<Duration> {
        let link = self.between(from, to);
        let copies = if rng.chance(link.duplicate) { 2 } else { 1 };
        let mut arrivals = Vec::new();
        for _ in 0..copies {
            let jitter = u64::try_from(link.jitter.as_nanos()).unwrap_or(u64::MAX);
            let delay = link.delay + Duration::from_nanos(rng.below(jitter.max(1)));
            if !rng.chance(link.loss) && !link.is_cut {
                arrivals.push(delay);
            }
        }
        arrivals
    }

    /// Flips one to eight bits of a datagram where the link does such things.
    pub(crate) fn flip(&self, from: SocketAddr, to: SocketAddr, bytes: &mut [u8], rng: &mut Rng) {
        if !rng.chance(self.between(from, to).flip) {
            return;
        }
        for _ in 0..=rng.below(8) {
            let place = rng.index(bytes.len());
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << rng.below(8);
            }
        }
    }
}
