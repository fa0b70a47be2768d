//! Prepared messages: text laid out once, with holes that are filled as it is copied into the send buffer.

use crate::token::Token;

/// What differs from one copy of a prepared message to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hole {
    /// The token of the call: in Call-ID, tag and branch.
    Token,
    /// User part of the one who calls, registers or publishes.
    Caller,
    /// User part of the one who is called.
    Callee,
    /// The CSeq number.
    Sequence,
    /// A whole credentials line, or nothing.
    Credentials,
}

/// What fills the holes of one copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'a> {
    pub(crate) run: u32,
    pub(crate) token: Token,
    pub(crate) caller: &'a [u8],
    pub(crate) callee: &'a [u8],
    pub(crate) sequence: u32,
    pub(crate) credentials: &'a [u8],
}

/// A prepared message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Template {
    text: Vec<u8>,
    /// Where a piece of text ends, and the hole that follows it.
    holes: Vec<(usize, Hole)>,
}

impl Template {
    /// Lays out `text`, in which `{token}`, `{caller}`, `{callee}`, `{seq}` and `{credentials}` are holes.
    ///
    /// Other braces stay as they are.
    pub(crate) fn new(text: &str) -> Self {
        const NAMES: [(&str, Hole); 5] = [
            ("{token}", Hole::Token),
            ("{caller}", Hole::Caller),
            ("{callee}", Hole::Callee),
            ("{seq}", Hole::Sequence),
            ("{credentials}", Hole::Credentials),
        ];
        let mut template = Self::default();
        let mut rest = text;
        while let Some(brace) = rest.find('{') {
            let (before, from) = rest.split_at(brace);
            template.text.extend_from_slice(before.as_bytes());
            match NAMES.iter().find_map(|&(name, hole)| Some((hole, from.strip_prefix(name)?))) {
                Some((hole, after)) => {
                    template.holes.push((template.text.len(), hole));
                    rest = after;
                }
                None => {
                    template.text.push(b'{');
                    rest = from.get(1..).unwrap_or_default();
                }
            }
        }
        template.text.extend_from_slice(rest.as_bytes());
        template
    }

    /// Appends a copy.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>, filling: &Filling<'_>) {
        let mut from = 0;
        for &(end, hole) in &self.holes {
            out.extend_from_slice(self.text.get(from..end).unwrap_or_default());
            match hole {
                Hole::Token => filling.token.put(out, filling.run),
                Hole::Caller => out.extend_from_slice(filling.caller),
                Hole::Callee => out.extend_from_slice(filling.callee),
                Hole::Sequence => put_decimal(out, filling.sequence),
                Hole::Credentials => out.extend_from_slice(filling.credentials),
            }
            from = end;
        }
        out.extend_from_slice(self.text.get(from..).unwrap_or_default());
    }
}

/// Appends a number in decimal.
pub(crate) fn put_decimal(out: &mut Vec<u8>, value: u32) {
    if let Ok(digit @ 0..=9) = u8::try_from(value) {
        out.push(b'0' + digit);
        return;
    }
    let mut text = [0_u8; 10];
    let mut left = value;
    let mut start = text.len();
    for (place, digit) in text.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(left % 10).unwrap_or_default();
        left /= 10;
        start = place;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(text.get(start..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled_in_place_and_other_braces_stay() {
        let template = Template::new("A {caller}>{callee} {x} {seq}{credentials}.");
        let mut out = Vec::new();
        let token = Token { slot: 1, serial: 2 };
        let filling =
            Filling { run: 0, token, caller: b"a", callee: b"b", sequence: 4_294_967_295, credentials: b"C" };
        template.put(&mut out, &filling);
        assert_eq!(out, b"A a>b {x} 4294967295C.");
    }
}
