//! RFC 3261 §22 with RFC 7616 and 8760, from challenge to acceptance, and what must not be accepted.

use crate::common::{
    ALICE, Ask, BOB, Bench, PASSWORD, Sent, all, credentials, header, invite, requests, status, statuses,
};
use tandem_sip::HeaderName;

const CONTACT: &str = "<sip:bob@127.0.0.1:5064>";

/// `ask` with credentials for the challenge that its first copy gets.
fn answered(bench: &mut Bench, ask: &Ask, user: &str, password: &str) -> (String, Ask) {
    let challenged = bench.send(ALICE, &ask.text()).pop().unwrap().1;
    let line = credentials(&challenged, &ask.method, &ask.uri, user, password, 1);
    let via = format!("{}-2", ask.via);
    (challenged, ask.clone().cseq(ask.cseq + 1).via(&via).with(&line))
}

fn register(user: &str, contact: &str) -> Ask {
    let ask = crate::common::register(user, contact);
    let via = ask.via.replace(BOB, ALICE);
    ask.via(&via)
}

fn registered(bench: &mut Bench, user: &str, contact: &str) {
    let (_, ask) = answered(bench, &register(user, contact), user, PASSWORD);
    let sent = bench.send(ALICE, &ask.text());
    assert_eq!(statuses(&sent, ALICE), [200], "{sent:?}");
}

#[test]
fn a_register_is_challenged_sha_256_first_and_accepted_with_the_password() {
    let mut bench = Bench::closed(|_| {});
    let (challenged, ask) = answered(&mut bench, &register("bob", CONTACT), "bob", PASSWORD);
    let lines = all(&challenged, HeaderName::WwwAuthenticate);
    assert!(status(&challenged) == Some(401) && lines.len() == 2, "{challenged}");
    assert!(lines[0].contains("SHA-256") && lines[1].contains("MD5"), "{lines:?}");
    assert!(bench.contacts("bob").is_empty());
    let sent = bench.send(ALICE, &ask.text());
    assert_eq!(statuses(&sent, ALICE), [200]);
    assert_eq!(bench.contacts("bob"), ["sip:bob@127.0.0.1:5064"]);
    assert_eq!(bench.send(ALICE, &ask.text()), sent, "a retransmission is no replay");
    bench.drain();
}

#[test]
fn an_invite_is_challenged_and_its_credentials_go_no_further() {
    let mut bench = Bench::closed(|_| {});
    registered(&mut bench, "bob", CONTACT);
    let other = "Proxy-Authorization: Digest username=\"a\", realm=\"next.example\", nonce=\"n\", uri=\"sip:x\", response=\"0123456789abcdef0123456789abcdef\"\r\n";
    let (challenged, ask) = answered(&mut bench, &invite().with(other), "alice", PASSWORD);
    assert_eq!(status(&challenged), Some(407));
    let leg = requests(&bench.send(ALICE, &ask.text()));
    assert_eq!((leg.len(), &leg[0].0[..]), (1, BOB));
    let left = all(&leg[0].1, HeaderName::ProxyAuthorization);
    assert!(left.len() == 1 && left[0].contains("next.example"), "§22.3: {left:?}");
}

/// THREATS 7: what is sent in place of good credentials, as (find, replace) in them.
const SPOILT: [(&str, &str); 19] = [
    ("username=\"alice\"", "username=\"bob\""),
    ("username=\"alice\"", "username=\"\""),
    ("username=\"alice\"", "username=\"nobody\""),
    ("username=\"alice\", ", ""),
    ("realm=\"localhost\"", "realm=\"elsewhere\""),
    ("realm=\"localhost\"", "realm=\"\""),
    ("nonce=\"", "nonce=\"0"),
    ("uri=\"sip:bob@localhost\"", "uri=\"sip:bob@elsewhere\""),
    ("uri=\"sip:bob@localhost\"", "uri=\"\""),
    ("response=\"", "response=\"0"),
    ("response=\"", "response=\"\", x=\""),
    ("algorithm=SHA-256", "algorithm=MD5"),
    ("algorithm=SHA-256", "algorithm=SHA-512"),
    ("qop=auth", "qop=auth-int"),
    ("qop=auth, ", ""),
    ("nc=00000001", "nc=00000002"),
    ("nc=00000001", "nc=0"),
    ("cnonce=\"0a4f113b\"", "cnonce=\"0a4f113c\""),
    ("Digest ", "Basic "),
];

