//! Parameters: the `;name=value` lists of URIs and header fields.

use crate::chars::{self, TOKEN, URI_PARAM, VALUE};

/// One parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param<'a> {
    /// Its name, as written; compare without regard to case.
    pub name: &'a [u8],
    /// Its value as written, a quoted string with its quotes; `None` for a flag.
    pub value: Option<&'a [u8]>,
}

/// Walks a list of parameters, each led by `;`. Stops at what is no parameter.
///
/// White space around `;` and `=` is skipped, as header fields allow it and URIs never hold any.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    all: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Params<'a> {
    pub(crate) const fn new(list: &'a [u8]) -> Self {
        Self { all: list, rest: list }
    }

    /// The list as it stands, from its first `;`.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.all
    }

    /// Looks for `name` in the whole list, wherever the walk stands.
    pub(crate) fn named(&self, name: &[u8]) -> Option<Param<'a>> {
        Self::new(self.all).find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// Whether the walk has come to the list's very end rather than to something that is no parameter.
    pub(crate) fn is_at_end(&self) -> bool {
        chars::trim_start(self.rest).is_empty()
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Param<'a>;

    fn next(&mut self) -> Option<Param<'a>> {
        let [b';', after @ ..] = chars::trim_start(self.rest) else { return None };
        let (name, after) = chars::take(chars::trim_start(after), TOKEN | URI_PARAM);
        if name.is_empty() {
            return None;
        }
        let [b'=', after @ ..] = chars::trim_start(after) else {
            self.rest = after;
            return Some(Param { name, value: None });
        };
        let after = chars::trim_start(after);
        let (value, after) = match after.first() {
            Some(b'"') => after.split_at_checked(chars::quoted_len(after)?)?,
            _ => chars::take(after, VALUE),
        };
        self.rest = after;
        Some(Param { name, value: Some(value) })
    }
}
