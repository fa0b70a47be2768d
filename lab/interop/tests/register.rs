//! SIPp, sipsak and linphone register with digest.

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

/// RFC 8760: of two challenges the one with SHA-256 stands first, and is answered.
#[test]
fn linphone_registers_with_sha_256() {
    let lab = Lab::new("linphone");
    let subject = Subject::start(&lab, &Setup { sha_256: true, ..Setup::default() });
    // On any free port: it listens on all addresses, so that one which the laboratory keeps for itself would not do.
    let config = format!(
        "[sip]\nsip_port=-1\nsip_tcp_port=0\nsip_tls_port=0\n[proxy_0]\nreg_proxy=<sip:{};transport=udp>\n\
         reg_identity=sip:alice@{domain}\nreg_expires=600\nreg_sendregister=1\n[auth_info_0]\nusername=alice\n\
         passwd={}\nrealm={domain}\ndomain={domain}\n",
        subject.addr(),
        subject.password("alice"),
        domain = subject.domain(),
    );
    lab.write("linphone/config", &config);
    // Where it keeps what else it knows.
    lab.write("linphone/home/.local/share/linphone/empty", "");
    let dir = lab.dir().join("linphone");
    let trace = dir.join("trace");
    let mut running = Running::start(&dir, "linphonec", "sh", |command| {
        // It ends with its input.
        command.args(["-c", "sleep 60 | linphonec -c config -d 6 -l trace"]).env("HOME", dir.join("home"));
    })
    .with_log(trace.clone());
    let told = || std::fs::read_to_string(&trace).unwrap_or_default();
    running.wait_until("it is registered", Duration::from_secs(40), |_| told().contains("SIP/2.0 200 "));
    let is_strong = |line: &str| line.starts_with("Authorization:") && line.contains("algorithm=SHA-256");
    assert!(subject.is_kamailio() || told().lines().any(is_strong), "{}", told());
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
