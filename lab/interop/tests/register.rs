//! SIPp and sipsak register with digest.

use std::time::Duration;
use tandem_interop::{Lab, Running, Setup, Subject};

#[test]
fn sipp_registers_refreshes_and_removes_a_binding_with_digest() {
    let lab = Lab::new("register");
    let subject = Subject::start(&lab, &Setup::default());
    for expires in ["600", "60", "0"] {
        subject
            .sipp(&lab, "register", "alice")
            .key("contact", "sip:alice@127.0.0.1:9")
            .key("expires", expires)
            .run();
    }
}

#[test]
fn a_wrong_password_is_challenged_again() {
    let lab = Lab::new("wrong-password");
    let subject = Subject::start(&lab, &Setup::default());
    let sipp = subject.sipp(&lab, "register_refused", "alice").user("alice", "not-hers");
    sipp.key("contact", "sip:alice@127.0.0.1:9").key("expires", "600").run();
}

#[test]
fn a_binding_is_registered_over_ipv6() {
    let lab = Lab::new("register-ipv6");
    let subject = Subject::start(&lab, &Setup { ipv6: true, ..Setup::default() });
    subject.register(&lab, "alice", "sip:alice@[::1]:9");
}

fn sipsak(lab: &Lab, subject: &Subject, args: &[&str]) {
    let proxy = subject.addr().to_string();
    let mut running = Running::start(lab.dir(), "sipsak", "sipsak", |command| {
        command.args(args).args(["-vv", "-p", &proxy]);
    });
    running.expect_success(Duration::from_secs(20));
}

#[test]
fn sipsak_gets_a_200_to_options() {
    let lab = Lab::new("sipsak-options");
    let subject = Subject::start(&lab, &Setup::default());
    let target = format!("sip:{}", subject.domain());
    sipsak(&lab, &subject, &["-s", &target]);
}

#[test]
fn sipsak_registers_with_digest() {
    let lab = Lab::new("sipsak-register");
    let subject = Subject::start(&lab, &Setup::default());
    let uri = format!("sip:alice@{}", subject.domain());
    sipsak(
        &lab,
        &subject,
        &[
            "-U",
            "-C",
            "sip:alice@127.0.0.1:9",
            "-x",
            "60",
            "-a",
            subject.password("alice"),
            "-u",
            "alice",
            "-s",
            &uri,
        ],
    );
}
