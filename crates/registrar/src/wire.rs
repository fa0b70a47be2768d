//! A REGISTER read from a message, and the header field lines of its answer (RFC 3261 §10.2, §10.3 step 8).
//!
//! Left out: Date (a phone that needs the time asks for it elsewhere), GRUU and outbound's `Require` (RFC 5626 §6).

use core::time::Duration;
use tandem_base::Instant;
use tandem_sip::{HeaderName, Hop, Message, NameAddr, write_number};

use crate::{Binding, ContactWish, Contacts, Policy, Q_DEFAULT, Record, Refusal, Register};

/// What a time that can't be read stands for (RFC 3261 §20.10).
const EXPIRES_UNREADABLE: Duration = Duration::from_secs(3600);

impl<'a> Register<'a> {
    /// Reads what a registrar looks at; `received` is the hop the message came by.
    ///
    /// # Errors
    ///
    /// [`Refusal::Malformed`] for a Contact or Path that breaks its grammar, [`Refusal::WildcardMisuse`] for `*`
    /// beside another contact.
    pub fn from_message(message: &Message<'a>, received: Option<Hop>) -> Result<Self, Refusal> {
        let mut path = Vec::new();
        for value in message.values(HeaderName::Path) {
            let hop = NameAddr::parse(value.bytes).and_then(|hop| hop.uri());
            if hop.is_none() {
                return Err(Refusal::Malformed);
            }
            if !path.is_empty() {
                path.push(b',');
            }
            // A folded value is carried on in one line.
            path.extend(
                value.bytes.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }),
            );
        }
        let user_agent = message.header(HeaderName::UserAgent).unwrap_or_default();
        Ok(Self {
            call_id: message.call_id(),
            cseq: message.cseq().number,
            expires: message.header(HeaderName::Expires).map(seconds),
            contacts: contacts(message)?,
            path,
            supports_path: message.lists(HeaderName::Supported, b"path"),
            // What follows a fold is comment enough to lose.
            user_agent: user_agent.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default(),
            received,
        })
    }

    /// Appends the header field lines of the 200: the bindings that live, the preferred one first, with what is left
    /// of their time; Path if the phone supports it; Service-Route by policy.
    pub fn write_ok(&self, now: Instant, policy: &Policy, record: Option<&Record>, out: &mut Vec<u8>) {
        for binding in record.into_iter().flat_map(|record| record.live(now)) {
            write_contact(&binding, now, out);
        }
        if self.supports_path && !self.path.is_empty() {
            write_line(b"Path: ", &self.path, out);
        }
        if !policy.service_route.is_empty() {
            write_line(b"Service-Route: ", &policy.service_route, out);
        }
    }
}

impl Refusal {
    /// Appends the header field lines that its answer must have: Min-Expires, Require or Retry-After.
    pub fn write_lines(self, out: &mut Vec<u8>) {
        match self {
            Self::IntervalTooBrief { min } => {
                out.extend_from_slice(b"Min-Expires: ");
                write_number(out, min.as_secs());
                out.extend_from_slice(b"\r\n");
            }
            Self::PathUnsupported => out.extend_from_slice(b"Require: path\r\n"),
            Self::LocationsFull => out.extend_from_slice(b"Retry-After: 60\r\n"),
            Self::Malformed
            | Self::WildcardMisuse
            | Self::OutOfOrder
            | Self::TooManyContacts
            | Self::TooLarge => {}
        }
    }
}

fn contacts<'a>(message: &Message<'a>) -> Result<Contacts<'a>, Refusal> {
    let mut wishes = Vec::new();
    let mut wildcard = false;
    let mut count = 0_usize;
    for value in message.values(HeaderName::Contact) {
        count += 1;
        if value.bytes == b"*" {
            wildcard = true;
            continue;
        }
        wishes.push(wish(value.bytes).ok_or(Refusal::Malformed)?);
    }
    match (wildcard, count) {
        (false, 0) => Ok(Contacts::Fetch),
        (false, _) => Ok(Contacts::Each(wishes)),
        (true, 1) => Ok(Contacts::All),
        (true, _) => Err(Refusal::WildcardMisuse),
    }
}

