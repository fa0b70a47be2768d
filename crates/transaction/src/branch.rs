//! The branch of a request of ours: RFC 3261 §8.1.1.7.
//!
//! Behind the magic cookie stand 16 characters for 96 bits: the slot of the client transaction and 64 random bits.
//! A response is found by its slot and believed for its random bits, so that no client index exists that a peer
//! could search or flood. The slot's generation is left out, as the random bits are another entry's too.

use tandem_sip::MAGIC_COOKIE;

/// Length of what [`Layer::open_client`](crate::Layer::open_client) hands its writer; a suffix may follow it.
pub const BRANCH_BYTES: usize = MAGIC_COOKIE.len() + DIGITS;

const DIGITS: usize = 16;
const BITS: u32 = 6;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NO_DIGIT: u8 = u8::MAX;
static VALUES: [u8; 256] = values();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks the bounds")]
const fn values() -> [u8; 256] {
    let mut table = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 64_u8 {
        table[ALPHABET[value as usize] as usize] = value;
        value += 1;
    }
    table
}

/// Writes the branch of the client in `slot`.
pub(crate) fn encode(slot: u32, secret: u64) -> [u8; BRANCH_BYTES] {
    let mut bits = u128::from(slot) << 64 | u128::from(secret);
    let mut branch = [0; BRANCH_BYTES];
    for (to, from) in branch.iter_mut().zip(MAGIC_COOKIE) {
        *to = *from;
    }
    for to in branch.iter_mut().rev().take(DIGITS) {
        // The remainder is below 64.
        let digit = usize::try_from(bits & 63).unwrap_or(0);
        *to = ALPHABET.get(digit).copied().unwrap_or(b'A');
        bits >>= BITS;
    }
    branch
}

/// Reads slot and random bits; whatever suffix follows is the TU's. `None` for a branch that is none of ours.
pub(crate) fn decode(branch: &[u8]) -> Option<(u32, u64)> {
    let digits = branch.strip_prefix(MAGIC_COOKIE)?.get(..DIGITS)?;
    let mut bits = 0_u128;
    for &digit in digits {
        let value = VALUES.get(usize::from(digit)).copied().filter(|&v| v != NO_DIGIT)?;
        bits = bits << BITS | u128::from(value);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the two parts of 96 bits are what is asked for")]
    let (slot, secret) = ((bits >> 64) as u32, bits as u64);
    Some((slot, secret))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_branch_carries_slot_and_random_bits_behind_the_cookie(slot: u32, secret: u64, suffix in "(\\.[a-z0-9]{0,20})?") {
            let mut branch = encode(slot, secret).to_vec();
            branch.extend_from_slice(suffix.as_bytes());
            prop_assert!(branch.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')));
            prop_assert_eq!(decode(&branch), Some((slot, secret)));
        }

        #[test]
        fn any_octets_decode_without_a_panic_and_only_in_one_spelling(branch: Vec<u8>) {
            if let Some((slot, secret)) = decode(&branch) {
                prop_assert_eq!(&encode(slot, secret)[..], &branch[..BRANCH_BYTES]);
            }
            let mut cookie = MAGIC_COOKIE.to_vec();
            cookie.extend_from_slice(&branch);
            if let Some((slot, secret)) = decode(&cookie) {
                prop_assert_eq!(&encode(slot, secret)[..], &cookie[..BRANCH_BYTES]);
            }
        }
    }
}
