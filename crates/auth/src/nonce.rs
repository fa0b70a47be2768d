//! Nonces that prove themselves: RFC 7616 §5.4 leaves their content to the server.
//!
//! 24 bytes, written as 32 characters of URL-safe base64: 5 bytes of issue time in ms since 2020 (lasts until
//! 2054), 7 random bytes, and 12 bytes of a keyed MAC over those and the realm. 24 bytes fill their characters
//! exactly, so each nonce has one spelling.

use tandem_base::{HashKey, Rng};

/// 2020-01-01T00:00:00Z in Unix milliseconds: the zero of [`Stamp`].
const STAMP_EPOCH_MS: u64 = 1_577_836_800_000;
const STAMP_BITS: u32 = 40;
const LEN: usize = 24;
pub(crate) const TEXT_LEN: usize = 32;
const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// When a nonce was issued: milliseconds since 2020, in 40 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Stamp {
    pub(crate) fn from_unix_ms(unix_ms: u64) -> Self {
        Self(unix_ms.saturating_sub(STAMP_EPOCH_MS).min((1 << STAMP_BITS) - 1))
    }

    pub(crate) fn as_millis(self) -> u64 {
        self.0
    }
}

/// A nonce whose MAC held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonce {
    pub(crate) stamp: Stamp,
    pub(crate) bytes: [u8; LEN],
}

/// Makes a new nonce for `realm`.
pub(crate) fn mint(key: &HashKey, stamp: Stamp, realm: &[u8], rng: &mut Rng) -> [u8; TEXT_LEN] {
    let mut open = [0; 12];
    rng.fill(&mut open);
    let [_, _, _, time @ ..] = stamp.0.to_be_bytes();
    for (to, from) in open.iter_mut().zip(time) {
        *to = from;
    }
    let mut bytes = [0; LEN];
    for (to, from) in bytes.iter_mut().zip(open.into_iter().chain(mac(key, &open, realm))) {
        *to = from;
    }
    encode(&bytes)
}

/// Reads a nonce; `None` unless it was minted under this key for this realm.
pub(crate) fn verify(key: &HashKey, text: &[u8], realm: &[u8]) -> Option<Nonce> {
    let bytes = decode(text)?;
    let (open, tag) = bytes.split_at(12);
    let genuine: bool = subtle::ConstantTimeEq::ct_eq(tag, mac(key, open, realm).as_slice()).into();
    let &[a, b, c, d, e, ..] = open else { return None };
    genuine.then(|| Nonce { stamp: Stamp(u64::from_be_bytes([0, 0, 0, a, b, c, d, e])), bytes })
}

fn mac(key: &HashKey, open: &[u8], realm: &[u8]) -> [u8; 12] {
    let [tag @ .., _, _, _, _] = key.mac128(&[open, realm]).to_le_bytes();
    tag
}

fn encode(bytes: &[u8; LEN]) -> [u8; TEXT_LEN] {
    let mut text = [0; TEXT_LEN];
    for (four, three) in text.chunks_exact_mut(4).zip(bytes.chunks_exact(3)) {
        let word = three.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        for (number, to) in four.iter_mut().enumerate() {
            let symbol = (word >> (18 - 6 * number)) as usize & 63;
            *to = SYMBOLS.get(symbol).copied().unwrap_or(b'A');
        }
    }
    text
}

fn decode(text: &[u8]) -> Option<[u8; LEN]> {
    if text.len() != TEXT_LEN {
        return None;
    }
    let mut bytes = [0; LEN];
    for (three, four) in bytes.chunks_exact_mut(3).zip(text.chunks_exact(4)) {
        let mut word = 0u32;
        for &symbol in four {
            word = word << 6 | u32::from(symbol_value(symbol)?);
        }
        let [_, decoded @ ..] = word.to_be_bytes();
        three.copy_from_slice(&decoded);
    }
    Some(bytes)
}

