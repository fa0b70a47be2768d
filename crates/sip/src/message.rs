//! The view of a received message: borrowed, checked where every element must check, read on demand elsewhere.

use core::iter;

use crate::index::{Entry, Index, Span, StartLine};
use crate::{CSeq, HeaderName, Limits, Method, NameAddr, ParseError, Via, chars};

/// A received message, looked at in place.
///
/// [`Message::parse`] has read the start line, the header field lines, the topmost Via, CSeq, Call-ID and
/// Content-Length, of a request From and To also. Everything else is read when asked for. A defect that leaves the message answerable is kept in
/// [`Message::defect`]: a server answers it with [`ParseError::status`], a response with one is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    index: &'a Index,
    via: Via<'a>,
    cseq: CSeq<'a>,
    call_id: &'a [u8],
    from: Option<NameAddr<'a>>,
    to: Option<NameAddr<'a>>,
    defect: Option<ParseError>,
}

/// One header field line.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Its name.
    pub name: HeaderName,
    /// The name as written.
    pub name_bytes: &'a [u8],
    /// Its value, without white space at the ends; folds are still inside.
    pub value: &'a [u8],
    /// Where the value stands.
    pub value_span: Span,
    /// Where the whole line stands, line end included.
    pub line: Span,
    /// White space before the colon, or a fold.
    pub irregular: bool,
}

/// One of the comma-separated values of a header field.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// The value, without white space at the ends.
    pub bytes: &'a [u8],
    /// Where it stands.
    pub span: Span,
    /// The line it stands in.
    pub field: Field<'a>,
}

impl<'a> Field<'a> {
    /// The comma-separated values of this line, in order.
    pub fn values(self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        split_values(self.value).map(move |(bytes, at)| {
            let start = self.value_span.start + at;
            let end = start + u32::try_from(bytes.len()).unwrap_or(0);
            Value { bytes, span: Span { start, end }, field: self }
        })
    }
}

impl<'a> Message<'a> {
    /// Reads one message that fills `bytes`: a datagram, or what a stream's framing cut out.
    ///
    /// Octets behind the Content-Length are no part of it (RFC 3261 §18.3).
    ///
    /// # Errors
    ///
    /// What can't be answered: [`ParseError::KeepAlive`], or [`ParseError::NotSip`], [`ParseError::Missing`] and
    /// [`ParseError::Malformed`] for a message whose topmost Via does not even say where an answer would go.
    pub fn parse(bytes: &'a [u8], index: &'a mut Index, limits: &Limits) -> Result<Self, ParseError> {
        index.read(bytes, limits)?;
        let index = &*index;
        let mut defect = index.defect;
        let mut note = |error: ParseError| defect = defect.or(Some(error));
        let malformed = |header, entry: &Entry| ParseError::Malformed { header, offset: entry.value.start };

        let entry = index.first(HeaderName::Via).ok_or(ParseError::Missing(HeaderName::Via))?;
        let mut lines = iter::successors(Some(entry), |entry| index.next(entry));
        let (entry, first) = lines
            .find_map(|entry| split_values(entry.value.of(bytes)).next().map(|(value, _)| (entry, value)))
            .ok_or(malformed(HeaderName::Via, entry))?;
        let via = match Via::parse(first) {
            Some(via) => via,
            None => {
                note(malformed(HeaderName::Via, entry));
                Via::parse_sent_by(first).ok_or(malformed(HeaderName::Via, entry))?
            }
        };
        if via.branch.is_some_and(|b| b.len() > limits.token_bytes_max) {
            note(ParseError::TooLong(HeaderName::Via));
        }

        let cseq = match index.first(HeaderName::CSeq) {
            Some(entry) => CSeq::parse(entry.value.of(bytes)).ok_or(malformed(HeaderName::CSeq, entry)),
            None => Err(ParseError::Missing(HeaderName::CSeq)),
        };
        let cseq = cseq.unwrap_or_else(|error| {
            note(error);
            CSeq { number: 0, method: Method::Other, method_token: b"" }
        });

        let call_id = match index.first(HeaderName::CallId) {
            Some(entry) => {
                let call_id = entry.value.of(bytes);
                if !is_call_id(call_id) {
                    note(malformed(HeaderName::CallId, entry));
                } else if call_id.len() > limits.token_bytes_max {
                    note(ParseError::TooLong(HeaderName::CallId));
                }
                call_id
            }
            None => {
                note(ParseError::Missing(HeaderName::CallId));
                b""
            }
        };
        for name in [HeaderName::From, HeaderName::To] {
            match index.first(name) {
                // A tag can only be too long where the whole value is.
                Some(entry) if entry.value.of(bytes).len() > limits.token_bytes_max => {
                    let tag = NameAddr::parse(entry.value.of(bytes)).and_then(|address| address.tag());
                    if tag.is_some_and(|tag| tag.len() > limits.token_bytes_max) {
                        note(ParseError::TooLong(name));
                    }
                }
                Some(_) => {}
                None => note(ParseError::Missing(name)),
            }
        }
        if let StartLine::Request { method, token, .. } = index.start_line
            && defect.is_none()
            && (cseq.method != method || (method == Method::Other && cseq.method_token != token.of(bytes)))
        {
            defect = Some(ParseError::MethodMismatch);
        }
        let mut body = index.body;
        match index.content_length(bytes) {
            Ok(None) => {}
            Ok(Some(length)) if length <= u64::from(body.end - body.start) => {
                // `length` is at most the body's extent, which is a u32.
                body.end = body.start + u32::try_from(length).unwrap_or(0);
            }
            Ok(Some(_)) => defect = defect.or(Some(ParseError::ContentLength)),
            Err(error) => defect = defect.or(Some(error)),
        }
        let bytes = bytes.get(..body.end as usize).unwrap_or(bytes);
        // Every request is asked for both, and more than once; hardly any response is.
        let is_request = matches!(index.start_line, StartLine::Request { .. });
        let address = |name| {
            index.first(name).filter(|_| is_request).and_then(|entry| NameAddr::parse(entry.value.of(bytes)))
        };
        let (from, to) = (address(HeaderName::From), address(HeaderName::To));
        let mut message = Self { bytes, index, via, cseq, call_id, from, to, defect };
        if message.defect.is_none() {
            message.defect = message.too_many_values(limits.values_max);
        }
        Ok(message)
    }

