//! RFC 4475 and RFC 5118 over the wire: every message goes into a node, and its answer is the RFC's.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../sip/tests/torture/table.rs"]
#[expect(dead_code, reason = "the table serves the parser's tests too")]
mod table;

mod common;

use common::node;
use table::{Case, Outcome, RFC_4475, RFC_5118};
use tandem_base::Instant;
use tandem_node::Challenge;
use tandem_sip::{Hop, ListenerId, Outbox};

/// What the node does with one message.
fn outcome(case: &Case, domains: &[&str]) -> Outcome {
    let mut node = node(Challenge::Outside, domains);
    let mut out = Outbox::new();
    let hop = Hop::udp(ListenerId(0), "192.0.2.50:5060".parse().unwrap());
    node.handle_input(Instant::from_secs(1), hop, case.bytes, &mut out);
    let resolving = node.poll_event().is_some();
    let statuses = out.iter().filter_map(|(_, message)| {
        let digits = message.strip_prefix(b"SIP/2.0 ")?.get(..3)?;
        core::str::from_utf8(digits).ok()?.parse::<u16>().ok()
    });
    let statuses: Vec<u16> = statuses.filter(|&status| status != 100).collect();
    assert!(statuses.len() <= 1, "{}: answered {statuses:?}", case.name);
    match statuses.first() {
        Some(&status @ (400 | 416 | 420 | 483 | 505 | 513)) => Outcome::Answer(status),
        Some(_) => Outcome::Process,
        None if resolving || !out.is_empty() => Outcome::Process,
        None => Outcome::Drop,
    }
}

/// What one message gets where everyone is trusted, and what it may get.
fn check(domains: &[&str], expected: impl Fn(&Case) -> &'static [Outcome]) {
    let wrong: Vec<String> = RFC_4475
        .iter()
        .chain(RFC_5118)
        .filter_map(|case| {
            let got = outcome(case, domains);
            (!expected(case).contains(&got))
                .then(|| format!("{} ({}): {got:?}, not {:?}", case.name, case.section, expected(case)))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_proxy_does_with_every_torture_message_what_the_rfc_demands() {
    check(&["elsewhere.example.net"], |case| case.proxy);
}

#[test]
fn a_registrar_does_with_every_torture_message_what_the_rfc_demands() {
    check(&["example.com", "biloxi.example.com", "chicago.example.com"], |case| case.registrar);
}