fn symbol_value(symbol: u8) -> Option<u8> {
    match symbol {
        b'A'..=b'Z' => Some(symbol - b'A'),
        b'a'..=b'z' => Some(symbol - b'a' + 26),
        b'0'..=b'9' => Some(symbol - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_realm_read_a_nonce_and_no_bit_may_change() {
        let mut rng = Rng::from_seed(1);
        let (key, other) = (HashKey::from_rng(&mut rng), HashKey::from_rng(&mut rng));
        let stamp = Stamp::from_unix_ms(1_800_000_000_123);
        let text = mint(&key, stamp, b"example.com", &mut rng);
        assert_eq!(verify(&key, &text, b"example.com").unwrap().stamp, stamp);
        assert!(verify(&other, &text, b"example.com").is_none());
        assert!(verify(&key, &text, b"example.org").is_none());
        assert!(verify(&key, &text[..31], b"example.com").is_none());
        for at in 0..TEXT_LEN {
            for replacement in [b'A', b'_', b'+', b'=', b' ', 0, 255] {
                let mut forged = text;
                forged[at] = replacement;
                assert!(forged == text || verify(&key, &forged, b"example.com").is_none(), "{at}");
            }
        }
    }

    #[test]
    fn challenges_of_one_millisecond_differ() {
        let mut rng = Rng::from_seed(2);
        let key = HashKey::from_rng(&mut rng);
        let mut nonces: Vec<_> = (0..10_000).map(|_| mint(&key, Stamp(5), b"r", &mut rng)).collect();
        nonces.sort_unstable();
        nonces.dedup();
        assert_eq!(nonces.len(), 10_000);
    }

    /// THREATS 9: nonces of one millisecond, as somebody who collects them sees them. Each bit behind the time is a fair
    /// coin, tells nothing of the bit beside it, of the same bit in the next nonce, nor of another realm's; bounds are
    /// five standard deviations, and the seed is fixed.
    #[test]
    fn nonces_in_a_row_look_like_coin_tosses() {
        const COUNT: usize = 20_000;
        const BITS: usize = 8 * (LEN - 5);
        let mut rng = Rng::from_seed(3);
        let key = HashKey::from_rng(&mut rng);
        let mut bits = |realm: &[u8]| -> Vec<[bool; BITS]> {
            let mut draw = || {
                let bytes = decode(&mint(&key, Stamp(7), realm, &mut rng)).unwrap();
                core::array::from_fn(|bit| bytes[5 + bit / 8] >> (bit % 8) & 1 == 1)
            };
            (0..COUNT).map(|_| draw()).collect()
        };
        let (here, there) = (bits(b"a"), bits(b"b"));
        let is_fair = |ones: usize, tosses: usize| {
            let off = ones.abs_diff(tosses / 2);
            off * off <= 25 * tosses / 4
        };
        for bit in 0..BITS {
            let ones = here.iter().filter(|nonce| nonce[bit]).count();
            assert!(is_fair(ones, COUNT), "bit {bit} is set {ones} times");
            let beside = here.iter().filter(|nonce| nonce[bit] == nonce[(bit + 1) % BITS]).count();
            assert!(is_fair(beside, COUNT), "bit {bit} is its neighbour's equal {beside} times");
            let next = here.windows(2).filter(|pair| pair[0][bit] == pair[1][bit]).count();
            assert!(is_fair(next, COUNT - 1), "bit {bit} stays as it was {next} times");
            let across = here.iter().zip(&there).filter(|(one, other)| one[bit] == other[bit]).count();
            assert!(is_fair(across, COUNT), "bit {bit} is the same for both realms {across} times");
        }
        let mut bytes = [[0_usize; 256]; 2];
        for nonce in &here {
            for (half, counts) in bytes.iter_mut().enumerate() {
                let start = half * 56;
                let byte = (0..8).fold(0, |byte, bit| byte | usize::from(nonce[start + bit]) << bit);
                counts[byte] += 1;
            }
        }
        // χ² with 255 degrees of freedom: 255 expected, 22.6 its standard deviation.
        for counts in bytes {
            let expected = COUNT as f64 / 256.0;
            let chi: f64 = counts.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
            assert!((140.0..370.0).contains(&chi), "χ² is {chi}");
        }
    }
}
