//! The domains we answer for, and which address-of-record a URI names in them.

use tandem_proxy::Listeners;
use tandem_registrar::write_canonical_parts;
use tandem_sip::Uri;

/// The domains of a node; the first also stands for the node's own addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domains(Vec<Box<[u8]>>);

impl Domains {
    /// Domains by name, in any case; `None` without any.
    #[must_use]
    pub fn new<T: AsRef<str>>(names: &[T]) -> Option<Self> {
        let names: Vec<Box<[u8]>> =
            names.iter().map(|name| name.as_ref().to_ascii_lowercase().into_bytes().into()).collect();
        (!names.is_empty()).then_some(Self(names))
    }

    /// The first domain.
    #[must_use]
    pub fn first(&self) -> &[u8] {
        self.0.first().map_or(&[], |name| name)
    }

    /// The domains, in lower case.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|name| &name[..])
    }

    /// The domain that a URI's host is, or stands for; `None` if it is none of ours.
    ///
    /// Our own addresses stand for the first domain, because phones are often given an address where a domain belongs.
    #[must_use]
    pub fn of<'a>(&'a self, uri: &Uri<'_>, listeners: &Listeners) -> Option<&'a [u8]> {
        if !uri.is_sip() {
            return None;
        }
        let named = self.0.iter().find(|name| name.eq_ignore_ascii_case(uri.host));
        match named {
            Some(name) if listeners.is_our_port(uri.port) => Some(name),
            Some(_) => None,
            None if listeners.is_ours(uri.host, uri.port) => self.0.first().map(|name| &name[..]),
            None => None,
        }
    }

    /// Writes the address-of-record that a URI of ours names (RFC 3261 §10.3 step 5); `false` if it is not ours.
    pub fn write_aor(&self, uri: &Uri<'_>, listeners: &Listeners, out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some(domain) = self.of(uri, listeners) else { return false };
        write_canonical_parts(uri.user.unwrap_or_default(), domain, None, out);
        true
    }
}
