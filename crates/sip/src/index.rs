//! One pass over a message: where its lines and values are. Nothing is copied.

use crate::chars::{self, TOKEN};
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
        // Offsets fit: a message is at most `Limits::message_bytes_max`, which `Index::read` holds below 2³².
        Self { start: u32::try_from(start).unwrap_or(u32::MAX), end: u32::try_from(end).unwrap_or(u32::MAX) }
    }
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
        if bytes.len() > limits.message_bytes_max.min(u32::MAX as usize - 1) {
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
                    self.note(ParseError::Line { offset: Span::new(at, at).start });
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
        let line = rest.get(..newline).unwrap_or_default();
        let line = match line.split_last() {
            Some((b'\r', line)) => line,
            _ => {
                self.note(ParseError::StartLine { offset: Span::new(next, next).start });
                line
            }
        };
        if line.len() > limits.start_line_bytes_max {
            self.note(ParseError::StartLineTooLong);
        }
        self.start_line_end = Span::new(next, next).start;
        let head = line.get(..8).unwrap_or_default();
        if head.eq_ignore_ascii_case(b"SIP/2.0 ")
            || head.get(..4).is_some_and(|h| h.eq_ignore_ascii_case(b"SIP/"))
        {
            return self.read_status_line(line, start).map(|()| next);
        }
        self.read_request_line(line, start)?;
        Ok(next)
    }

    fn read_status_line(&mut self, line: &[u8], start: usize) -> Result<(), ParseError> {
        let space = memchr::memchr(b' ', line).ok_or(ParseError::NotSip)?;
        if !line.get(..space).is_some_and(|v| v.eq_ignore_ascii_case(b"SIP/2.0")) {
            self.note(ParseError::Version);
        }
        let digits = line.get(space + 1..space + 4).unwrap_or_default();
        let status = chars::decimal(digits).and_then(|s| u16::try_from(s).ok()).ok_or(ParseError::NotSip)?;
        if !(100..700).contains(&status) || !matches!(line.get(space + 4), Some(b' ')) {
            self.note(ParseError::StartLine { offset: Span::new(start + space, 0).start });
        }
        let reason = (space + 5).min(line.len());
        self.start_line =
            StartLine::Response { status, reason: Span::new(start + reason, start + line.len()) };
        Ok(())
    }

    fn read_request_line(&mut self, line: &[u8], start: usize) -> Result<(), ParseError> {
        let first = memchr::memchr(b' ', line).ok_or(ParseError::NotSip)?;
        let last = memchr::memrchr(b' ', line).ok_or(ParseError::NotSip)?;
        let token = line.get(..first).unwrap_or_default();
        if !chars::all(token, TOKEN) {
            return Err(ParseError::NotSip);
        }
        // With one space, or a version that is none, it could be anything: only a SIP version makes it ours to answer.
        let version = line.get(last + 1..).unwrap_or_default();
        let trimmed = chars::trim_end(line);
        let version_is_sip = |v: &[u8]| v.get(..4).is_some_and(|v| v.eq_ignore_ascii_case(b"SIP/"));
        let uri = if version.eq_ignore_ascii_case(b"SIP/2.0") && last > first {
            (first + 1, last)
        } else if version_is_sip(version) && last > first {
            self.note(ParseError::Version);
            (first + 1, last)
        } else if let Some(space) = memchr::memrchr(b' ', trimmed).filter(|&s| s > first)
            && version_is_sip(trimmed.get(space + 1..).unwrap_or_default())
        {
            self.note(ParseError::StartLine { offset: Span::new(start + trimmed.len(), 0).start });
            (first + 1, space)
        } else {
            return Err(ParseError::NotSip);
        };
        let uri_bytes = line.get(uri.0..uri.1).unwrap_or_default();
        if let Some(bad) =
            uri_bytes.iter().position(|&b| b <= b' ' || b == 0x7F || matches!(b, b'<' | b'>' | b'"'))
        {
            self.note(ParseError::StartLine { offset: Span::new(start + uri.0 + bad, 0).start });
        }
        if uri_bytes.is_empty() {
            self.note(ParseError::StartLine { offset: Span::new(start + uri.0, 0).start });
        }
        self.start_line = StartLine::Request {
            method: Method::from_token(token),
            token: Span::new(start, start + first),
            uri: Span::new(start + uri.0, start + uri.1),
        };
        Ok(())
    }

    /// Reads the line at `start` with its folds; hands back where the next one starts.
    fn read_line(&mut self, bytes: &[u8], start: usize, limits: &Limits) -> usize {
        let mut folded = false;
        let mut end = start;
        let text_end = loop {
            let rest = bytes.get(end..).unwrap_or_default();
            let Some(stop) = memchr::memchr2(b'\r', b'\n', rest) else {
                self.note(ParseError::Line { offset: Span::new(bytes.len(), 0).start });
                end = bytes.len();
                break end;
            };
            let stop = end + stop;
            if bytes.get(stop) != Some(&b'\r') || bytes.get(stop + 1) != Some(&b'\n') {
                // A bare CR or LF: one parser's line end and another's text, so it is refused (request smuggling).
                self.note(ParseError::Line { offset: Span::new(stop, 0).start });
                end = stop + 1;
                if bytes.get(stop) == Some(&b'\n') {
                    break stop;
                }
                continue;
            }
            end = stop + 2;
            if !matches!(bytes.get(end), Some(b' ' | b'\t')) {
                break stop;
            }
            folded = true;
        };
        let line = bytes.get(start..text_end).unwrap_or_default();
        if self.entries.len() >= limits.headers_max.min(usize::from(NONE) - 1) {
            self.note(ParseError::TooMany(HeaderName::Other));
            return end;
        }
        let (name_bytes, after) = chars::take(line, TOKEN);
        let spaces = after.iter().take_while(|&&b| matches!(b, b' ' | b'\t')).count();
        if name_bytes.is_empty() || after.get(spaces) != Some(&b':') {
            self.note(ParseError::Line { offset: Span::new(start + name_bytes.len(), 0).start });
            return end;
        }
        let name = HeaderName::from_bytes(name_bytes);
        let value_at = name_bytes.len() + spaces + 1;
        let raw = line.get(value_at..).unwrap_or_default();
        let value = chars::trim_start(raw);
        let value_start = start + text_end.saturating_sub(start) - value.len();
        let value_end = value_start + chars::trim_end(value).len();
        if end - start > limits.header_bytes_max {
            self.note(ParseError::TooLong(name));
        }
        let irregular = folded || spaces != 0;
        self.irregular |= irregular;
        let place = u16::try_from(self.entries.len()).unwrap_or(NONE);
        if let Some(last) = self.last.get_mut(name.place()) {
            if let Some(previous) = self.entries.get_mut(usize::from(*last)) {
                previous.next = place;
                if name.is_single() {
                    self.defect = self.defect.or(Some(ParseError::Repeated(name)));
                }
            } else if let Some(first) = self.first.get_mut(name.place()) {
                *first = place;
            }
            *last = place;
        }
        self.entries.push(Entry {
            name,
            irregular,
            next: NONE,
            name_span: Span::new(start, start + name_bytes.len()),
            value: Span::new(value_start, value_end),
            line_end: Span::new(end, 0).start,
        });
        end
    }
}
