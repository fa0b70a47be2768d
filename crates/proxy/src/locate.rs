//! Where the users of our own domains are, as the proxy sees the location service (RFC 3261 §16.5).

use core::fmt;
use std::sync::Arc;

use tandem_base::Instant;
use tandem_sip::{ListenerId, Uri};

use crate::TargetSet;

/// A URI that leads into a domain of ours, and how it came to be a target.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The URI.
    pub uri: &'a Uri<'a>,
    /// The q that its targets get; `None` for that of each binding.
    pub q: Option<u16>,
    /// Whether only sips will do (§26.2.2).
    pub is_secure: bool,
    /// The listener to prefer.
    pub listener: ListenerId,
}

/// The location service.
pub trait Locate: Send + Sync {
    /// Whether the URI names a user of a domain of ours.
    fn is_ours(&self, uri: &Uri<'_>) -> bool;

    /// Adds what such a URI leads to in the end: bindings, those of the users that bindings name, and so on. Whether
    /// they led in a circle somewhere.
    fn locate(&self, now: Instant, wanted: Wanted<'_>, set: &mut TargetSet) -> bool;
}

/// The location service of a proxy, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Locator(pub(crate) Option<Arc<dyn Locate>>);

impl fmt::Debug for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locator").field(&self.0.is_some()).finish()
    }
}
