//! Whom a request is about: what the two-stage policies go by.

use tandem_sip::{Message, Method, Scheme, Uri};

/// The user part that decides which cluster serves a request, escapes and all.
///
/// A REGISTER's is its To (RFC 3261 §10.2: the Request-URI names only the domain). Any other request's is its
/// Request-URI; where that has no user, the To's, as servers do that were sent a bare domain. A `tel:` URI is its
/// number without parameters. `None` for responses and where nobody is named.
#[must_use]
pub fn user_of<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    if !message.is_request() {
        return None;
    }
    let of_to = || user_of_uri(message.to()?.uri_bytes);
    if message.method() == Method::Register {
        of_to()
    } else {
        user_of_uri(message.request_uri()).or_else(of_to)
    }
}

fn user_of_uri(bytes: &[u8]) -> Option<&[u8]> {
    let uri = Uri::parse(bytes)?;
    let user = match uri.scheme {
        Scheme::Sip | Scheme::Sips => uri.user?,
        Scheme::Tel => uri.opaque.split(|&octet| octet == b';').next()?,
        Scheme::Other => return None,
    };
    (!user.is_empty()).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_sip::{Index, Limits};

    fn user(start: &str, to: &str) -> Option<String> {
        let cseq = start.split(' ').next().unwrap();
        let text = format!(
            "{start} SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:x@h>;tag=1\r\nTo: {to}\r\n\
             Call-ID: c\r\nCSeq: 1 {cseq}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        let mut index = Index::new();
        let message = Message::parse(text.as_bytes(), &mut index, &Limits::default()).unwrap();
        user_of(&message).map(|user| String::from_utf8(user.to_vec()).unwrap())
    }

    #[test]
    fn a_request_goes_by_its_request_uri_and_a_register_by_its_to() {
        let to = "Bob <sip:bob@example.com>";
        assert_eq!(user("INVITE sip:alice@example.com", to).unwrap(), "alice");
        assert_eq!(user("INVITE sip:example.com", to).unwrap(), "bob");
        assert_eq!(user("REGISTER sip:example.com", to).unwrap(), "bob");
        assert_eq!(user("REGISTER sip:carol@example.com", to).unwrap(), "bob");
        assert_eq!(user("INVITE tel:+15551234;phone-context=x", to).unwrap(), "+15551234");
        assert_eq!(user("OPTIONS sip:example.com", "<sip:example.com>"), None);
    }
}