fn wish(value: &[u8]) -> Option<ContactWish<'_>> {
    let contact = NameAddr::parse(value)?;
    contact.uri()?;
    let mut wish = ContactWish { uri: contact.uri_bytes, q: None, expires: None, instance: &[], reg_id: 0 };
    for param in contact.params() {
        let value = param.value.unwrap_or_default();
        if param.name.eq_ignore_ascii_case(b"q") {
            wish.q = Some(parse_q(value)?);
        } else if param.name.eq_ignore_ascii_case(b"expires") {
            wish.expires = Some(seconds(value));
        } else if param.name.eq_ignore_ascii_case(b"+sip.instance") {
            let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
            // It is echoed within quotes; one with an escape in it is nobody's instance.
            wish.instance =
                inner.filter(|id| !id.iter().any(|b| matches!(b, b'"' | b'\\' | b'\r' | b'\n')))?;
        } else if param.name.eq_ignore_ascii_case(b"reg-id") {
            wish.reg_id = decimal(value)?;
        }
    }
    Some(wish)
}

/// Reads a qvalue (RFC 3261 §25.1) into thousandths: `0`, `0.5`, `1.000`.
///
/// Up to three decimals; nothing above 1.
#[must_use]
pub fn parse_q(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value.iter().position(|&byte| byte == b'.') {
        Some(dot) => {
            value.split_at_checked(dot).map(|(whole, rest)| (whole, rest.get(1..).unwrap_or_default()))?
        }
        None => (value, &[][..]),
    };
    let whole = match whole {
        b"0" => 0,
        b"1" => 1000,
        // Interop: some phones write `.5`.
        b"" if !decimals.is_empty() => 0,
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = decimals.iter().chain(b"000").take(3);
    let millis = digits.fold(0_u16, |sum, digit| sum * 10 + u16::from(digit.wrapping_sub(b'0')));
    Some(whole + millis).filter(|&q| q <= 1000)
}

/// Appends a qvalue without needless zeros: `0.5`, `0.25`, `1`.
pub fn write_q(q: u16, out: &mut Vec<u8>) {
    if q >= 1000 {
        out.push(b'1');
        return;
    }
    let text = format!("{q:03}");
    let decimals = text.trim_end_matches('0');
    out.push(b'0');
    if !decimals.is_empty() {
        out.push(b'.');
        out.extend_from_slice(decimals.as_bytes());
    }
}

/// `delta-seconds`; what can't be read means an hour (RFC 3261 §20.10, §20.19).
fn seconds(value: &[u8]) -> Duration {
    decimal(value).map_or(EXPIRES_UNREADABLE, |secs| Duration::from_secs(u64::from(secs)))
}

fn decimal(value: &[u8]) -> Option<u32> {
    if !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(value).ok()?.parse().ok()
}

fn write_contact(binding: &Binding<'_>, now: Instant, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Contact: <");
    out.extend_from_slice(binding.contact);
    out.push(b'>');
    if binding.q != Q_DEFAULT {
        out.extend_from_slice(b";q=");
        write_q(binding.q, out);
    }
    out.extend_from_slice(b";expires=");
    write_number(out, binding.remaining_secs(now));
    if !binding.instance.is_empty() {
        out.extend_from_slice(b";+sip.instance=\"");
        out.extend_from_slice(binding.instance);
        out.push(b'"');
    }
    if binding.reg_id != 0 {
        out.extend_from_slice(b";reg-id=");
        write_number(out, u64::from(binding.reg_id));
    }
    out.extend_from_slice(b"\r\n");
}

fn write_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qvalue_is_read_to_thousandths_and_written_shortest() {
        for (text, q, short) in [
            ("0", 0, "0"),
            ("1", 1000, "1"),
            ("1.000", 1000, "1"),
            ("0.5", 500, "0.5"),
            (".5", 500, "0.5"),
            ("0.250", 250, "0.25"),
            ("0.001", 1, "0.001"),
            ("0.", 0, "0"),
        ] {
            assert_eq!(parse_q(text.as_bytes()), Some(q), "{text}");
            let mut out = Vec::new();
            write_q(q, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), short);
        }
        for text in ["", ".", "1.1", "2", "0.1234", "-0.5", "0,5", "1.001"] {
            assert_eq!(parse_q(text.as_bytes()), None, "{text}");
        }
    }
}
