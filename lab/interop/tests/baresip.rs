//! Two baresip register at the subject and call each other, audio offered and answered.

use tandem_interop::{Baresip, Lab, Setup, Subject};

#[test]
fn two_baresip_register_and_call_each_other_both_ways() {
    let lab = Lab::new("baresip");
    let subject = Subject::start(&lab, &Setup::default());
    let phone = |user| Baresip::start(&lab, user, subject.password(user), subject.domain(), subject.addr());
    let (mut alice, mut bob) = (phone("alice"), phone("bob"));
    alice.wait_registered();
    bob.wait_registered();

    alice.dial(&format!("sip:bob@{}", subject.domain()));
    bob.accept();
    alice.wait_event("CALL_ESTABLISHED");
    bob.wait_event("CALL_ESTABLISHED");
    alice.hang_up();
    bob.wait_event("CALL_CLOSED");
    alice.wait_event("CALL_CLOSED");

    bob.dial(&format!("sip:alice@{}", subject.domain()));
    alice.accept();
    bob.wait_event("CALL_ESTABLISHED");
    alice.wait_event("CALL_ESTABLISHED");
    alice.hang_up();
    bob.wait_event("CALL_CLOSED");
}
