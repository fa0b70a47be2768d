//! Which shard owns a message: all messages of one Call-ID, whatever address they come from, belong together.
//!
//! The kernel can decide it before it queues a datagram ([`steer_in_kernel`](crate::steer_in_kernel)); what it leaves
//! or cannot find is handed over by the shard that received it. Both compute the same: SipHash-1-3 of the Call-ID
//! (RFC 3261 §20.8) under a secret key, so that nobody can aim his calls at one shard. Responses and requests inside
//! the dialog carry the same Call-ID and find the same shard.

use memchr::memchr;
use tandem_base::HashKey;

/// A secret and a number of shards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    key: [u8; 16],
    shards: u32,
}

impl Steering {
    /// Steering among `shards` (at least one is assumed) under the secret `key`, drawn anew at each start.
    #[must_use]
    pub fn new(key: [u8; 16], shards: u32) -> Self {
        Self { key, shards: shards.max(1) }
    }

    /// How many shards there are.
    #[must_use]
    pub const fn shards(&self) -> u32 {
        self.shards
    }

    /// The owner of `message`, from 0 on; `None` if it has no Call-ID, and then whoever received it keeps it.
    #[must_use]
    pub fn owner(&self, message: &[u8]) -> Option<u32> {
        call_id(message).map(|call_id| self.owner_of(call_id))
    }

    /// The owner of all messages with this Call-ID.
    #[must_use]
    pub fn owner_of(&self, call_id: &[u8]) -> u32 {
        let hash = HashKey::from_bytes(self.key).hash64(&[call_id]);
        // The hash's upper half, scaled to the number of shards: below it, since the product is.
        u32::try_from(((hash >> 32) * u64::from(self.shards)) >> 32).unwrap_or_default()
    }

    /// The two words of the key, as SipHash takes them.
    pub(crate) fn words(&self) -> [u64; 2] {
        let word = u128::from_le_bytes(self.key);
        [word, word >> 64].map(|word| u64::try_from(word & u128::from(u64::MAX)).unwrap_or_default())
    }
}

impl core::fmt::Debug for Steering {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Steering").field("shards", &self.shards).finish_non_exhaustive()
    }
}

/// The Call-ID of a message that has not been parsed: the value of its first `Call-ID` or `i` header field.
///
/// Finds what a header's name allows (RFC 3261 §7.3.1: any case, spaces before the colon, a fold after it) between
/// the start line and the first empty line, and does not check the rest of the message.
#[must_use]
pub fn call_id(message: &[u8]) -> Option<&[u8]> {
    let mut rest = message;
    loop {
        rest = rest.get(memchr(b'\n', rest)? + 1..)?;
        match rest.first()? {
            b'\r' | b'\n' => return None, // the empty line
            b'C' | b'c' | b'I' | b'i' => {
                if let Some(value) = value_of_call_id(rest) {
                    return Some(value);
                }
            }
            _ => {}
        }
    }
}

/// The value, if `line` begins with the header field's name. A Call-ID contains no white space (§25.1).
fn value_of_call_id(line: &[u8]) -> Option<&[u8]> {
    const LONG: usize = b"Call-ID".len();
    let after = match line.get(..LONG) {
        Some(name) if name.eq_ignore_ascii_case(b"Call-ID") => line.get(LONG..)?,
        _ if line.first()?.eq_ignore_ascii_case(&b'i') => line.get(1..)?,
        _ => return None,
    };
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let colon = after.iter().position(|byte| !is_blank(byte))?;
    let value = after.get(colon..)?.strip_prefix(b":")?;
    let value = value.get(value.iter().position(|byte| !is_space(byte))?..)?;
    value.get(..value.iter().position(is_space)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_id_is_found_however_its_header_is_written() {
        let headers = [
            "Call-ID: a84b4c76e66710@pc33\r\n",
            "CALL-id:a84b4c76e66710@pc33\n",
            "i:a84b4c76e66710@pc33\r\n",
            "I \t : \t a84b4c76e66710@pc33 \r\n",
            "call-id:\r\n a84b4c76e66710@pc33\r\n",
            "Identity: x\r\nIn-Reply-To: y@z\r\nCall-Info: <sip:q>\r\nCall-ID : a84b4c76e66710@pc33\r\n",
            "Subject: Call-ID: no\r\nCall-ID: a84b4c76e66710@pc33\r\ni: second\r\n",
        ];
        for header in headers {
            let message = format!("INVITE sip:i@i SIP/2.0\r\nVia: x\r\n{header}To: t\r\n\r\n");
            assert_eq!(call_id(message.as_bytes()), Some(&b"a84b4c76e66710@pc33"[..]), "{header}");
        }
    }

    #[test]
    fn a_message_without_call_id_has_no_owner_even_if_its_body_has_one() {
        let steering = Steering::new([1; 16], 4);
        for message in
            ["", "\r\n\r\n", "OPTIONS x SIP/2.0\r\nVia: x\r\n\r\nCall-ID: body\r\n", "x\r\nCall-ID:", "x\ni"]
        {
            assert_eq!(steering.owner(message.as_bytes()), None, "{message}");
        }
    }

    /// 4,000 Call-IDs over 4 shards: 1,000 each, and four standard deviations are 110.
    #[test]
    fn call_ids_spread_evenly_and_differently_under_another_key() {
        let owners = |key| {
            let steering = Steering::new([key; 16], 4);
            (0..4000).map(|n| steering.owner_of(format!("call-{n}").as_bytes())).collect::<Vec<_>>()
        };
        let (one, other) = (owners(1), owners(2));
        for shard in 0..4 {
            let owned = one.iter().filter(|owner| **owner == shard).count();
            assert!((890..1110).contains(&owned), "shard {shard} owns {owned}");
        }
        let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
        assert!((890..1110).contains(&same), "{same} stayed");
    }
}
