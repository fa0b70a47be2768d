//! Request methods (RFC 3261 §7.1 and the extensions a proxy meets).

use core::fmt;

/// A request's method. Methods are case-sensitive; one we do not know is [`Method::Other`], and its bytes are in the
/// message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Method {
    /// RFC 3261 §13.
    Invite,
    /// RFC 3261 §17.1.1.3, §13.2.2.4.
    Ack,
    /// RFC 3261 §15.
    Bye,
    /// RFC 3261 §9.
    Cancel,
    /// RFC 3261 §10.
    Register,
    /// RFC 3261 §11.
    Options,
    /// RFC 3262.
    Prack,
    /// RFC 3311.
    Update,
    /// RFC 6086.
    Info,
    /// RFC 3428.
    Message,
    /// RFC 6665.
    Subscribe,
    /// RFC 6665.
    Notify,
    /// RFC 3903.
    Publish,
    /// RFC 3515.
    Refer,
    /// Any other token.
    Other,
}

impl Method {
    /// Every method with a name of its own.
    pub const KNOWN: [Self; 14] = [
        Self::Invite,
        Self::Ack,
        Self::Bye,
        Self::Cancel,
        Self::Register,
        Self::Options,
        Self::Prack,
        Self::Update,
        Self::Info,
        Self::Message,
        Self::Subscribe,
        Self::Notify,
        Self::Publish,
        Self::Refer,
    ];

    /// Reads a method's token.
    #[must_use]
    pub fn from_token(token: &[u8]) -> Self {
        match token {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"REGISTER" => Self::Register,
            b"OPTIONS" => Self::Options,
            b"PRACK" => Self::Prack,
            b"UPDATE" => Self::Update,
            b"INFO" => Self::Info,
            b"MESSAGE" => Self::Message,
            b"SUBSCRIBE" => Self::Subscribe,
            b"NOTIFY" => Self::Notify,
            b"PUBLISH" => Self::Publish,
            b"REFER" => Self::Refer,
            _ => Self::Other,
        }
    }

    /// The method's token; `OTHER` for one we do not know, which is a label and never goes on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invite => "INVITE",
            Self::Ack => "ACK",
            Self::Bye => "BYE",
            Self::Cancel => "CANCEL",
            Self::Register => "REGISTER",
            Self::Options => "OPTIONS",
            Self::Prack => "PRACK",
            Self::Update => "UPDATE",
            Self::Info => "INFO",
            Self::Message => "MESSAGE",
            Self::Subscribe => "SUBSCRIBE",
            Self::Notify => "NOTIFY",
            Self::Publish => "PUBLISH",
            Self::Refer => "REFER",
            Self::Other => "OTHER",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
