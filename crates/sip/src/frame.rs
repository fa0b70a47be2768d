//! Framing of messages over streams: RFC 3261 §7.5 and §18.3, with the keep-alives of RFC 5626 §3.5.1.
//!
//! A pure function of the octets that came, however they were cut: the caller keeps the connection's buffer, drops
//! what a frame has used up and asks again. Left out: WebSocket, whose own frames are whole messages (RFC 7118 §5).

use crate::{HeaderName, Index, Limits, ParseError};

/// What stands at the front of a connection's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Nothing whole yet.
    Incomplete,
    /// A line end after a message or a ping: the answer to our own ping, half of a peer's, or (RFC 3261 §7.5) nothing.
    Pong,
    /// A line end right after a [`Frame::Pong`]: a peer's ping, to be answered with one CRLF.
    Ping,
    /// A whole message.
    Message {
        /// Its octets, body included.
        len: usize,
    },
}

impl Frame {
    /// How many octets to drop from the front of the buffer before asking again.
    #[must_use]
    pub const fn octets(self) -> usize {
        match self {
            Self::Incomplete => 0,
            Self::Pong | Self::Ping => 2,
            Self::Message { len } => len,
        }
    }
}

/// A stream that can't be cut into messages any further: answer once, if there is a head to answer, and close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameError {
    /// What is wrong; [`ParseError::status`] is the answer's code.
    pub error: ParseError,
    /// Octets of the start line and header fields at the front of the buffer, which `Message::parse` may read for
    /// the answer; 0 where none are whole.
    pub head_len: usize,
}

/// How far one connection's buffer has been looked at, so that each octet is looked at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framer {
    /// Octets in which no blank line ends.
    searched: usize,
    /// The length of the message at the front, once its header is whole.
    message_len: Option<usize>,
    after_line_end: bool,
    failed: Option<FrameError>,
}

const BLANK_LINE: &[u8] = b"\r\n\r\n";

impl Framer {
    /// For a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the front of `buffer`: what came on the connection and has not been dropped.
    ///
    /// `index` is only borrowed. A message holds at most [`Limits::message_bytes_max`] octets, so the buffer need
    /// never hold more.
    ///
    /// # Errors
    ///
    /// [`FrameError`], and the same at every later call: a message whose end can't be known, because its
    /// Content-Length is missing, repeated or no number (RFC 3261 §20.14), or because another reader might see other
    /// lines; and one that is too long.
    pub fn next(&mut self, buffer: &[u8], index: &mut Index, limits: &Limits) -> Result<Frame, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match (self.message_len, buffer) {
            (None, [] | [b'\r']) => return Ok(Frame::Incomplete),
            (None, [b'\r', b'\n', ..]) => {
                self.after_line_end = !self.after_line_end;
                return Ok(if self.after_line_end { Frame::Pong } else { Frame::Ping });
            }
            _ => {}
        }
        let len = match self.message_len {
            Some(len) => len,
            None => match self.read_head(buffer, index, limits) {
                Ok(Some(len)) => len,
                Ok(None) => return Ok(Frame::Incomplete),
                Err(error) => {
                    self.failed = Some(error);
                    return Err(error);
                }
            },
        };
        if buffer.len() < len {
            self.message_len = Some(len);
            return Ok(Frame::Incomplete);
        }
        *self = Self::default();
        Ok(Frame::Message { len })
    }

    /// The whole message's length, if its header is there.
    fn read_head(
        &mut self,
        buffer: &[u8],
        index: &mut Index,
        limits: &Limits,
    ) -> Result<Option<usize>, FrameError> {
        let within = buffer.get(..limits.message_bytes_max).unwrap_or(buffer);
        let from = self.searched.saturating_sub(BLANK_LINE.len() - 1);
        let found = memchr::memmem::find(within.get(from..).unwrap_or_default(), BLANK_LINE);
        let Some(head_len) = found.map(|at| from + at + BLANK_LINE.len()) else {
            self.searched = within.len();
            return match within.len() < limits.message_bytes_max {
                true => Ok(None),
                false => Err(FrameError { error: ParseError::TooLarge, head_len: 0 }),
            };
        };
        let head = buffer.get(..head_len).unwrap_or_default();
        index.read(head, limits).map_err(|error| FrameError { error, head_len: 0 })?;
        let error = |error| FrameError { error, head_len };
        if let Some(defect @ ParseError::Line { .. }) = index.defect {
            return Err(error(defect));
        }
        let length = index.content_length(head).map_err(error)?;
        let length = length.ok_or(error(ParseError::Missing(HeaderName::ContentLength)))?;
        let len = usize::try_from(length).ok().and_then(|length| head_len.checked_add(length));
        match len.filter(|&len| len <= limits.message_bytes_max) {
            Some(len) => Ok(Some(len)),
            None => Err(error(ParseError::TooLarge)),
        }
    }
}
