//! URIs: the grammar of RFC 3261 §25.1 at its edges, and comparison by §19.1.4 and RFC 3966 §4.

use tandem_sip::{NameAddr, Scheme, Uri};

fn uri(text: &str) -> Uri<'_> {
    Uri::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is refused"))
}

/// Both ways, as equality is symmetric.
fn equal(a: &str, b: &str) -> bool {
    let forth = uri(a).is_equal(&uri(b));
    assert_eq!(forth, uri(b).is_equal(&uri(a)), "{a} and {b}");
    forth
}

/// The examples of RFC 3261 §19.1.4.
#[test]
fn the_rfcs_pairs_of_uris_compare_as_it_says() {
    for (a, b) in [
        ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtlanTa.CoM;Transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
        (
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        ),
        (
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        ),
    ] {
        assert!(equal(a, b), "{a} = {b}");
    }
    for (a, b) in [
        ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
        ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        // Not transitive: both equal the URI without the parameter.
        ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
    ] {
        assert!(!equal(a, b), "{a} ≠ {b}");
    }
}

#[test]
fn equality_looks_at_each_part_by_its_own_rule() {
    for (a, b) in [
        ("sip:a@[2001:db8::1]", "sip:a@[2001:DB8:0:0::1]"),
        ("sip:a:pw@b", "sip:a:p%77@b"),
        ("sip:a@b;x=%41", "sip:a@b;X=a"),
    ] {
        assert!(equal(a, b), "{a} = {b}");
    }
    for (a, b) in [
        ("sip:a@b", "sips:a@b"),
        ("sip:a@b", "sip:b"),
        ("sip:a:pw@b", "sip:a@b"),
        ("sip:a@b;user=ip", "sip:a@b"),
        ("sip:a@b;ttl=1", "sip:a@b"),
        ("sip:a@b;method=INVITE", "sip:a@b"),
        ("sip:a@b;maddr=192.0.2.1", "sip:a@b"),
        // An escaped reserved character is another than the character itself.
        ("sip:a%3Bx@b", "sip:a;x@b"),
        ("sip:a@b?x=1", "sip:a@b?x=1&x=1"),
        ("sip:a@b?x=1&x=1", "sip:a@b?x=1&y=2"),
    ] {
        assert!(!equal(a, b), "{a} ≠ {b}");
    }
}

/// RFC 3966 §4.
#[test]
fn tel_uris_compare_by_number_and_parameters() {
    for (a, b) in [
        ("tel:+1-201-555-0123", "tel:+12015550123"),
        ("TEL:+1(201)555.0123;ext=1-2", "tel:+12015550123;EXT=12"),
        ("tel:7042;phone-context=Example.com", "tel:7042;phone-context=example.com"),
        ("tel:7042;a=1;b=2", "tel:7042;b=2;a=1"),
    ] {
        assert!(equal(a, b), "{a} = {b}");
    }
    for (a, b) in [
        ("tel:+12015550123", "tel:12015550123"),
        ("tel:7042;phone-context=a.com", "tel:7042;phone-context=b.com"),
        ("tel:7042;phone-context=a.com", "tel:7042"),
    ] {
        assert!(!equal(a, b), "{a} ≠ {b}");
    }
}

#[test]
fn each_part_of_a_uri_is_found() {
    let u = uri("sips:a%20b;x=1?q:p@[::1]:5061;lr=on;transport=TLS?Subject=a%20b&x=");
    assert_eq!((u.scheme, u.user, u.password), (Scheme::Sips, Some(&b"a%20b;x=1?q"[..]), Some(&b"p"[..])));
    assert_eq!((u.host, u.port, u.is_loose()), (&b"[::1]"[..], Some(5061), true));
    assert_eq!(u.headers(), b"Subject=a%20b&x=");
    assert_eq!(u.transport(), Ok(Some(tandem_sip::Transport::Tls)));
    assert_eq!(uri("sip:user;param=x@host").user, Some(&b"user;param=x"[..]));
    let u = uri("sip:a@b;method=INVITE?x=y");
    assert_eq!(u.param(b"METHOD").unwrap().value, Some(&b"INVITE"[..]));
    assert_eq!(uri("sip:a@b;transport=sctp").transport(), Err(&b"sctp"[..]));
    assert_eq!(uri("sip:b;lr").user, None);
    assert_eq!(uri("tel:+1-201;ext=5").param(b"ext").unwrap().value, Some(&b"5"[..]));
    assert_eq!(uri("urn:service:sos").scheme, Scheme::Other);
}

