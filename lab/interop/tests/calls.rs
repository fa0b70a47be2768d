//! SIPp calls SIPp through the subject: RFC 3665's flows, stateful and stateless, over IPv4 and IPv6.

use tandem_interop::{Lab, Mode, Setup, Sipp, Started, Subject};

/// Starts a callee of `scenario`, registers it as `user`, and returns it.
fn registered(lab: &Lab, subject: &Subject, scenario: &'static str, user: &str, calls: u32) -> Started {
    let callee = Sipp::callee(lab, scenario, subject.addr()).calls(calls);
    subject.register(lab, user, &callee.contact(user));
    callee.start()
}

/// One caller and one callee, each with its scenario; both must have seen what their scenario says.
fn through(name: &str, setup: &Setup, caller: &'static str, callee: &'static str, calls: u32) {
    let lab = Lab::new(name);
    let subject = Subject::start(&lab, setup);
    let mut callee = registered(&lab, &subject, callee, "bob", calls);
    let mut caller = subject.sipp(&lab, caller, "alice").key("peer", "bob").calls(calls).start();
    caller.expect_success();
    callee.expect_success();
}

/// Without challenges: who is asked for a password keeps a transaction, so that a nonce is used up once.
fn stateless() -> Setup {
    Setup { mode: Mode::Stateless, open: true, ..Setup::default() }
}

#[test]
fn twenty_calls_are_answered_through_a_stateful_proxy() {
    through("calls", &Setup::default(), "call", "answer", 20);
}

#[test]
fn twenty_calls_are_answered_through_a_stateless_proxy() {
    through("stateless", &stateless(), "call", "answer", 20);
}

/// A stateless proxy must not send 100 (RFC 3261 §16.11); one that challenges may keep state for the call it challenged.
#[test]
fn a_stateless_proxy_sends_no_100_of_its_own() {
    let lab = Lab::new("no-100");
    let subject = Subject::start(&lab, &stateless());
    let mut callee = registered(&lab, &subject, "answer", "bob", 1);
    let mut caller = subject.sipp(&lab, "call", "alice").key("peer", "bob").start();
    caller.expect_success();
    callee.expect_success();
    assert!(!caller.messages().contains("SIP/2.0 100"), "{}", caller.messages());
}

#[test]
fn a_call_with_credentials_is_answered_through_a_stateless_proxy() {
    through("stateless-digest", &Setup { open: false, ..stateless() }, "call", "answer", 5);
}

#[test]
fn a_call_is_answered_over_ipv6() {
    through("ipv6", &Setup { ipv6: true, ..Setup::default() }, "call", "answer", 1);
}

#[test]
fn a_reinvite_follows_the_record_route() {
    through("reinvite", &Setup::default(), "call_reinvite", "answer_reinvite", 1);
}

#[test]
fn a_reinvite_follows_the_record_route_of_a_stateless_proxy() {
    through("reinvite-stateless", &stateless(), "call_reinvite", "answer_reinvite", 1);
}

#[test]
fn a_cancelled_call_ends_with_487_at_both_ends() {
    through("cancel", &Setup::default(), "call_cancel", "ring", 1);
}

#[test]
fn a_stateless_proxy_passes_cancel_on() {
    through("cancel-stateless", &stateless(), "call_cancel", "ring", 1);
}

#[test]
fn a_busy_callee_is_heard_by_the_caller() {
    through("busy", &Setup::default(), "call_busy", "busy", 1);
}

#[test]
fn a_stateless_proxy_passes_the_ack_of_a_486_on() {
    through("busy-stateless", &stateless(), "call_busy", "busy", 1);
}

/// RFC 3261 §16.7 step 10: the 200 of one branch cancels the other.
#[test]
fn the_fork_that_answers_wins_and_the_other_is_cancelled() {
    let lab = Lab::new("fork");
    let subject = Subject::start(&lab, &Setup::default());
    let mut rings = registered(&lab, &subject, "ring", "bob", 1);
    let mut answers = registered(&lab, &subject, "answer_late", "bob", 1);
    let mut caller = subject.sipp(&lab, "call", "alice").key("peer", "bob").start();
    caller.expect_success();
    answers.expect_success();
    rings.expect_success();
}

/// RFC 3261 §9.1 with §16.10: one CANCEL from the caller becomes one on every branch.
#[test]
fn a_cancel_reaches_every_fork() {
    let lab = Lab::new("fork-cancel");
    let subject = Subject::start(&lab, &Setup::default());
    let mut first = registered(&lab, &subject, "ring", "bob", 1);
    let mut second = registered(&lab, &subject, "ring", "bob", 1);
    let mut caller = subject.sipp(&lab, "call_cancel_fork", "alice").key("peer", "bob").start();
    caller.expect_success();
    first.expect_success();
    second.expect_success();
}

#[test]
fn a_redirect_server_tells_the_callers_where_the_callee_is() {
    let lab = Lab::new("redirect");
    let subject = Subject::start(&lab, &Setup { mode: Mode::Redirect, ..Setup::default() });
    subject.register(&lab, "bob", "sip:bob@127.0.0.1:9");
    subject.sipp(&lab, "call_redirected", "alice").key("peer", "bob").run();
}

#[test]
fn a_call_to_somebody_who_is_not_registered_ends_with_480() {
    let lab = Lab::new("unknown");
    let subject = Subject::start(&lab, &Setup::default());
    subject.sipp(&lab, "call_unknown", "alice").key("peer", "dave").run();
}
