//! Users whose bindings name users of ours: looked up here, not sent out to come back and be challenged.

use std::collections::VecDeque;
use std::sync::Arc;

use tandem_base::Instant;
use tandem_proxy::{Locate, NextHop, Target, TargetSet, Wanted};
use tandem_sip::{Hop, Uri};

use crate::{Config, Shared};

/// Addresses-of-record that one request may be led through; what lies behind further ones is not tried.
const AORS_MAX: usize = 16;

/// The location service with the domains that it is for.
pub(crate) struct Local {
    pub(crate) config: Arc<Config>,
    pub(crate) shared: Arc<Shared>,
}

/// A binding, as long as it takes to look further.
struct Found {
    contact: Box<[u8]>,
    path: Box<[u8]>,
    received: Option<Hop>,
    q: u16,
}

impl Local {
    /// Whether a target would bring the request back to us: its host is an address or a domain of ours.
    ///
    /// It only compares what [`TargetSet::add`] worked out already, since every call asks.
    pub(crate) fn leads_to_us(&self, set: &TargetSet, target: &Target) -> bool {
        match target.next_hop {
            NextHop::Hop(hop) => self.config.listeners.is_at(hop.peer),
            NextHop::Name { host, .. } => {
                let host = set.part(host);
                self.config.domains.iter().any(|domain| domain == host)
                    || self.config.listeners.is_ours(host, None)
            }
            NextHop::Unreachable => false,
        }
    }

    fn bindings(&self, now: Instant, aor: &[u8], is_secure: bool) -> VecDeque<Found> {
        let mut found = VecDeque::new();
        self.shared.locations.lookup(aor, now, |binding| {
            if is_sips(binding.contact) || !is_secure {
                found.push_back(Found {
                    contact: binding.contact.into(),
                    path: binding.path.into(),
                    received: binding.received,
                    q: binding.q,
                });
            }
        });
        found
    }
}

impl Locate for Local {
    fn is_ours(&self, uri: &Uri<'_>) -> bool {
        uri.user.is_some() && self.config.domains.of(uri, &self.config.listeners).is_some()
    }

    /// The bindings of a user that a binding names are tried when that one would have been: all at its q.
    fn locate(&self, now: Instant, wanted: Wanted<'_>, set: &mut TargetSet) -> bool {
        let Wanted { uri, q, is_secure, listener } = wanted;
        let listeners = &self.config.listeners;
        let mut aor = Vec::new();
        if !self.config.domains.write_aor(uri, listeners, &mut aor) {
            return false;
        }
        let mut visited = vec![aor.clone()];
        let mut is_circle = false;
        let mut ahead = self.bindings(now, &aor, is_secure);
        ahead.iter_mut().for_each(|found| found.q = q.unwrap_or(found.q));
        while let Some(found) = ahead.pop_front() {
            // A phone that registered through a Path or from behind NAT is reached by that, whatever it calls itself.
            let uri = Uri::parse(&found.contact)
                .filter(|uri| found.path.is_empty() && found.received.is_none() && self.is_ours(uri));
            let Some(uri) = uri else {
                set.add(&found.contact, &found.path, found.received, found.q, listeners, listener);
                continue;
            };
            self.config.domains.write_aor(&uri, listeners, &mut aor);
            if visited.contains(&aor) || visited.len() == AORS_MAX {
                is_circle = true;
                continue;
            }
            visited.push(aor.clone());
            for next in self.bindings(now, &aor, is_secure).into_iter().rev() {
                ahead.push_front(Found { q: found.q, ..next });
            }
        }
        is_circle
    }
}

/// Whether a URI's scheme is sips.
pub(crate) fn is_sips(uri: &[u8]) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"))
}
