//! Kamailio as the neighbour proxy on either side: both record-route, and the dialog crosses both.

use tandem_interop::{Kamailio, Lab, Mode, Setup, Sipp, Subject};

/// caller → subject → Kamailio → callee, who is registered at Kamailio's address.
fn subject_first(name: &str, mode: Mode) {
    let lab = Lab::new(name);
    let neighbour = Kamailio::neighbour(&lab);
    let away = neighbour.addr.to_string();
    let subject = Subject::start(&lab, &Setup { mode, ..Setup::default() });
    let callee = Sipp::callee(&lab, "answer_reinvite", subject.addr());
    Sipp::new(&lab, "register_open", subject.addr().ip())
        .to(neighbour.addr)
        .key("me", "bob")
        .key("domain", &away)
        .key("contact", &callee.contact("bob"))
        .key("expires", "600")
        .run();
    let mut callee = callee.start();
    let caller = subject.sipp(&lab, "call_outside", "alice").key("peer", "bob").key("away", &away);
    let mut caller = caller.start();
    caller.expect_success();
    callee.expect_success();
    let crossed = callee.messages().matches("Record-Route:").count();
    assert!(crossed >= 2, "the callee saw the Record-Route of both proxies:\n{}", callee.messages());
}

#[test]
fn a_call_crosses_the_subject_and_then_kamailio() {
    subject_first("subject-first", Mode::Stateful);
}

#[test]
fn a_call_crosses_a_stateless_subject_and_then_kamailio() {
    subject_first("subject-first-stateless", Mode::Stateless);
}

/// caller → Kamailio → subject → callee, who is registered at the subject; the challenge passes through.
fn kamailio_first(name: &str, mode: Mode) {
    let lab = Lab::new(name);
    let subject = Subject::start(&lab, &Setup { mode, ..Setup::default() });
    let neighbour = Kamailio::towards(&lab, subject.addr());
    let callee = Sipp::callee(&lab, "answer_reinvite", subject.addr());
    subject.register(&lab, "bob", &callee.contact("bob"));
    let mut callee = callee.start();
    let mut caller = Sipp::new(&lab, "call_reinvite", neighbour.addr.ip())
        .to(neighbour.addr)
        .user("alice", subject.password("alice"))
        .key("domain", subject.domain())
        .key("peer", "bob")
        .start();
    caller.expect_success();
    callee.expect_success();
}

#[test]
fn a_call_crosses_kamailio_and_then_the_subject() {
    kamailio_first("kamailio-first", Mode::Stateful);
}

#[test]
fn a_call_crosses_kamailio_and_then_a_stateless_subject() {
    kamailio_first("kamailio-first-stateless", Mode::Stateless);
}
