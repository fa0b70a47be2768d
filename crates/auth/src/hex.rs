//! Lower-case hexadecimal, as digests are written (`LHEX`, RFC 3261 §25.1).

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes `bytes` as hexadecimal digits into the start of `out`; `out` is twice as long as `bytes`.
pub(crate) fn write(bytes: &[u8], out: &mut [u8]) {
    let digits = bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]);
    for (to, digit) in out.iter_mut().zip(digits) {
        *to = digit;
    }
}

/// Reads exactly `N` bytes from exactly `2 · N` digits of either case.
pub(crate) fn read<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    let mut bad = 0;
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        let (high, low) = (value(high), value(low));
        bad |= high | low;
        *byte = high << 4 | low & 15;
    }
    (bad < 16).then_some(bytes)
}

/// Reads a count of exactly eight digits (`nc-value`).
pub(crate) fn read_count(digits: &[u8]) -> Option<u32> {
    read::<4>(digits).map(u32::from_be_bytes)
}

fn digit(nibble: u8) -> u8 {
    DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0')
}

/// 16 and more for what is no digit.
fn value(digit: u8) -> u8 {
    VALUES.get(usize::from(digit)).copied().unwrap_or(255)
}

static VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut nibble = 0;
    while nibble < 16 {
        #[expect(clippy::indexing_slicing, reason = "runs in the compiler")]
        let digit = DIGITS[nibble as usize];
        #[expect(clippy::indexing_slicing, reason = "runs in the compiler")]
        {
            values[digit as usize] = nibble;
            values[digit.to_ascii_uppercase() as usize] = nibble;
        }
        nibble += 1;
    }
    values
};