    /// The first list header field with more than `max` values.
    fn too_many_values(&self, max: usize) -> Option<ParseError> {
        const LISTS: [HeaderName; 5] = [
            HeaderName::Via,
            HeaderName::Route,
            HeaderName::RecordRoute,
            HeaderName::Contact,
            HeaderName::Path,
        ];
        LISTS.into_iter().find_map(|name| {
            let lines = || iter::successors(self.index.first(name), |entry| self.index.next(entry));
            let lines = || lines().map(|entry| entry.value.of(self.bytes));
            // A value takes two octets at least, and a comma behind it: mostly the lengths tell enough.
            let could_be = || lines().map(|line| line.len() / 2 + 1).sum::<usize>() > max;
            let commas = |line| memchr::memchr_iter(b',', line).count();
            let may_be = || lines().map(|line| commas(line) + 1).sum::<usize>() > max;
            (could_be() && may_be() && self.values(name).nth(max).is_some())
                .then_some(ParseError::TooMany(name))
        })
    }

    /// The whole message, without what followed its body.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What is wrong with it, if anything that `parse` looks at is.
    #[must_use]
    pub const fn defect(&self) -> Option<ParseError> {
        self.defect
    }

    /// Whether it is a request.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        matches!(self.index.start_line, StartLine::Request { .. })
    }

    /// The request's method; of a response, the method that its CSeq names.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self.index.start_line {
            StartLine::Request { method, .. } => method,
            StartLine::Response { .. } => self.cseq.method,
        }
    }

    /// The method's token as written.
    #[must_use]
    pub fn method_token(&self) -> &'a [u8] {
        match self.index.start_line {
            StartLine::Request { token, .. } => token.of(self.bytes),
            StartLine::Response { .. } => self.cseq.method_token,
        }
    }

    /// The Request-URI as written; empty for a response.
    #[must_use]
    pub fn request_uri(&self) -> &'a [u8] {
        self.request_uri_span().of(self.bytes)
    }

    /// Where the Request-URI stands; an empty span for a response.
    #[must_use]
    pub fn request_uri_span(&self) -> Span {
        match self.index.start_line {
            StartLine::Request { uri, .. } => uri,
            StartLine::Response { .. } => Span::default(),
        }
    }

    /// The status code; 0 for a request.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self.index.start_line {
            StartLine::Request { .. } => 0,
            StartLine::Response { status, .. } => status,
        }
    }

    /// The reason phrase; empty for a request.
    #[must_use]
    pub fn reason(&self) -> &'a [u8] {
        match self.index.start_line {
            StartLine::Request { .. } => &[],
            StartLine::Response { reason, .. } => reason.of(self.bytes),
        }
    }

    /// Where the header fields start: one past the start line's end.
    #[must_use]
    pub const fn headers_start(&self) -> u32 {
        self.index.start_line_end
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(self.index.body.start as usize..).unwrap_or_default()
    }

    /// The topmost Via value.
    #[must_use]
    pub const fn via(&self) -> &Via<'a> {
        &self.via
    }

    /// The CSeq value.
    #[must_use]
    pub const fn cseq(&self) -> &CSeq<'a> {
        &self.cseq
    }

    /// The Call-ID.
    #[must_use]
    pub const fn call_id(&self) -> &'a [u8] {
        self.call_id
    }

    /// The first line of one header field.
    #[must_use]
    pub fn field(&self, name: HeaderName) -> Option<Field<'a>> {
        self.index.first(name).map(|entry| self.view(entry))
    }

    /// The value of the first line of one header field.
    #[must_use]
    pub fn header(&self, name: HeaderName) -> Option<&'a [u8]> {
        self.index.first(name).map(|entry| entry.value.of(self.bytes))
    }

    /// All lines of one header field, in order.
    pub fn fields(&self, name: HeaderName) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let this = *self;
        iter::successors(this.index.first(name), move |entry| this.index.next(entry))
            .map(move |entry| this.view(entry))
    }

    /// All lines of all header fields, in order.
    pub fn all_fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let this = *self;
        this.index.entries.iter().map(move |entry| this.view(entry))
    }

    /// The comma-separated values of all lines of one header field, in order (RFC 3261 §7.3.1).
    ///
    /// Only for header fields whose grammar is such a list; a comma inside quotes or angle brackets is none.
    pub fn values(&self, name: HeaderName) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.fields(name).flat_map(|field| field.values())
    }

    /// The From value; `None` if it breaks the grammar.
    #[must_use]
    pub fn from(&self) -> Option<NameAddr<'a>> {
        if self.is_request() { self.from } else { self.header(HeaderName::From).and_then(NameAddr::parse) }
    }

    /// The To value; `None` if it breaks the grammar.
    #[must_use]
    pub fn to(&self) -> Option<NameAddr<'a>> {
        if self.is_request() { self.to } else { self.header(HeaderName::To).and_then(NameAddr::parse) }
    }

    /// A header field that is one decimal number; `None` if absent.
    ///
    /// # Errors
    ///
    /// [`ParseError::Malformed`] if it is no number below 2³².
    pub fn number(&self, name: HeaderName) -> Result<Option<u32>, ParseError> {
        let Some(field) = self.field(name) else { return Ok(None) };
        let malformed = ParseError::Malformed { header: name, offset: field.value_span.start };
        chars::decimal(field.value).map(Some).ok_or(malformed)
    }

    /// Whether an option tag stands in a list header field such as Supported or Require.
    #[must_use]
    pub fn lists(&self, name: HeaderName, tag: &[u8]) -> bool {
        self.values(name).any(|value| value.bytes.eq_ignore_ascii_case(tag))
    }

    /// Whether any header field line is written in a way that a forwarded message spells anew.
    #[must_use]
    pub const fn is_irregular(&self) -> bool {
        self.index.irregular
    }

    fn view(&self, entry: &Entry) -> Field<'a> {
        Field {
            name: entry.name,
            name_bytes: entry.name_span.of(self.bytes),
            value: entry.value.of(self.bytes),
            value_span: entry.value,
            line: Span { start: entry.name_span.start, end: entry.line_end },
            irregular: entry.irregular,
        }
    }
}

