//! The hard bounds on what a peer may send; past them a message is refused, whatever it says.

/// Bounds on one message. The defaults suit phones and trunks alike; each has its reason in `docs/CONFIG.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Octets of a whole message, at most 65,535 over UDP.
    pub message_bytes_max: usize,
    /// Octets of a start line.
    pub start_line_bytes_max: usize,
    /// Octets of one header field with its folds.
    pub header_bytes_max: usize,
    /// Header field lines.
    pub headers_max: usize,
    /// Values of all Via header fields together; as many Route, Record-Route and Contact values.
    pub values_max: usize,
    /// Octets of a tag, branch, Call-ID, method or any other identifier that we copy or hash. The longest that
    /// RFC 4475 §3.1.1.7 wants understood has 155.
    pub token_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 65_535,
            start_line_bytes_max: 4_096,
            header_bytes_max: 8_192,
            headers_max: 128,
            values_max: 64,
            token_bytes_max: 256,
        }
    }
}

impl Limits {
    /// No bounds but the format's own: for reading again what was within the limits when it came.
    #[must_use]
    pub const fn unbounded() -> Self {
        Self {
            message_bytes_max: usize::MAX,
            start_line_bytes_max: usize::MAX,
            header_bytes_max: usize::MAX,
            headers_max: usize::MAX,
            values_max: usize::MAX,
            token_bytes_max: usize::MAX,
        }
    }
}
