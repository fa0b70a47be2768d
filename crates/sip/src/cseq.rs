//! CSeq: RFC 3261 §20.16.

use crate::Method;
use crate::chars::{self, TOKEN};

/// A CSeq value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CSeq<'a> {
    /// The sequence number, below 2³¹ (§8.1.1.5).
    pub number: u32,
    /// The method.
    pub method: Method,
    /// The method's token, for methods we do not know.
    pub method_token: &'a [u8],
}

impl<'a> CSeq<'a> {
    /// Reads a value. `None` if it breaks the grammar or the number reaches 2³¹.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let value = chars::trim(value);
        let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, rest) = value.split_at_checked(digits)?;
        let token = chars::trim_start(rest);
        if token.len() == rest.len() || !chars::all(token, TOKEN) {
            return None;
        }
        // Leading zeros are legal, so the length alone proves nothing.
        let zeros = number.iter().take_while(|&&b| b == b'0').count().min(number.len().saturating_sub(1));
        let number = chars::decimal(number.get(zeros..)?).filter(|&n| n < 1 << 31)?;
        Some(Self { number, method: Method::from_token(token), method_token: token })
    }
}
