//! Randomness from a seed, that stays unpredictable to whoever sees its output.
//!
//! The generator is SipHash-2-4 in counter mode under a secret 128-bit key. Branch parameters, tags and nonces
//! show its output to every peer, and off-path attackers must not compute the next one from them; that rules out
//! the faster generators whose state follows from a few outputs. Two words cost one hash of eight bytes.
//! Left out: entropy. The shell draws a key from the system once; the simulator gives a seed.

use core::fmt;
use core::time::Duration;

use siphasher::sip128::SipHasher24;

/// A deterministic stream of random numbers; the same seed gives the same stream on every platform.
#[derive(Clone)]
pub struct Rng {
    prf: SipHasher24,
    counter: u64,
    spare: Option<u64>,
}

impl Rng {
    /// The generator of a simulation or a test: reproducible, and only as secret as 64 bits can be.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut state = seed;
        let low = split_mix(&mut state);
        let high = split_mix(&mut state);
        Self::from_words(low, high)
    }

    /// The generator of a running node: `key` is 128 bits from the system's entropy source.
    #[must_use]
    pub fn from_key(key: [u8; 16]) -> Self {
        Self { prf: SipHasher24::new_with_key(&key), counter: 0, spare: None }
    }

    fn from_words(low: u64, high: u64) -> Self {
        Self { prf: SipHasher24::new_with_keys(low, high), counter: 0, spare: None }
    }

    /// An independent generator; draws 128 bits from this one for its key.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let low = self.next_u64();
        let high = self.next_u64();
        Self::from_words(low, high)
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        if let Some(word) = self.spare.take() {
            return word;
        }
        let block = self.prf.hash(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        self.spare = Some(block.h2);
        block.h1
    }

    /// 32 uniform bits.
    pub fn next_u32(&mut self) -> u32 {
        high_half(self.next_u64())
    }

    /// 128 uniform bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// A number in `0..n`, each equally likely (Lemire's method with rejection); 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // 2^64 mod n low products would make some results likelier; they are drawn again.
        let reject = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let (high, low) = halves(product);
            if low >= reject {
                return high;
            }
        }
    }

    /// An index into a slice of `len` items, each equally likely; 0 if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`; never for `p <= 0`, always for `p >= 1`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.f64() < p
    }

    /// An exponentially distributed number with the given mean: gaps between the arrivals of a Poisson process.
    pub fn exp(&mut self, mean: f64) -> f64 {
        // 1 - f64() lies in (0, 1], so the logarithm is finite.
        -mean * (1.0 - self.f64()).ln()
    }

    /// [`Rng::exp`] for a duration, in whole nanoseconds.
    pub fn exp_duration(&mut self, mean: Duration) -> Duration {
        Duration::try_from_secs_f64(self.exp(mean.as_secs_f64())).unwrap_or(Duration::MAX)
    }

    /// Fills `bytes` with uniform bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            for (to, from) in chunk.iter_mut().zip(word) {
                *to = from;
            }
        }
    }

    /// Puts the items into an order drawn uniformly from all orders (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rng(..)") // the key is a secret
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): spreads a small seed over the whole key.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
fn halves(wide: u128) -> (u64, u64) {
    ((wide >> 64) as u64, wide as u64)
}

fn high_half(word: u64) -> u32 {
    (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream_and_two_seeds_two() {
        let draw = |seed| {
            let mut rng = Rng::from_seed(seed);
            [rng.next_u64(), rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let mut parent = Rng::from_seed(7);
        let (mut first, mut second) = (parent.fork(), parent.fork());
        assert_ne!(first.next_u64(), second.next_u64());
    }

    /// 60,000 draws below 6: each face expects 10,000 with a deviation of 91; six deviations are 548.
    #[test]
    fn below_is_uniform_and_stays_below() {
        let mut rng = Rng::from_seed(1);
        let mut faces = [0u32; 6];
        for _ in 0..60_000 {
            faces[usize::try_from(rng.below(6)).unwrap()] += 1;
        }
        assert!(faces.iter().all(|&count| count.abs_diff(10_000) < 548), "{faces:?}");
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        // Below three quarters of 2^64, multiples of 3 would come up half of the time without the rejection: of
        // 30,000 draws 10,000 are expected, with a deviation of 82.
        let bound = 3 << 62;
        let draws: Vec<u64> = (0..30_000).map(|_| rng.below(bound)).collect();
        assert!(draws.iter().all(|&draw| draw < bound));
        let multiples = draws.iter().filter(|&draw| draw % 3 == 0).count();
        assert!(multiples.abs_diff(10_000) < 492, "{multiples}");
    }

    /// The mean of n exponential variates deviates by mean/√n: 100 000 draws stay within 2 % (six deviations).
    #[test]
    fn exponential_gaps_have_the_mean_asked_for() {
        let mut rng = Rng::from_seed(2);
        let sum: f64 = (0..100_000).map(|_| rng.exp(5.0)).sum();
        assert!((sum / 100_000.0 - 5.0).abs() < 0.1, "{sum}");
        assert!((0..1000).map(|_| rng.f64()).all(|x| (0.0..1.0).contains(&x)));
    }

    #[test]
    fn fill_covers_every_length_and_shuffle_keeps_every_item() {
        let mut rng = Rng::from_seed(3);
        for len in 0..40 {
            let mut seen = vec![0u8; len];
            for _ in 0..16 {
                let mut bytes = vec![0u8; len];
                rng.fill(&mut bytes);
                for (all, byte) in seen.iter_mut().zip(bytes) {
                    *all |= byte;
                }
            }
            assert!(seen.iter().all(|&byte| byte != 0), "byte left unfilled at length {len}");
        }
        let mut items: Vec<u32> = (0..100).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