#[test]
fn what_is_no_uri_is_refused() {
    for text in [
        "",
        ":",
        "sip",
        "sip:",
        "sip:@b",
        "sip:a@",
        "sip:a@b:",
        "sip:a@b:0",
        "sip:a@b:65536",
        "sip:a@b:5060x",
        "sip:a@b@c",
        "sip:a b@c",
        "sip:a@b c",
        "sip:a%2@b",
        "sip:a%zz@b",
        "sip:a@%62",
        "sip:a@[::1",
        "sip:a@::1",
        "sip:a@[]",
        "sip:a@[::1]x",
        "sip:a@[192.0.2.1]",
        "sip:a@b;",
        "sip:a@b;;lr",
        "sip:a@b;=x",
        "sip:a@b;x=y z",
        "sip:a@b?",
        "sip:a@b?x",
        "sip:a@b?=x",
        "sip:a:p;w@b",
        "sip:a@b;x=\"y\"",
        "1tel:5",
        "tel:",
        "te l:5",
        "http://a b",
        "sip:\u{e9}@b",
        "sip:a@b;x=<y>",
        "<sip:a@b>",
        "sip:[::1]:5060:1",
        "sip:a@[2001:db8:::1]",
    ] {
        assert!(Uri::parse(text.as_bytes()).is_none(), "{text} is taken");
    }
    for port in ["1", "5060", "05060", "65535"] {
        assert!(Uri::parse(format!("sip:a@b:{port}").as_bytes()).is_some(), "{port}");
    }
}

/// RFC 3261 §20.10, §25.1 `name-addr`.
#[test]
fn a_name_addr_keeps_the_uris_parameters_apart_from_its_own() {
    let read = |text: &'static str| {
        NameAddr::parse(text.as_bytes()).map(|n| {
            let own: Vec<_> = n.params().map(|p| String::from_utf8_lossy(p.name).into_owned()).collect();
            (n.display, n.uri_bytes, own.join(","))
        })
    };
    let is = |display: &'static str, uri: &'static str, own: &str| {
        Some((display.as_bytes(), uri.as_bytes(), own.to_owned()))
    };
    assert_eq!(read("<sip:a@b;lr?x=y>;tag=1"), is("", "sip:a@b;lr?x=y", "tag"));
    assert_eq!(read("sip:a@b;tag=1;lr"), is("", "sip:a@b", "tag,lr"));
    assert_eq!(read("sip:a@b ; tag = 1 ; q=0.5"), is("", "sip:a@b", "tag,q"));
    assert_eq!(read("Bob\r\n <sip:a@b>"), is("Bob", "sip:a@b", ""));
    assert_eq!(read("A. B. C<sip:a@b>"), is("A. B. C", "sip:a@b", ""));
    assert_eq!(read("\"a, <b>; \\\"c\\\\\"<sip:a@b>"), is("\"a, <b>; \\\"c\\\\\"", "sip:a@b", ""));
    assert_eq!(read("\"\u{416}\" <sip:a@b>;x=\"; tag=2\""), is("\"\u{416}\"", "sip:a@b", "x"));
    assert_eq!(read("\"\" <sip:a@b>"), is("\"\"", "sip:a@b", ""));
    assert_eq!(read("<sip:a@b>;tag=a/b+c=="), is("", "sip:a@b", "tag"));
    assert_eq!(read("\u{416} x <sip:a@b>"), is("\u{416} x", "sip:a@b", ""), "phones leave the quotes out");
    assert_eq!(read("*"), is("", "*", ""), "a REGISTER's wildcard, which is no URI");
    assert!(NameAddr::parse(b"*").unwrap().uri().is_none());
    for bad in [
        "",
        "<>",
        "<sip:a@b",
        "sip:a@b>",
        "\"a <sip:a@b>",
        "\"a\"",
        "\"a\" sip:a@b",
        "sip:a@b?x=y",
        "<sip:a@b> x",
        "<sip:a@b>;",
        "<sip:a@b>;;tag=1",
        "<sip:a@b>;=1",
        "<sip:a@b>;tag=a b",
        "<sip:a@b>;tag=\"a",
        "<sip:a@b>, <sip:c@d>",
        "sip:a@b,sip:c@d",
        "a,b <sip:a@b>",
        "<sip:a@b>;x=\u{416}",
        "sip:a;x=1@b",
    ] {
        assert!(NameAddr::parse(bad.as_bytes()).is_none(), "{bad} is taken");
    }
}
