//! What a node counts: plain numbers that only their shard writes.

use tandem_sip::{Method, ParseError};

use crate::Node;

/// What is called with each counter's name, labels and value.
pub type Each<'a> = dyn FnMut(&'static str, &[(&'static str, &str)], u64) + 'a;

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Requests received, by [`Method::KNOWN`]'s order; the last is any other method.
    pub requests: [u64; METHODS],
    /// Responses received, by class: 1xx first.
    pub responses: [u64; 6],
    /// Our own answers, by class.
    pub answers: [u64; 6],
    /// Datagrams that hold only line ends.
    pub keep_alives: u64,
    /// Messages that could not be answered: no SIP, or no usable Via, CSeq or Call-ID.
    pub unreadable: u64,
    /// Requests answered 400, 413, 414, 505 or 513 for what they say.
    pub malformed: u64,
    /// Retransmissions and ACKs that a transaction absorbed.
    pub retransmissions: u64,
    /// Requests refused for any other reason.
    pub refused: u64,
    /// Requests that would have made us a relay for strangers.
    pub relay_refused: u64,
    /// Requests for users without a binding.
    pub not_found: u64,
    /// Registrations that were granted, removals and fetches included.
    pub registered: u64,
    /// Registrations refused because the store's queue was full.
    pub store_full: u64,
    /// Registrations that the store could not keep.
    pub store_failed: u64,
    /// Challenges sent.
    pub challenges: u64,
    /// Credentials that were right.
    pub auth_accepted: u64,
    /// Credentials that were right, with a nonce that may not be used again.
    pub auth_stale: u64,
    /// Credentials that were wrong, or of nobody we know.
    pub auth_failed: u64,
    /// Credentials that could not be read.
    pub auth_malformed: u64,
    /// Credentials not looked at, because too many wrong ones came before.
    pub auth_throttled: u64,
    /// Users who acted for somebody else.
    pub auth_foreign: u64,
    /// Routes with a cookie that we did not write for that call.
    pub cookies_forged: u64,
    /// Requests of calls that are up for longer than our Record-Route vouches for them.
    pub cookies_expired: u64,
    /// Answers of ours that a source without credentials had not paid for by what it sent.
    pub answers_withheld: u64,
}

const METHODS: usize = Method::KNOWN.len() + 1;
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"];

impl Counters {
    pub(crate) fn count_request(&mut self, method: Method) {
        if let Some(count) = self.requests.get_mut(method as usize) {
            *count += 1;
        }
    }

    pub(crate) fn count_response(&mut self, status: u16) {
        count_class(&mut self.responses, status);
    }

    pub(crate) fn count_answer(&mut self, status: u16) {
        count_class(&mut self.answers, status);
    }

    pub(crate) fn drop_unreadable(&mut self, error: ParseError) {
        if error == ParseError::KeepAlive {
            self.keep_alives += 1;
        } else {
            self.unreadable += 1;
        }
    }
}

fn count_class(classes: &mut [u64; 6], status: u16) {
    let class = usize::from(status / 100).checked_sub(1);
    if let Some(count) = class.and_then(|class| classes.get_mut(class)) {
        *count += 1;
    }
}

pub(crate) fn report(node: &Node, each: &mut Each<'_>) {
    let counters = &node.counters;
    for (method, count) in Method::KNOWN.iter().chain([&Method::Other]).zip(counters.requests) {
        each("tandem_sip_requests_received_total", &[("method", method.as_str())], count);
    }
    for (class, count) in CLASSES.iter().zip(counters.responses) {
        each("tandem_sip_responses_received_total", &[("class", class)], count);
    }
    for (class, count) in CLASSES.iter().zip(counters.answers) {
        each("tandem_sip_answers_total", &[("class", class)], count);
    }
    for (reason, count) in [
        ("keep_alive", counters.keep_alives),
        ("unreadable", counters.unreadable),
        ("retransmission", counters.retransmissions),
        ("stray_response", node.proxy.counters().responses_stray),
    ] {
        each("tandem_sip_absorbed_total", &[("reason", reason)], count);
    }
    for (reason, count) in [
        ("malformed", counters.malformed),
        ("policy", counters.refused),
        ("relay", counters.relay_refused),
        ("not_found", counters.not_found),
        ("store_full", counters.store_full),
        ("store_failed", counters.store_failed),
        ("contexts_full", node.proxy.counters().contexts_full),
        ("cookie_forged", counters.cookies_forged),
        ("cookie_expired", counters.cookies_expired),
        ("reflection", counters.answers_withheld),
        ("loop", node.proxy.counters().loops),
    ] {
        each("tandem_sip_refused_total", &[("reason", reason)], count);
    }
    for (outcome, count) in [
        ("challenged", counters.challenges),
        ("accepted", counters.auth_accepted),
        ("stale", counters.auth_stale),
        ("failed", counters.auth_failed),
        ("malformed", counters.auth_malformed),
        ("throttled", counters.auth_throttled),
        ("foreign", counters.auth_foreign),
    ] {
        each("tandem_auth_total", &[("outcome", outcome)], count);
    }
    let proxy = node.proxy.counters();
    for (mode, count) in [("stateful", proxy.forwarded_stateful), ("stateless", proxy.forwarded_stateless)] {
        each("tandem_proxy_forwarded_total", &[("mode", mode)], count);
    }
    each("tandem_proxy_responses_forwarded_total", &[], proxy.responses_forwarded);
    for (reason, count) in [
        ("timeout", proxy.branches_timed_out),
        ("unreachable", proxy.branches_unreachable),
        ("cancelled", proxy.cancelled),
    ] {
        each("tandem_proxy_branches_ended_total", &[("reason", reason)], count);
    }
    each("tandem_registrar_registered_total", &[], counters.registered);
}