/// Splits a list at its commas; yields each value trimmed, with its offset. Empty values are passed over.
fn split_values(list: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    let mut at = 0;
    iter::from_fn(move || {
        loop {
            let rest = list.get(at..).filter(|rest| !rest.is_empty())?;
            let end = value_len(rest);
            let raw = rest.get(..end).unwrap_or_default();
            let start = at + (raw.len() - chars::trim_start(raw).len());
            at += end + 1;
            let value = chars::trim(raw);
            if !value.is_empty() {
                return Some((value, u32::try_from(start).unwrap_or(0)));
            }
        }
    })
}

/// Octets before the first comma that separates values.
fn value_len(list: &[u8]) -> usize {
    // Most header fields hold one value without any comma at all.
    if memchr::memchr(b',', list).is_none() {
        return list.len();
    }
    let mut at = 0;
    while let Some(&b) = list.get(at) {
        let rest = list.get(at..).unwrap_or_default();
        at += match b {
            b',' => return at,
            b'"' => chars::quoted_len(rest).unwrap_or(rest.len()),
            b'<' => memchr::memchr(b'>', rest).unwrap_or(rest.len()),
            _ => 1,
        };
    }
    list.len()
}

/// `callid = word [ "@" word ]`
fn is_call_id(value: &[u8]) -> bool {
    let (first, rest) = chars::take(value, chars::WORD);
    match rest {
        [] => !first.is_empty(),
        [b'@', second @ ..] => !first.is_empty() && chars::all(second, chars::WORD),
        _ => false,
    }
}
