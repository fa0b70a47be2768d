//! Header field names: one identity for every spelling (RFC 3261 §7.3.1, §7.3.3).

use core::fmt;

macro_rules! header_names {
    ($($variant:ident $name:literal $compact:literal;)*) => {
        /// A header field's name, whatever its case and form. A name that no part of Tandem asks for is
        /// [`HeaderName::Other`], and its bytes are in the message.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum HeaderName {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
            /// Any other name.
            Other,
        }

        impl HeaderName {
            /// Every name with an identity of its own.
            pub const KNOWN: &[Self] = &[$(Self::$variant),*];

            /// The long form as the RFCs write it; `Other` for a name we do not know.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other => "Other",
                }
            }

            /// The compact form (RFC 3261 §7.3.3 and the extensions' registrations), where there is one.
            #[must_use]
            pub const fn compact(self) -> Option<u8> {
                let letter: &[u8] = match self {
                    $(Self::$variant => $compact,)*
                    Self::Other => b"",
                };
                letter.first().copied()
            }
        }
    };
}

header_names! {
    Via "Via" b"v";
    From "From" b"f";
    To "To" b"t";
    CallId "Call-ID" b"i";
    CSeq "CSeq" b"";
    MaxForwards "Max-Forwards" b"";
    Route "Route" b"";
    RecordRoute "Record-Route" b"";
    Contact "Contact" b"m";
    ContentLength "Content-Length" b"l";
    ContentType "Content-Type" b"c";
    Expires "Expires" b"";
    MinExpires "Min-Expires" b"";
    Path "Path" b"";
    ServiceRoute "Service-Route" b"";
    Supported "Supported" b"k";
    Require "Require" b"";
    ProxyRequire "Proxy-Require" b"";
    Unsupported "Unsupported" b"";
    Allow "Allow" b"";
    Authorization "Authorization" b"";
    ProxyAuthorization "Proxy-Authorization" b"";
    WwwAuthenticate "WWW-Authenticate" b"";
    ProxyAuthenticate "Proxy-Authenticate" b"";
    AuthenticationInfo "Authentication-Info" b"";
    RetryAfter "Retry-After" b"";
    Server "Server" b"";
    UserAgent "User-Agent" b"";
    Date "Date" b"";
    Timestamp "Timestamp" b"";
    Event "Event" b"o";
    AllowEvents "Allow-Events" b"u";
    ReferTo "Refer-To" b"r";
    ReferredBy "Referred-By" b"b";
    Subject "Subject" b"s";
    ContentEncoding "Content-Encoding" b"e";
    AcceptContact "Accept-Contact" b"a";
    RejectContact "Reject-Contact" b"j";
    RequestDisposition "Request-Disposition" b"d";
    SessionExpires "Session-Expires" b"x";
    MinSe "Min-SE" b"";
    MaxBreadth "Max-Breadth" b"";
    Warning "Warning" b"";
    RSeq "RSeq" b"";
    RAck "RAck" b"";
    Identity "Identity" b"y";
    IdentityInfo "Identity-Info" b"n";
    Accept "Accept" b"";
    AcceptEncoding "Accept-Encoding" b"";
    AcceptLanguage "Accept-Language" b"";
    SubscriptionState "Subscription-State" b"";
    SipEtag "SIP-ETag" b"";
    SipIfMatch "SIP-If-Match" b"";
    FlowTimer "Flow-Timer" b"";
    Reason "Reason" b"";
    HistoryInfo "History-Info" b"";
    Privacy "Privacy" b"";
    PAssertedIdentity "P-Asserted-Identity" b"";
    PPreferredIdentity "P-Preferred-Identity" b"";
    ContentDisposition "Content-Disposition" b"";
    ContentLanguage "Content-Language" b"";
    MimeVersion "MIME-Version" b"";
    AlertInfo "Alert-Info" b"";
    CallInfo "Call-Info" b"";
    ErrorInfo "Error-Info" b"";
    InReplyTo "In-Reply-To" b"";
    Organization "Organization" b"";
    Priority "Priority" b"";
    ReplyTo "Reply-To" b"";
    Join "Join" b"";
    Replaces "Replaces" b"";
}

/// The long forms in the order of [`HeaderName::KNOWN`].
static NAMES: [&[u8]; COUNT - 1] = names();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks the bounds")]
const fn names() -> [&'static [u8]; COUNT - 1] {
    let mut names: [&[u8]; COUNT - 1] = [b""; COUNT - 1];
    let mut i = 0;
    while i < names.len() {
        names[i] = HeaderName::KNOWN[i].as_str().as_bytes();
        i += 1;
    }
    names
}

