//! RFC 3261 §16.3: whether a request may be forwarded at all, with loop detection as RFC 5393 asks.

use tandem_sip::{HeaderName, Message, ParseError, Scheme, Uri, Via};

use crate::{Proxy, branch};

/// Why a request is not forwarded, and what its sender is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// The status code.
    pub status: u16,
    /// Another reason phrase than the RFC's own.
    pub reason: Option<&'static str>,
    /// The header field, Require or Proxy-Require, whose unknown values go into Unsupported (§8.2.2.3, §16.3 step 5).
    pub unsupported: Option<HeaderName>,
}

impl Rejection {
    /// A refusal by status code alone.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self { status, reason: None, unsupported: None }
    }

    /// A refusal with a reason phrase of its own.
    #[must_use]
    pub const fn because(status: u16, reason: &'static str) -> Self {
        Self { status, reason: Some(reason), unsupported: None }
    }
}

impl Proxy {
    /// Checks syntax, URI scheme, Max-Forwards, loops, Max-Breadth and Proxy-Require (§16.3 steps 1 to 5).
    ///
    /// # Errors
    ///
    /// 400 and 505 for what [`Message::defect`] found or From and To that can't be read, 416, 483, 482, 440, 420.
    pub fn validate(&mut self, request: &Message<'_>) -> Result<(), Rejection> {
        if let Some(defect) = request.defect() {
            return Err(Rejection::status(defect.status()));
        }
        if request.from().is_none() {
            return Err(Rejection::because(400, "Malformed From"));
        }
        if request.to().is_none() {
            return Err(Rejection::because(400, "Malformed To"));
        }
        match Uri::parse(request.request_uri()) {
            None => return Err(Rejection::because(400, "Malformed Request-URI")),
            Some(uri) if matches!(uri.scheme, Scheme::Other) => return Err(Rejection::status(416)),
            Some(_) => {}
        }
        match request.number(HeaderName::MaxForwards) {
            Ok(Some(0)) => return Err(Rejection::status(483)),
            Ok(Some(hops)) if hops > 255 => return Err(Rejection::because(400, "Malformed Max-Forwards")),
            Ok(_) => {}
            Err(ParseError::Malformed { .. }) => {
                return Err(Rejection::because(400, "Malformed Max-Forwards"));
            }
            Err(error) => return Err(Rejection::status(error.status())),
        }
        if request.number(HeaderName::MaxBreadth) == Ok(Some(0)) {
            return Err(Rejection::status(440));
        }
        if self.is_looped(request) {
            self.counters.loops += 1;
            return Err(Rejection::status(482));
        }
        // No option tag asks anything of a proxy that this one does beyond forwarding.
        if request.field(HeaderName::ProxyRequire).is_some_and(|field| !field.value.is_empty()) {
            return Err(Rejection { status: 420, reason: None, unsupported: Some(HeaderName::ProxyRequire) });
        }
        Ok(())
    }

    /// Whether it has been here before and nothing that routes it has changed since (RFC 5393 §4.2).
    fn is_looped(&self, request: &Message<'_>) -> bool {
        let mut loop_hash = None;
        let mut is_loop = |via: &Via<'_>| {
            self.listeners.is_ours(via.host, via.port)
                && via.branch.and_then(branch::loop_part).is_some_and(|part| {
                    part == *loop_hash.get_or_insert_with(|| branch::loop_hash(&self.key, request))
                })
        };
        let mut below = request.values(HeaderName::Via).skip(1).filter_map(|value| Via::parse(value.bytes));
        is_loop(request.via()) || below.any(|via| is_loop(&via))
    }
}
