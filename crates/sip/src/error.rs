//! Why a message can't be used, who is at fault, and what to answer.

use core::fmt;

use crate::HeaderName;

/// What is wrong with a received message. Small, and without text of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Nothing but line ends: a keep-alive (RFC 5626 §3.5.1), which is no error of the peer's.
    KeepAlive,
    /// Not SIP at all, or too broken to be answered: no start line, or no usable Via.
    NotSip,
    /// More octets than [`Limits::message_bytes_max`](crate::Limits).
    TooLarge,
    /// The start line breaks the grammar at this octet.
    StartLine {
        /// Octets from the start of the message.
        offset: u32,
    },
    /// A version other than SIP/2.0.
    Version,
    /// The start line is longer than its limit.
    StartLineTooLong,
    /// A header field line breaks the grammar of RFC 3261 §7.3.1 at this octet.
    Line {
        /// Octets from the start of the message.
        offset: u32,
    },
    /// A header field's value breaks its grammar.
    Malformed {
        /// Which header field.
        header: HeaderName,
        /// Octets from the start of the message to its value.
        offset: u32,
    },
    /// A header field that every message must have is absent (RFC 3261 §8.1.1).
    Missing(HeaderName),
    /// A header field that may stand once stands more often.
    Repeated(HeaderName),
    /// A header field, or one of its identifiers, is longer than its limit.
    TooLong(HeaderName),
    /// More header fields, or more values of one, than the limit.
    TooMany(HeaderName),
    /// Content-Length says more octets than there are, or is not a number.
    ContentLength,
    /// The CSeq header field names another method than the request line (RFC 3261 §8.1.1.5).
    MethodMismatch,
}

impl ParseError {
    /// The status code that a request with this defect gets.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Version => 505,
            Self::TooLarge => 513,
            Self::StartLineTooLong => 414,
            Self::KeepAlive
            | Self::NotSip
            | Self::StartLine { .. }
            | Self::Line { .. }
            | Self::Malformed { .. }
            | Self::Missing(_)
            | Self::Repeated(_)
            | Self::TooLong(_)
            | Self::TooMany(_)
            | Self::ContentLength
            | Self::MethodMismatch => 400,
        }
    }

    /// A word for counters and logs, the same everywhere.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep_alive",
            Self::NotSip => "not_sip",
            Self::TooLarge => "too_large",
            Self::StartLine { .. } => "start_line",
            Self::Version => "version",
            Self::StartLineTooLong => "start_line_too_long",
            Self::Line { .. } => "header_line",
            Self::Malformed { .. } => "header_value",
            Self::Missing(_) => "header_missing",
            Self::Repeated(_) => "header_repeated",
            Self::TooLong(_) => "header_too_long",
            Self::TooMany(_) => "too_many_headers",
            Self::ContentLength => "content_length",
            Self::MethodMismatch => "method_mismatch",
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeepAlive => f.write_str("Keep-Alive"),
            Self::NotSip => f.write_str("Not SIP"),
            Self::TooLarge => f.write_str("Message Too Large"),
            Self::StartLine { offset } => write!(f, "Malformed Request-Line at octet {offset}"),
            Self::Version => f.write_str("Version Not Supported"),
            Self::StartLineTooLong => f.write_str("Request-URI Too Long"),
            Self::Line { offset } => write!(f, "Malformed Header Field at octet {offset}"),
            Self::Malformed { header, offset } => write!(f, "Malformed {header} at octet {offset}"),
            Self::Missing(header) => write!(f, "Missing {header}"),
            Self::Repeated(header) => write!(f, "Repeated {header}"),
            Self::TooLong(header) => write!(f, "{header} Too Long"),
            Self::TooMany(header) => write!(f, "Too Many {header}"),
            Self::ContentLength => f.write_str("Bad Content-Length"),
            Self::MethodMismatch => f.write_str("CSeq Method Mismatch"),
        }
    }
}

impl core::error::Error for ParseError {}