/// What each letter stands for as a compact form.
static COMPACT: [HeaderName; 26] = compact();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks the bounds")]
const fn compact() -> [HeaderName; 26] {
    let mut letters = [HeaderName::Other; 26];
    let mut i = 0;
    while i < HeaderName::KNOWN.len() {
        if let Some(letter) = HeaderName::KNOWN[i].compact() {
            letters[(letter - b'a') as usize] = HeaderName::KNOWN[i];
        }
        i += 1;
    }
    letters
}

/// How many names there are, [`HeaderName::Other`] included.
pub(crate) const COUNT: usize = HeaderName::KNOWN.len() + 1;

const SLOTS: usize = 256;

/// Open-addressed table from a cheap hash of the name to its place in `KNOWN` plus one; zero is an empty slot.
static TABLE: [u8; SLOTS] = table();

/// Found by trying factors at random: no two of the names meet in a slot (a new name that does costs a second look).
const fn slot(len: usize, first: u8, middle: u8, last: u8) -> usize {
    let letters =
        (first | 0x20) as usize * 115 + (middle | 0x20) as usize * 130 + (last | 0x20) as usize * 149;
    (letters + len * 75) % SLOTS
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks the bounds")]
const fn table() -> [u8; SLOTS] {
    let mut table = [0; SLOTS];
    let mut i = 0;
    while i < HeaderName::KNOWN.len() {
        let name = HeaderName::KNOWN[i].as_str().as_bytes();
        let mut at = slot(name.len(), name[0], name[name.len() / 2], name[name.len() - 1]);
        while table[at] != 0 {
            at = (at + 1) % SLOTS;
        }
        #[expect(clippy::cast_possible_truncation, reason = "fewer than 255 names")]
        let place = i as u8 + 1;
        table[at] = place;
        i += 1;
    }
    table
}

impl HeaderName {
    /// Reads a name in either form and any case.
    #[must_use]
    #[inline]
    pub fn from_bytes(name: &[u8]) -> Self {
        let (Some(&first), Some(&middle), Some(&last)) =
            (name.first(), name.get(name.len() / 2), name.last())
        else {
            return Self::Other;
        };
        if name.len() == 1 {
            let letter = usize::from(first.to_ascii_lowercase().wrapping_sub(b'a'));
            return COMPACT.get(letter).copied().unwrap_or(Self::Other);
        }
        let mut at = slot(name.len(), first, middle, last);
        loop {
            let place = TABLE.get(at).copied().unwrap_or(0);
            let Some(place) = usize::from(place).checked_sub(1) else { return Self::Other };
            if NAMES.get(place).is_some_and(|known| same_letters(known, name)) {
                return Self::KNOWN.get(place).copied().unwrap_or(Self::Other);
            }
            at = (at + 1) % SLOTS;
        }
    }

    pub(crate) const fn place(self) -> usize {
        self as usize
    }

    /// Whether RFC 3261 §7.3.1 and its extensions allow this header field at most once in a message.
    #[must_use]
    pub const fn is_single(self) -> bool {
        matches!(
            self,
            Self::From
                | Self::To
                | Self::CallId
                | Self::CSeq
                | Self::MaxForwards
                | Self::ContentLength
                | Self::ContentType
                | Self::Expires
                | Self::MinExpires
                | Self::MaxBreadth
                | Self::Date
                | Self::Timestamp
        )
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `known` in any case; most peers write the long form as the RFCs do.
fn same_letters(known: &[u8], name: &[u8]) -> bool {
    known.len() == name.len() && (same_octets(known, name) || known.eq_ignore_ascii_case(name))
}

/// Equality of short texts of one length by two overlapping words, which is quicker than a call to compare them.
fn same_octets(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        8..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        4..=7 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        2..=3 => a.first_chunk::<2>() == b.first_chunk() && a.last() == b.last(),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_name_is_one_name() {
        for &name in HeaderName::KNOWN {
            assert_eq!(HeaderName::from_bytes(name.as_str().as_bytes()), name);
            assert_eq!(HeaderName::from_bytes(name.as_str().to_uppercase().as_bytes()), name);
            assert_eq!(HeaderName::from_bytes(name.as_str().to_lowercase().as_bytes()), name);
            if let Some(letter) = name.compact() {
                assert_eq!(HeaderName::from_bytes(&[letter]), name);
                assert_eq!(HeaderName::from_bytes(&[letter.to_ascii_uppercase()]), name);
            }
        }
        assert_eq!(HeaderName::from_bytes(b"Vib"), HeaderName::Other);
        assert_eq!(HeaderName::from_bytes(b""), HeaderName::Other);
    }
}
