//! The index that a prepared message carries in its branch, tags and Call-ID, so that an answer finds its call at once.
//!
//! A token is the place of the call in its table and the serial number of the call that holds this place. A run number
//! in front keeps stragglers of an earlier run, and proxies that still remember its transactions, apart from this one.

use tandem_base::Instant;

/// What every branch, tag and Call-ID of ours starts with, after the magic cookie where there is one.
pub(crate) const MARK: &[u8] = b"stn";

/// A call's place in its table and the serial number that tells it from earlier ones in that place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

/// Something to do about one call at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) at: Instant,
    pub(crate) token: Token,
    pub(crate) step: u8,
}

/// Appends eight lower-case hexadecimal digits.
pub(crate) fn put_hex(out: &mut Vec<u8>, value: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0_u8; 8];
    for (place, digit) in text.iter_mut().enumerate() {
        let nibble = (value >> (28 - 4 * place)) & 0xf;
        *digit = DIGITS.get(nibble as usize).copied().unwrap_or(b'0');
    }
    out.extend_from_slice(&text);
}

/// Reads eight hexadecimal digits.
pub(crate) fn take_hex(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(8)?;
    let mut value = 0_u32;
    for &digit in digits {
        let nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        value = value << 4 | u32::from(nibble);
    }
    Some((value, rest))
}

impl Token {
    /// Appends mark, run and token: 27 bytes.
    pub(crate) fn put(self, out: &mut Vec<u8>, run: u32) {
        out.extend_from_slice(MARK);
        put_hex(out, run);
        put_hex(out, self.slot);
        put_hex(out, self.serial);
    }

    /// Reads what [`Token::put`] wrote, given the bytes from the mark on; returns what follows.
    pub(crate) fn take(text: &[u8], run: u32) -> Option<(Self, &[u8])> {
        let text = text.strip_prefix(MARK)?;
        let (found, text) = take_hex(text)?;
        if found != run {
            return None;
        }
        let (slot, text) = take_hex(text)?;
        let (serial, rest) = take_hex(text)?;
        Some((Self { slot, serial }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_another_run_does_not() {
        let token = Token { slot: 0xdead_beef, serial: 7 };
        let mut text = Vec::new();
        token.put(&mut text, 42);
        text.extend_from_slice(b"i;x");
        assert_eq!(Token::take(&text, 42), Some((token, &b"i;x"[..])));
        assert_eq!(Token::take(&text, 43), None);
        assert_eq!(Token::take(&text[..20], 42), None);
    }
}
