//! Hash: OpenSER's hash of the Call-ID, mod N (Jiang et al. 2009, §III; `core_hash` of OpenSER and its heirs).
//!
//! For pools that must agree with a Kamailio or OpenSIPS dispatcher set with algorithm 0. It has no secret: a caller
//! who chooses Call-IDs can choose destinations. `rendezvous` doesn't have that weakness.

use super::spread::spread;
use super::{Pick, Policy};
use crate::members::Members;
use crate::{Load, PoolSettings, Slot};

struct Hash;

pub(super) fn make(_: &PoolSettings) -> Box<dyn Policy> {
    Box::new(Hash)
}

impl Policy for Hash {
    fn reshape(&mut self, _: &Members, _: &[Load]) {}

    fn pick(&mut self, pick: &mut Pick<'_>) -> Option<Slot> {
        spread(pick, u64::from(core_hash(pick.choice.call_id)))
    }
}

/// The hash: four octets at a time as a big-endian word, the rest as a shorter one. Octets above 127 are negative,
/// as C's `char` is where these servers run.
#[must_use]
pub fn core_hash(text: &[u8]) -> u32 {
    let (words, rest) = text.as_chunks::<4>();
    let step = |hash: u32, word: u32| hash.wrapping_add(word ^ (word >> 3));
    let hash = words.iter().fold(0, |hash, word| step(hash, join(word)));
    let hash = step(hash, join(rest));
    (hash.wrapping_add(hash >> 11)).wrapping_add((hash >> 13).wrapping_add(hash >> 23))
}

fn join(octets: &[u8]) -> u32 {
    octets
        .iter()
        .fold(0, |word: u32, &octet| (word << 8).wrapping_add(i32::from(octet.cast_signed()).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::super::fnv::fnv1;
    use super::*;

    /// What Kamailio's `core_hash` gives for these, compiled for x86-64.
    #[test]
    fn hash_agrees_with_the_one_of_openser() {
        for (text, hash) in [
            (b"".as_slice(), 0),
            (b"a", 0x0000_006d),
            (b"abc", 0x006d_5f42),
            (b"abcd", 0x6d5f_4418),
            (b"1-2345@127.0.0.1", 0xca44_0bde),
            (b"a84b4c76e66710@pc33.atlanta.com", 0x81a4_246e),
            (b"3848276298220188511@atlanta.example.com", 0xcb9c_641d),
            (b"\xc3\xa4@h\xff", 0xbb0d_ff79),
        ] {
            assert_eq!(core_hash(text), hash, "{}", text.escape_ascii());
        }
    }

    /// Jiang et al. 2009, §V-A: 300,000 calls fall into 88,000 buckets with OpenSER's hash and into 228,000 with FNV,
    /// which makes a search about three times shorter. That is what Call-IDs as SIPp writes them (number, process,
    /// address) do in a table of 2^19; a perfect hash would fill 2^19 · (1 − e^(−300,000 / 2^19)) = 228,450.
    #[test]
    fn three_hundred_thousand_calls_fill_88_000_buckets_by_hash_and_228_000_by_fnv() {
        const BUCKETS: u32 = 1 << 19;
        let occupancy = |hash: fn(&[u8]) -> u32| {
            let mut buckets = vec![0u64; usize::try_from(BUCKETS).unwrap()];
            for call in 1..=300_000 {
                let call_id = format!("{call}-4242@127.0.0.1");
                buckets[usize::try_from(hash(call_id.as_bytes()) % BUCKETS).unwrap()] += 1;
            }
            let filled = buckets.iter().filter(|&&calls| calls > 0).count();
            // A search looks at half of its bucket, and at the call itself.
            let looked_at: u64 = buckets.iter().map(|calls| calls * (calls + 1) / 2).sum();
            (filled, looked_at as f64 / 300_000.0)
        };
        let (by_hash, hash_search) = occupancy(core_hash);
        let (by_fnv, fnv_search) = occupancy(fnv1);
        assert!((85_000..91_000).contains(&by_hash), "{by_hash}");
        assert!((225_000..232_000).contains(&by_fnv), "{by_fnv}");
        assert!((2.5..3.5).contains(&(hash_search / fnv_search)), "{hash_search} {fnv_search}");
    }
}