#[test]
fn spoilt_credentials_are_refused_for_every_user_and_nothing_leaves() {
    for (find, replace) in SPOILT {
        let mut bench = Bench::closed(|_| {});
        registered(&mut bench, "bob", CONTACT);
        let (_, good) = answered(&mut bench, &invite(), "alice", PASSWORD);
        assert!(good.extra.contains(find), "{find} in {}", good.extra);
        let spoilt = Ask { extra: good.extra.replacen(find, replace, 1), ..good.clone() };
        let sent = bench.send(ALICE, &spoilt.text());
        let statuses = statuses(&sent, ALICE);
        assert!(matches!(statuses[..], [401 | 403 | 407]), "{find} as {replace}: {statuses:?}");
        assert!(requests(&sent).is_empty());
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_told_the_same() {
    let mut bench = Bench::closed(|_| {});
    let mut told = Vec::new();
    for (user, password) in [("alice", "wrong"), ("zelda", "wrong")] {
        let ask = invite().from(&format!("<sip:{user}@localhost>;tag=a")).call_id(user);
        let (_, ask) = answered(&mut bench, &ask, user, password);
        let (_, text) = bench.send(ALICE, &ask.text()).pop().unwrap();
        let shape: Vec<String> =
            text.lines().map(|line| line.split([':', ' ']).take(2).collect::<String>()).collect();
        told.push((status(&text), text.len() - 2 * user.len(), shape.join("|").replace(user, "")));
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn credentials_are_good_for_one_request() {
    let mut bench = Bench::closed(|_| {});
    registered(&mut bench, "bob", CONTACT);
    let (challenged, ask) = answered(&mut bench, &invite(), "alice", PASSWORD);
    assert_eq!(requests(&bench.send(ALICE, &ask.text())).len(), 1);
    let replay = Ask {
        call_id: "stolen".into(),
        via: format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-replay"),
        ..ask.clone()
    };
    let sent = bench.send(ALICE, &replay.text());
    assert_eq!((statuses(&sent, ALICE), requests(&sent).len()), (vec![407], 0));
    assert!(all(&sent[0].1, HeaderName::ProxyAuthenticate)[0].contains("stale=TRUE"), "{sent:?}");
    let line = credentials(&challenged, "INVITE", "sip:bob@localhost", "alice", PASSWORD, 2);
    let next =
        invite().call_id("next").cseq(9).via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK-next")).with(&line);
    assert_eq!(
        requests(&bench.send(ALICE, &next.text())).len(),
        1,
        "the nonce serves on with a higher count"
    );
}

#[test]
fn a_nonce_grows_old_and_the_phone_is_told_that_its_password_was_right() {
    let mut bench = Bench::closed(|_| {});
    let (_, ask) = answered(&mut bench, &register("bob", CONTACT), "bob", PASSWORD);
    bench.pass(3600);
    let (_, text) = bench.send(ALICE, &ask.text()).pop().unwrap();
    assert_eq!(status(&text), Some(401));
    assert!(header(&text, HeaderName::WwwAuthenticate).contains("stale=TRUE"), "{text}");
}

#[test]
fn nobody_registers_or_calls_in_anothers_name() {
    let mut bench = Bench::closed(|_| {});
    registered(&mut bench, "bob", CONTACT);
    let third = [
        register("bob", "<sip:thief@127.0.0.1:5099>").call_id("third"),
        register("bob", "*").call_id("third").with("Expires: 0\r\n"),
        invite().from("<sip:bob@localhost>;tag=a"),
    ];
    for ask in third {
        let (_, ask) = answered(&mut bench, &ask, "alice", PASSWORD);
        let sent: Vec<Sent> = bench.send(ALICE, &ask.text());
        assert_eq!((statuses(&sent, ALICE), requests(&sent).len()), (vec![403], 0), "{}", ask.text());
        assert_eq!(bench.contacts("bob"), ["sip:bob@127.0.0.1:5064"]);
    }
}

#[test]
fn a_star_is_alone_with_expires_0_and_an_old_cseq_changes_nothing() {
    let mut bench = Bench::open(|_| {});
    bench.bind("bob", &[CONTACT]);
    let star = |contact: &str, expires: &str| register("bob", contact).call_id("star").with(expires);
    for ask in [
        star("*", ""),
        star("*", "Expires: 60\r\n"),
        star("*, <sip:bob@127.0.0.1:5064>", "Expires: 0\r\n"),
        star("*", "Contact: <sip:b@127.0.0.1:1>\r\nExpires: 0\r\n"),
        star("*;expires=0", ""),
    ] {
        let sent = bench.send(ALICE, &ask.text());
        assert_eq!(statuses(&sent, ALICE), [400], "{}", ask.text());
        assert_eq!(bench.contacts("bob").len(), 1);
    }
    let moved =
        |cseq| register("bob", "<sip:bob@127.0.0.1:5064>;expires=0").call_id("bind-bob-0").cseq(cseq).text();
    let sent = bench.send(ALICE, &moved(0));
    assert!(statuses(&sent, ALICE)[0] >= 400, "{sent:?}");
    assert_eq!(bench.contacts("bob").len(), 1, "RFC 3261 §10.3 step 7");
    assert_eq!(statuses(&bench.send(ALICE, &star("*", "Expires: 0\r\n").text()), ALICE), [200]);
    assert!(bench.contacts("bob").is_empty());
}
