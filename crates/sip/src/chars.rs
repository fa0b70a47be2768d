//! The character classes of RFC 3261 §25.1 as one table, and the small scans built on it.

/// `token`: header names, methods, parameter names.
pub(crate) const TOKEN: u16 = 1;
/// `word`: Call-ID halves.
pub(crate) const WORD: u16 = 1 << 1;
/// Characters that stand for themselves in `user` (`%` is checked apart).
pub(crate) const USER: u16 = 1 << 2;
/// Characters that stand for themselves in `password`.
pub(crate) const PASSWORD: u16 = 1 << 3;
/// `param-unreserved` and `unreserved`: URI parameters.
pub(crate) const URI_PARAM: u16 = 1 << 4;
/// `hnv-unreserved` and `unreserved`: URI header fields.
pub(crate) const URI_HEADER: u16 = 1 << 5;
/// A host name: letters, digits, `-`, `.`, and `_`, which no grammar allows and many private names hold.
pub(crate) const HOST: u16 = 1 << 6;
/// An unquoted parameter value: `token`, `host`, and whatever else visible that ends no value. Without `@`, so that
/// `sip:a;b=c@d` outside angle brackets is not read as two things.
///
/// Interop: base64 padding and slashes in tags are common.
pub(crate) const VALUE: u16 = 1 << 7;
/// What may stand in a Request-URI: visible, and no bracket or quote around it (RFC 3261 §7.1).
pub(crate) const REQUEST_URI: u16 = 1 << 8;

const CLASSES: [u16; 256] = classes();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks the bounds")]
const fn classes() -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "i < 256")]
        let b = i as u8;
        let alnum = b.is_ascii_alphanumeric();
        let mark = matches!(b, b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')');
        let mut class = 0;
        if alnum || matches!(b, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~') {
            class |= TOKEN | WORD;
        }
        if matches!(
            b,
            b'(' | b')' | b'<' | b'>' | b':' | b'\\' | b'"' | b'/' | b'[' | b']' | b'?' | b'{' | b'}'
        ) {
            class |= WORD;
        }
        if alnum || mark {
            class |= USER | PASSWORD | URI_PARAM | URI_HEADER;
        }
        if matches!(b, b'&' | b'=' | b'+' | b'$' | b',') {
            class |= USER | PASSWORD;
        }
        if matches!(b, b';' | b'?' | b'/') {
            class |= USER;
        }
        if matches!(b, b'[' | b']' | b'/' | b':' | b'&' | b'+' | b'$') {
            class |= URI_PARAM;
        }
        if matches!(b, b'[' | b']' | b'/' | b'?' | b':' | b'+' | b'$') {
            class |= URI_HEADER;
        }
        if alnum || matches!(b, b'-' | b'.' | b'_') {
            class |= HOST;
        }
        if b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b',' | b';' | b'@') {
            class |= VALUE;
        }
        if b > b' ' && b != 0x7F && !matches!(b, b'"' | b'<' | b'>') {
            class |= REQUEST_URI;
        }
        table[i] = class;
        i += 1;
    }
    table
}

/// Whether `byte` is of `class`.
pub(crate) fn is(byte: u8, class: u16) -> bool {
    CLASSES.get(usize::from(byte)).is_some_and(|classes| classes & class != 0)
}

/// Whether all of `bytes`, at least one, are of `class`.
pub(crate) fn all(bytes: &[u8], class: u16) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| is(b, class))
}

/// Whether `bytes` are of `class` or well-formed `%HH` escapes; empty passes.
pub(crate) fn all_or_escaped(bytes: &[u8], class: u16) -> bool {
    let mut rest = bytes.iter();
    while let Some(&b) = rest.next() {
        if b == b'%' {
            let (Some(h), Some(l)) = (rest.next(), rest.next()) else { return false };
            if !h.is_ascii_hexdigit() || !l.is_ascii_hexdigit() {
                return false;
            }
        } else if !is(b, class) {
            return false;
        }
    }
    true
}

/// Linear white space after unfolding: space, tab and the line ends of a fold.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// `bytes` without white space at either end.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
}

/// `bytes` without leading white space.
pub(crate) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_space(*first)
    {
        bytes = rest;
    }
    bytes
}

/// `bytes` without trailing white space.
pub(crate) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Splits at the first byte that is not of `class`.
#[inline]
pub(crate) fn take(bytes: &[u8], class: u16) -> (&[u8], &[u8]) {
    let len = bytes.iter().take_while(|&&b| is(b, class)).count();
    bytes.split_at_checked(len).unwrap_or((bytes, &[]))
}

/// A decimal number of one to ten digits that fits; no sign, no space.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u32> {
    if bytes.is_empty() || bytes.len() > 10 {
        return None;
    }
    let mut value = 0_u32;
    for b in bytes {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u32::from(digit))?;
    }
    Some(value)
}

/// Skips a quoted string that starts at `bytes[0] == '"'`; the length with both quotes, `None` if it never ends.
pub(crate) fn quoted_len(bytes: &[u8]) -> Option<usize> {
    let mut i = 1;
    while let Some(&b) = bytes.get(i) {
        match b {
            b'"' => return Some(i + 1),
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    None
}

/// Octets before the first control character, looked at eight at a time.
pub(crate) fn until_control(bytes: &[u8]) -> usize {
    const SPACES: u64 = 0x2020_2020_2020_2020;
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let (chunks, tail) = bytes.as_chunks::<8>();
    for (i, chunk) in chunks.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk);
        // Sets the high bit of each octet below 0x20. A borrow can only spoil octets behind the first such one.
        let below = word.wrapping_sub(SPACES) & !word & HIGH_BITS;
        if below != 0 {
            return i * 8 + (below.trailing_zeros() / 8) as usize;
        }
    }
    chunks.len() * 8 + tail.iter().take_while(|&&b| b >= b' ').count()
}

/// The number that one hexadecimal digit stands for.
pub(crate) fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
