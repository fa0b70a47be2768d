//! The parameters of `Digest` credentials and challenges: RFC 3261 §25.1 (`auth-param`), RFC 7616 §3.4.
//!
//! One pass, no copy, total: any bytes end in a list or in [`CredentialError`]. Parameters may be written as tokens
//! or quoted strings whichever the grammar asks for, since phones confuse them.

use crate::CredentialError;

/// Longest value of a header field that is looked at, in bytes.
const VALUE_MAX: usize = 4096;
/// Most parameters looked at.
const PARAMS_MAX: usize = 32;

/// The text of a parameter, without its quotes but with the backslashes of a quoted string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<'a> {
    raw: &'a [u8],
}

impl<'a> Text<'a> {
    pub(crate) const fn new(raw: &'a [u8]) -> Self {
        Self { raw }
    }

    /// As it stands in the message: what digests are computed from.
    #[must_use]
    pub const fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// What it means: each quoted pair replaced by its second byte.
    pub fn bytes(self) -> impl Iterator<Item = u8> + 'a {
        let mut rest = self.raw.iter();
        core::iter::from_fn(move || match rest.next() {
            Some(b'\\') => rest.next().copied(),
            other => other.copied(),
        })
    }

    /// True if it means exactly `text`.
    #[must_use]
    pub fn is(self, text: &[u8]) -> bool {
        match self.plain() {
            Some(plain) => plain == text,
            None => self.bytes().eq(text.iter().copied()),
        }
    }

    /// What it means, if that is also how it stands there: without quoted pairs, as nearly always.
    pub(crate) fn plain(self) -> Option<&'a [u8]> {
        (!self.raw.contains(&b'\\')).then_some(self.raw)
    }
}

/// Calls `take` with each parameter of a value that begins with the scheme `Digest`.
pub(crate) fn for_each<'a>(
    value: &'a [u8],
    mut take: impl FnMut(&'a [u8], Text<'a>) -> Result<(), CredentialError>,
) -> Result<(), CredentialError> {
    if value.len() > VALUE_MAX {
        return Err(CredentialError::TooLong);
    }
    let mut rest = Reader { bytes: value };
    rest.skip_space();
    if !rest.token().eq_ignore_ascii_case(b"Digest") {
        return Err(CredentialError::OtherScheme);
    }
    if !rest.skip_space() && !rest.bytes.is_empty() {
        return Err(CredentialError::Syntax);
    }
    let mut count = 0;
    loop {
        // Empty elements (", ,") mean nothing in a list.
        while rest.skip_space() || rest.skip(b',') {}
        if rest.bytes.is_empty() {
            return Ok(());
        }
        count += 1;
        if count > PARAMS_MAX {
            return Err(CredentialError::TooLong);
        }
        let name = rest.token();
        rest.skip_space();
        if name.is_empty() || !rest.skip(b'=') {
            return Err(CredentialError::Syntax);
        }
        rest.skip_space();
        let text = if rest.skip(b'"') { rest.quoted()? } else { rest.token() };
        take(name, Text::new(text))?;
        rest.skip_space();
        if !rest.bytes.is_empty() && !rest.skip(b',') {
            return Err(CredentialError::Syntax);
        }
    }
}

/// Writes `text` as a quoted string.
pub(crate) fn write_quoted(text: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at_checked(len).unwrap_or((self.bytes, &[]));
        self.bytes = rest;
        taken
    }

    /// Skips white space, folded lines included; false if there was none.
    fn skip_space(&mut self) -> bool {
        let len = self.bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
        !self.take(len).is_empty()
    }

    fn skip(&mut self, byte: u8) -> bool {
        self.bytes.first() == Some(&byte) && !self.take(1).is_empty()
    }

    fn token(&mut self) -> &'a [u8] {
        let len = self.bytes.iter().take_while(|byte| class(**byte) == TOKEN).count();
        self.take(len)
    }

    /// The inside of a quoted string whose opening quote is behind us.
    fn quoted(&mut self) -> Result<&'a [u8], CredentialError> {
        let mut escaped = false;
        for (at, &byte) in self.bytes.iter().enumerate() {
            match byte {
                b'"' if !escaped => {
                    let text = self.take(at);
                    self.take(1);
                    return Ok(text);
                }
                b'\\' => escaped = !escaped,
                _ if class(byte) == CONTROL => return Err(CredentialError::Syntax),
                _ => escaped = false,
            }
        }
        Err(CredentialError::Syntax)
    }
}

const OTHER: u8 = 0;
const TOKEN: u8 = 1;
/// Not in a quoted string: controls except the tab.
const CONTROL: u8 = 2;

/// What each byte may be; one look-up a byte instead of a chain of comparisons.
static CLASS: [u8; 256] = {
    let mut class = [OTHER; 256];
    let mut byte = 0u8;
    while byte < 128 {
        #[expect(clippy::indexing_slicing, reason = "a byte is within 256, and this runs in the compiler")]
        let entry = &mut class[byte as usize];
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~')
        {
            *entry = TOKEN;
        } else if byte != b'\t' && byte.is_ascii_control() {
            *entry = CONTROL;
        }
        byte += 1;
    }
    class
};

fn class(byte: u8) -> u8 {
    CLASS.get(usize::from(byte)).copied().unwrap_or(OTHER)
}
