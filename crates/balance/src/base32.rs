//! Numbers as lower-case base-32 digits: what a URI parameter and a Via branch may hold, whoever folds their case.

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const NO_DIGIT: u8 = u8::MAX;
static VALUES: [u8; 256] = values();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks the bounds")]
const fn values() -> [u8; 256] {
    let mut table = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 32_u8 {
        table[ALPHABET[value as usize] as usize] = value;
        value += 1;
    }
    table
}

/// Writes the lower `5 · DIGITS` bits of `value`, the highest first.
pub(crate) fn digits<const DIGITS: usize>(value: u64) -> [u8; DIGITS] {
    let mut digits = [b'a'; DIGITS];
    let mut left = value;
    for digit in digits.iter_mut().rev() {
        let low = usize::try_from(left & 31).unwrap_or(0);
        *digit = ALPHABET.get(low).copied().unwrap_or(b'a');
        left >>= 5;
    }
    digits
}

/// The number that at most thirteen digits stand for; `None` for anything else.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, &digit| {
        let value = VALUES.get(usize::from(digit)).copied().filter(|&value| value != NO_DIGIT)?;
        // Thirteen digits hold one bit more than a u64: the highest must be clear.
        (number >> 59 == 0).then_some(number << 5 | u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_survives_its_digits_and_nothing_else_is_a_number() {
        for value in [0, 1, 31, 32, 0xffff_ffff, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(number(&digits::<13>(value)), Some(value));
        }
        assert_eq!(digits::<4>(31), *b"aaa7");
        assert_eq!(number(b"7777777777777"), None);
        assert_eq!(number(b"ab1"), None);
        assert_eq!(number(b"AB"), None);
    }
}
