//! One pass over a message: where its lines and values are. Nothing is copied.

use crate::chars::{self, REQUEST_URI, TOKEN};
use crate::header::COUNT;
use crate::{HeaderName, Limits, Method, ParseError};

/// "No entry": ends a chain of equal names.
const NONE: u16 = u16::MAX;

/// A place in the message, in octets from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// First octet.
    pub start: u32,
    /// One past the last octet.
    pub end: u32,
}

impl Span {
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    fn new(start: usize, end: usize) -> Self {
        Self { start: offset(start), end: offset(end) }
    }
}

/// A place in a message as it is kept.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`Index::read` refuses what has more than 2³² - 2 octets"
)]
const fn offset(at: usize) -> u32 {
    at as u32
}

/// One header field line, folds included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: HeaderName,
    /// White space between name and colon, or a fold: written anew when the message is forwarded.
    pub(crate) irregular: bool,
    next: u16,
    pub(crate) name_span: Span,
    pub(crate) value: Span,
    /// One past the line's CRLF.
    pub(crate) line_end: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartLine {
    Request { method: Method, token: Span, uri: Span },
    Response { status: u16, reason: Span },
}

/// The map of one message, reused from message to message so that reading allocates nothing.
#[derive(Debug)]
pub struct Index {
    pub(crate) start_line: StartLine,
    pub(crate) start_line_end: u32,
    pub(crate) entries: Vec<Entry>,
    first: [u16; COUNT],
    last: [u16; COUNT],
    pub(crate) irregular: bool,
    pub(crate) body: Span,
    pub(crate) defect: Option<ParseError>,
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start_line: StartLine::Response { status: 0, reason: Span::default() },
            start_line_end: 0,
            entries: Vec::with_capacity(32),
            first: [NONE; COUNT],
            last: [NONE; COUNT],
            irregular: false,
            body: Span::default(),
            defect: None,
        }
    }

    pub(crate) fn first(&self, name: HeaderName) -> Option<&Entry> {
        let place = self.first.get(name.place()).copied()?;
        self.entries.get(usize::from(place))
    }

    pub(crate) fn next(&self, entry: &Entry) -> Option<&Entry> {
        self.entries.get(usize::from(entry.next))
    }

    /// What Content-Length says, if there is one; the same for datagrams and streams.
    pub(crate) fn content_length(&self, bytes: &[u8]) -> Result<Option<u64>, ParseError> {
        let Some(entry) = self.first(HeaderName::ContentLength) else { return Ok(None) };
        if self.next(entry).is_some() {
            return Err(ParseError::Repeated(HeaderName::ContentLength));
        }
        content_length(entry.value.of(bytes)).map(Some).ok_or(ParseError::ContentLength)
    }

    fn note(&mut self, defect: ParseError) {
        self.defect = self.defect.or(Some(defect));
    }

    /// Reads the start line, the header field lines and the body's extent.
    ///
    /// Only what makes an answer impossible is an error; the first other defect is kept in `defect`.
    pub(crate) fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), ParseError> {
        self.entries.clear();
        self.first = [NONE; COUNT];
        self.last = [NONE; COUNT];
        self.defect = None;
        self.irregular = false;
        let blank = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        if blank == bytes.len() {
            return Err(ParseError::KeepAlive);
        }
        if bytes.len() >= u32::MAX as usize {
            return Err(ParseError::NotSip);
        }
        if bytes.len() > limits.message_bytes_max {
            self.note(ParseError::TooLarge);
        }
        let mut at = self.read_start_line(bytes, blank, limits)?;
        loop {
            match bytes.get(at) {
                Some(b'\r') if bytes.get(at + 1) == Some(&b'\n') => {
                    at += 2;
                    break;
                }
                // The blank line never came: the datagram was cut, or its sender forgot it.
                None => {
                    self.note(ParseError::Line { offset: offset(at) });
                    break;
                }
                Some(_) => at = self.read_line(bytes, at, limits),
            }
        }
        self.body = Span::new(at.min(bytes.len()), bytes.len());
        Ok(())
    }

    fn read_start_line(&mut self, bytes: &[u8], start: usize, limits: &Limits) -> Result<usize, ParseError> {
        let rest = bytes.get(start..).unwrap_or_default();
        let newline = memchr::memchr(b'\n', rest).ok_or(ParseError::NotSip)?;
        let next = start + newline + 1;
        let line = match rest.get(..newline).unwrap_or_default() {
            [line @ .., b'\r'] => line,
            line => {
                self.note(ParseError::StartLine { offset: offset(next) });
                line
            }
        };
        if line.len() > limits.start_line_bytes_max {
            self.note(ParseError::StartLineTooLong);
        }
        self.start_line_end = offset(next);
        if is_sip_version(line) {
            self.read_status_line(line, start)?;
        } else {
            self.read_request_line(line, start, limits)?;
        }
        Ok(next)
    }

    fn read_status_line(&mut self, line: &[u8], start: usize) -> Result<(), ParseError> {
        let space = memchr::memchr(b' ', line).ok_or(ParseError::NotSip)?;
        let (version, rest) = line.split_at_checked(space).ok_or(ParseError::NotSip)?;
        if !version.eq_ignore_ascii_case(b"SIP/2.0") {
            self.note(ParseError::Version);
        }
        let (digits, after) = rest.get(1..).and_then(|r| r.split_at_checked(3)).ok_or(ParseError::NotSip)?;
        let status = chars::decimal(digits).and_then(|s| u16::try_from(s).ok());
        let status = status.filter(|&status| status >= 100).ok_or(ParseError::NotSip)?;
        // Interop: some leave out the space along with an empty reason phrase.
        let reason = match after {
            [b' ', reason @ ..] => reason,
            [] => after,
            _ => {
                self.note(ParseError::StartLine { offset: offset(start + space) });
                after
            }
        };
        if status >= 700 || chars::until_control(reason) < reason.len() {
            self.note(ParseError::StartLine { offset: offset(start + space) });
        }
        let end = start + line.len();
        self.start_line = StartLine::Response { status, reason: Span::new(end - reason.len(), end) };
        Ok(())
    }

    fn read_request_line(&mut self, line: &[u8], start: usize, limits: &Limits) -> Result<(), ParseError> {
        let (token, after) = chars::take(line, TOKEN);
        let [b' ', after @ ..] = after else { return Err(ParseError::NotSip) };
        if token.is_empty() {
            return Err(ParseError::NotSip);
        }
        // Only a SIP version at the end makes it ours to answer; what else is wrong is noted.
        let uri = if let Some((uri, b" SIP/2.0")) = after.split_last_chunk::<8>() {
            uri
        } else {
            let trimmed = chars::trim_end(after);
            let space = memchr::memrchr(b' ', trimmed).ok_or(ParseError::NotSip)?;
            let (uri, version) = trimmed.split_at_checked(space).ok_or(ParseError::NotSip)?;
            let version = version.get(1..).unwrap_or_default();
            if !is_sip_version(version) {
                return Err(ParseError::NotSip);
            }
            if trimmed.len() != after.len() {
                self.note(ParseError::StartLine { offset: offset(start + line.len()) });
            }
            if !version.eq_ignore_ascii_case(b"SIP/2.0") {
                self.note(ParseError::Version);
            }
            uri
        };
        let uri_start = start + token.len() + 1;
        let (good, bad) = chars::take(uri, REQUEST_URI);
        if good.is_empty() || !bad.is_empty() {
            self.note(ParseError::StartLine { offset: offset(uri_start + good.len()) });
        }
        if token.len() > limits.token_bytes_max {
            self.note(ParseError::StartLineTooLong);
        }
        self.start_line = StartLine::Request {
            method: Method::from_token(token),
            token: Span::new(start, start + token.len()),
            uri: Span::new(uri_start, uri_start + uri.len()),
        };
        Ok(())
    }

    /// Reads the line at `start` with its folds; hands back where the next one starts.
    fn read_line(&mut self, bytes: &[u8], start: usize, limits: &Limits) -> usize {
        let rest = bytes.get(start..).unwrap_or_default();
        let (name_bytes, after) = chars::take(rest, TOKEN);
        let spaces = after.iter().take_while(|&&b| matches!(b, b' ' | b'\t')).count();
        let name_end = start + name_bytes.len();
        let (text_end, end, folded) = self.read_text(bytes, name_end + spaces);
        if self.entries.len() >= limits.headers_max.min(usize::from(NONE) - 1) {
            self.note(ParseError::TooMany(HeaderName::Other));
            return end;
        }
        if name_bytes.is_empty() || after.get(spaces) != Some(&b':') {
            self.note(ParseError::Line { offset: offset(name_end) });
            return end;
        }
        let name = HeaderName::from_bytes(name_bytes);
        let raw = bytes.get(name_end + spaces + 1..text_end).unwrap_or_default();
        let value = chars::trim_start(raw);
        let value_start = text_end - value.len();
        let value_end = value_start + chars::trim_end(value).len();
        if end - start > limits.header_bytes_max {
            self.note(ParseError::TooLong(name));
        }
        let irregular = folded || spaces != 0;
        self.irregular |= irregular;
        self.chain(name);
        self.entries.push(Entry {
            name,
            irregular,
            next: NONE,
            name_span: Span::new(start, name_end),
            value: Span::new(value_start, value_end),
            line_end: offset(end),
        });
        end
    }

    /// Reads on from `at` to the end of the line and of its folds: where its text ends, where the next line starts,
    /// and whether there was a fold.
    fn read_text(&mut self, bytes: &[u8], mut at: usize) -> (usize, usize, bool) {
        let mut folded = false;
        loop {
            at += chars::until_control(bytes.get(at..).unwrap_or_default());
            match (bytes.get(at), bytes.get(at + 1), bytes.get(at + 2)) {
                (Some(b'\r'), Some(b'\n'), Some(b' ' | b'\t')) => {
                    folded = true;
                    at += 3;
                }
                (Some(b'\r'), Some(b'\n'), _) => return (at, at + 2, folded),
                (Some(b'\t'), ..) => at += 1,
                // A bare CR or LF is one parser's line end and another's text, so it is refused (request smuggling).
                (Some(b'\n'), ..) => {
                    self.note(ParseError::Line { offset: offset(at) });
                    return (at, at + 1, folded);
                }
                (Some(_), ..) => {
                    // Other control characters stand in quoted pairs only (RFC 3261 §25.1 `quoted-pair`).
                    let quoted = at.checked_sub(1).and_then(|i| bytes.get(i)) == Some(&b'\\');
                    if !quoted || bytes.get(at) == Some(&b'\r') {
                        self.note(ParseError::Line { offset: offset(at) });
                    }
                    at += 1;
                }
                (None, ..) => {
                    self.note(ParseError::Line { offset: offset(bytes.len()) });
                    return (bytes.len(), bytes.len(), folded);
                }
            }
        }
    }

    /// Links the entry about to be pushed to the one before it of the same name.
    fn chain(&mut self, name: HeaderName) {
        let place = u16::try_from(self.entries.len()).unwrap_or(NONE);
        let (Some(first), Some(last)) = (self.first.get_mut(name.place()), self.last.get_mut(name.place()))
        else {
            return;
        };
        if let Some(previous) = self.entries.get_mut(usize::from(*last)) {
            previous.next = place;
            if name.is_single() {
                self.defect = self.defect.or(Some(ParseError::Repeated(name)));
            }
        } else {
            *first = place;
        }
        *last = place;
    }
}

/// Whether `text` starts as a SIP version of any number does.
fn is_sip_version(text: &[u8]) -> bool {
    text.get(..4).is_some_and(|head| head.eq_ignore_ascii_case(b"SIP/"))
}

/// A Content-Length value: digits only, read whole so that it can't wrap.
fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    value.iter().try_fold(0_u64, |n, b| n.checked_mul(10)?.checked_add(u64::from(b - b'0')))
}
