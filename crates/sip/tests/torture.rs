//! RFC 4475 and RFC 5118: the torture messages, file by file.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "torture/table.rs"]
#[allow(dead_code, reason = "the wire tests of other crates read the rest of the table")]
mod table;

use table::Parse;
use tandem_sip::{CSeq, HeaderName, Index, Limits, Message, Method, NameAddr, Reply, Scheme, Uri, Via};

fn bytes(name: &str) -> &'static [u8] {
    table::all().find(|case| case.name == name).unwrap().bytes
}

/// Reads one file and hands it on.
fn with(name: &str, test: impl FnOnce(Message<'_>)) {
    let mut index = Index::new();
    test(Message::parse(bytes(name), &mut index, &Limits::default()).unwrap());
}

fn values<'a>(message: &Message<'a>, name: HeaderName) -> Vec<&'a [u8]> {
    message.values(name).map(|value| value.bytes).collect()
}

#[test]
fn every_torture_message_is_read_or_refused_as_its_section_says() {
    let mut wrong = Vec::new();
    let limits = Limits::default();
    for case in table::all() {
        let mut index = Index::new();
        let found = match Message::parse(case.bytes, &mut index, &limits) {
            Ok(message) => match message.defect() {
                None => Parse::Fine,
                Some(defect) => Parse::Defect(defect.label(), defect.status()),
            },
            Err(error) => Parse::Refused(error.label()),
        };
        if found != case.parse {
            wrong.push(format!("{} ({}): {found:?}, not {:?}", case.name, case.section, case.parse));
        }
    }
    assert_eq!(table::RFC_4475.len() + table::RFC_5118.len(), 61);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A 400 to a message that lacks nearly everything must still be one that its sender can match.
#[test]
fn every_answerable_torture_request_gets_a_readable_answer() {
    for case in table::all() {
        let mut index = Index::new();
        let Ok(request) = Message::parse(case.bytes, &mut index, &Limits::default()) else { continue };
        if !request.is_request() {
            continue;
        }
        let mut answer = Vec::new();
        Reply::new(400, "192.0.2.77:5077".parse().unwrap(), b"t").write(&request, &mut answer);
        let mut index = Index::new();
        let answer = Message::parse(&answer, &mut index, &Limits::default()).unwrap();
        assert_eq!(answer.status(), 400, "{}", case.name);
        assert_eq!(answer.via().host, request.via().host, "{}", case.name);
        assert_eq!(answer.via().branch, request.via().branch, "{}", case.name);
        assert_eq!(answer.cseq(), request.cseq(), "{}", case.name);
        assert_eq!(answer.call_id(), request.call_id(), "{}", case.name);
    }
}

#[test]
fn wsinv_is_read_through_its_folds_and_quotes() {
    with("wsinv", |m| {
        assert_eq!(m.request_uri(), b"sip:vivekg@chair-dnrc.example.com;unknownparam");
        assert_eq!(m.to().unwrap().tag(), Some(&b"1918181833n"[..]));
        let from = m.from().unwrap();
        assert_eq!((from.display, from.tag()), (&br#""J Rosenberg \\\"""#[..], Some(&b"98asjd8"[..])));
        assert_eq!(m.number(HeaderName::MaxForwards), Ok(Some(68)));
        assert_eq!((m.cseq().number, m.cseq().method), (9, Method::Invite));
        let vias: Vec<Via<'_>> =
            values(&m, HeaderName::Via).into_iter().map(|v| Via::parse(v).unwrap()).collect();
        let read: Vec<_> = vias.iter().map(|v| (v.transport_token, v.host, v.branch.unwrap())).collect();
        assert_eq!(
            read,
            [
                (&b"UDP"[..], &b"192.0.2.2"[..], &b"390skdjuw"[..]),
                (b"TCP", b"spindle.example.com", b"z9hG4bK9ikj8"),
                (b"UDP", b"192.168.255.111", b"z9hG4bK30239"),
            ]
        );
        assert_eq!(m.header(HeaderName::Subject), Some(&b""[..]));
        let route = NameAddr::parse(values(&m, HeaderName::Route)[0]).unwrap();
        assert!(route.uri().unwrap().is_loose());
        let contact = NameAddr::parse(values(&m, HeaderName::Contact)[0]).unwrap();
        assert_eq!(contact.param(b"q").unwrap().value, Some(&b"0.33"[..]));
        assert_eq!(contact.param(b"secondparam").unwrap().value, None);
        assert_eq!(m.body().len(), 150);
    });
}

#[test]
fn intmeth_has_every_odd_character_the_grammar_allows() {
    with("intmeth", |m| {
        assert_eq!(m.method(), Method::Other);
        assert_eq!(m.method_token(), b"!interesting-Method0123456789_*+`.%indeed'~");
        let uri = Uri::parse(m.request_uri()).unwrap();
        assert_eq!(uri.user, Some(&b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"[..]));
        assert_eq!(uri.password, Some(&b"&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"[..]));
        assert_eq!(m.to().unwrap().display, b"\"BEL:\\\x07 NUL:\\\x00 DEL:\\\x7F\"");
        let from = m.from().unwrap();
        assert_eq!(from.display, b"token1~` token2'+_ token3*%!.-");
        assert_eq!(from.tag(), Some(&b"_token~1'+`*%!-."[..]));
        assert_eq!(m.via().unique_branch(), Some(&b"z9hG4bK-.!%66*_+`'~"[..]));
    });
}

#[test]
fn escapes_mean_characters_in_uris_and_nothing_in_tokens() {
    with("esc01", |m| {
        let uri = Uri::parse(m.request_uri()).unwrap();
        assert_eq!(
            (uri.user, uri.host),
            (Some(&b"sips%3Auser%40example.com"[..]), &b"example.net"[..]),
            "no sips URI inside the user part"
        );
        let to = m.to().unwrap().uri().unwrap();
        assert!(to.is_equal(&Uri::parse(b"sip:user@example.com").unwrap()));
        let contact = NameAddr::parse(values(&m, HeaderName::Contact)[0]).unwrap();
        assert!(contact.uri().is_some());
    });
    with("escnull", |m| {
        let contacts: Vec<_> = values(&m, HeaderName::Contact)
            .into_iter()
            .map(|c| NameAddr::parse(c).unwrap().uri().unwrap())
            .collect();
        assert_eq!(contacts.len(), 2);
        assert!(!contacts[0].is_equal(&contacts[1]), "one NUL is not two");
    });
    with("esc02", |m| {
        assert_eq!(m.method(), Method::Other, "RE%47IST%45R is no REGISTER");
        assert_eq!(m.values(HeaderName::Contact).count(), 2, "C%6Fntact is no Contact");
    });
}

#[test]
fn what_follows_the_body_is_no_part_of_the_message() {
    with("dblreq", |m| {
        assert_eq!(m.method(), Method::Register);
        assert_eq!(m.body(), b"");
        assert_eq!(m.bytes().len(), 300);
    });
}

#[test]
fn long_and_repeated_fields_are_all_there() {
    with("longreq", |m| {
        assert_eq!(m.values(HeaderName::Via).count(), 34);
        assert_eq!(m.from().unwrap().tag().unwrap().len(), 155);
        assert_eq!(m.via().host, b"sip33.example.com");
    });
    with("semiuri", |m| {
        let uri = Uri::parse(m.request_uri()).unwrap();
        assert_eq!(uri.user, Some(&b"user;par=u%40example.net"[..]));
        assert_eq!((uri.host, uri.params().count()), (&b"example.com"[..], 0));
        assert_eq!(m.values(HeaderName::Accept).count(), 6);
    });
    with("transports", |m| {
        let known: Vec<bool> = values(&m, HeaderName::Via)
            .into_iter()
            .map(|v| Via::parse(v).unwrap().transport().is_some())
            .collect();
        assert_eq!(known, [true, false, true, false, true]);
    });
    with("mpart01", |m| assert_eq!((m.body().len(), m.body().contains(&0)), (553, true)));
}

#[test]
fn reason_phrases_may_be_anything_or_nothing() {
    with("unreason", |m| {
        assert_eq!(m.status(), 200);
        assert!(core::str::from_utf8(m.reason()).unwrap().starts_with("= 2**3 * 5**2"));
    });
    with("noreason", |m| assert_eq!((m.status(), m.reason()), (100, &b""[..])));
}

/// What the parser passes on because only the element that uses the value can judge it.
#[test]
fn broken_values_are_no_values() {
    with("quotbal", |m| assert!(m.to().is_none()));
    with("badaspec", |m| assert!(m.to().unwrap().uri().is_none()));
    with("baddn", |m| assert!(m.to().is_none() && m.from().is_none()));
    with("regbadct", |m| assert!(NameAddr::parse(values(&m, HeaderName::Contact)[0]).is_none()));
    with("escruri", |m| {
        let uri = Uri::parse(m.request_uri()).unwrap();
        assert_eq!(uri.headers(), b"Route=%3Csip:example.com%3E");
    });
    with("scalar02", |m| {
        assert!(CSeq::parse(m.header(HeaderName::CSeq).unwrap()).is_none());
        assert!(m.number(HeaderName::Expires).is_err());
        assert_eq!(m.number(HeaderName::MaxForwards), Ok(Some(300)));
    });
    with("scalarlg", |m| assert!(m.number(HeaderName::RetryAfter).is_err()));
    with("ipv6-bad", |m| assert!(Uri::parse(m.request_uri()).is_none()));
}

#[test]
fn what_the_element_judges_is_there_to_be_judged() {
    with("badbranch", |m| {
        assert_eq!((m.via().branch, m.via().unique_branch()), (Some(&b"z9hG4bK"[..]), None))
    });
    with("unkscm", |m| assert_eq!(Uri::parse(m.request_uri()).unwrap().scheme, Scheme::Other));
    with("novelsc", |m| assert_eq!(Uri::parse(m.request_uri()).unwrap().scheme, Scheme::Other));
    with("unksm2", |m| {
        assert_eq!(m.to().unwrap().uri().unwrap().scheme, Scheme::Other);
        assert_eq!(m.from().unwrap().uri().unwrap().scheme, Scheme::Other);
        let contact = NameAddr::parse(values(&m, HeaderName::Contact)[0]).unwrap();
        assert_eq!(contact.uri().unwrap().scheme, Scheme::Other);
    });
    with("bext01", |m| {
        assert_eq!(
            values(&m, HeaderName::ProxyRequire),
            [&b"noProxiesSupportThis"[..], b"norDoAnyProxiesSupportThis"]
        );
    });
    with("zeromf", |m| assert_eq!(m.number(HeaderName::MaxForwards), Ok(Some(0))));
    with("cparam01", |m| {
        let contact = NameAddr::parse(values(&m, HeaderName::Contact)[0]).unwrap();
        assert_eq!(
            (contact.uri_bytes, contact.params().count()),
            (&b"sip:+19725552222@gw1.example.net"[..], 1)
        );
    });
    with("cparam02", |m| {
        let contact = NameAddr::parse(values(&m, HeaderName::Contact)[0]).unwrap();
        assert_eq!((contact.uri().unwrap().params().count(), contact.params().count()), (1, 0));
    });
    with("regescrt", |m| {
        let contact = NameAddr::parse(values(&m, HeaderName::Contact)[0]).unwrap();
        assert_eq!(contact.uri().unwrap().headers(), b"Route=%3Csip:sip.example.com%3E");
    });
    with("inv2543", |m| {
        assert_eq!((m.via().branch, m.header(HeaderName::MaxForwards)), (None, None));
        assert_eq!(m.from().unwrap().tag(), None);
        assert_eq!(m.body().len(), 105, "without a Content-Length the datagram's end is the body's");
    });
}

/// RFC 5118.
#[test]
fn ipv6_references_are_read_with_all_their_colons() {
    let ip = |text: &str| Some(text.parse().unwrap());
    with("ipv6-good", |m| {
        assert_eq!(Uri::parse(m.request_uri()).unwrap().ip(), ip("2001:db8::10"));
        assert_eq!(tandem_sip::host_ip(m.via().host), ip("2001:db8::9:1"));
    });
    with("port-ambiguous", |m| {
        let uri = Uri::parse(m.request_uri()).unwrap();
        assert_eq!((uri.ip(), uri.port), (ip("2001:db8::10:5070"), None));
    });
    with("port-unambiguous", |m| {
        let uri = Uri::parse(m.request_uri()).unwrap();
        assert_eq!((uri.ip(), uri.port), (ip("2001:db8::10"), Some(5070)));
    });
    with("via-received-param-with-delim", |m| assert_eq!(m.via().received_ip(), ip("2001:db8::9:255")));
    with("via-received-param-no-delim", |m| {
        assert_eq!(m.via().received_ip(), ip("2001:db8::9:255"));
        assert_eq!(m.via().branch, Some(&b"z9hG4bKas3"[..]));
    });
    with("mult-ip-in-header", |m| {
        let vias: Vec<_> = values(&m, HeaderName::Via).into_iter().map(|v| Via::parse(v).unwrap()).collect();
        assert_eq!((vias[0].port, vias[2].received_ip()), (Some(6050), ip("192.0.2.200")));
    });
    with("ipv4-mapped-ipv6", |m| {
        assert_eq!(tandem_sip::host_ip(m.via().host), ip("::ffff:192.0.2.10"));
        assert_eq!(m.via().port, Some(19823));
    });
    for name in ["ipv6-bug-abnf-3-colons", "ipv6-correct-abnf-2-colons"] {
        with(name, |m| {
            assert_eq!(Uri::parse(m.request_uri()).unwrap().ip(), ip("2001:db8::192.0.2.1"), "{name}");
        });
    }
}
