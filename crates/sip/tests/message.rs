//! One message read, edited and answered.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use tandem_sip::{Edits, HeaderName, Index, Limits, Message, Method, Reply};

const INVITE: &[u8] = b"INVITE sip:bob@biloxi.com SIP/2.0\r\n\
Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8;rport , SIP/2.0/TCP [2001:db8::1]:5062;branch=z9hG4bK2\r\n\
v : SIP / 2.0 / UDP first.example.com: 4000;ttl=16 ;maddr=224.2.0.1 ;branch=z9hG4bKa7c6a8dlze.1\r\n\
Max-Forwards: 70\r\n\
To: \"Bob, \\\"the\\\" builder\" <sip:bob@biloxi.com>\r\n\
From: Alice\r\n <sip:alice@atlanta.com>;tag=1928301774\r\n\
Call-ID: a84b4c76e66710@pc33.atlanta.com\r\n\
CSeq: 314159 INVITE\r\n\
Route: <sip:p1.example.com;lr>, <sip:p2.example.com;lr>\r\n\
Route: <sip:p3.example.com;lr>\r\n\
l: 4\r\n\r\nv=0\r";

fn parsed(test: impl FnOnce(&Message<'_>)) {
    let mut index = Index::new();
    let message = Message::parse(INVITE, &mut index, &Limits::default()).unwrap();
    assert_eq!(message.defect(), None);
    test(&message);
}

#[test]
fn a_message_is_read_where_it_lies() {
    parsed(|m| {
        assert_eq!((m.method(), m.request_uri()), (Method::Invite, &b"sip:bob@biloxi.com"[..]));
        assert_eq!(m.values(HeaderName::Via).count(), 3);
        assert_eq!(m.via().unique_branch(), Some(&b"z9hG4bKnashds8"[..]));
        assert_eq!(m.via().rport, Some(None));
        let vias: Vec<_> =
            m.values(HeaderName::Via).map(|v| tandem_sip::Via::parse(v.bytes).unwrap()).collect();
        assert_eq!((vias[1].host, vias[1].port), (&b"[2001:db8::1]"[..], Some(5062)));
        assert_eq!((vias[2].host, vias[2].port), (&b"first.example.com"[..], Some(4000)));
        assert_eq!(m.to().unwrap().uri().unwrap().user, Some(&b"bob"[..]));
        assert_eq!(m.from().unwrap().tag(), Some(&b"1928301774"[..]));
        assert_eq!(m.cseq().number, 314_159);
        assert_eq!(m.values(HeaderName::Route).count(), 3);
        assert_eq!(m.body(), b"v=0\r");
    });
}

#[test]
fn popping_values_spans_lines_and_regular_spelling_comes_out() {
    parsed(|m| {
        let mut edits = Edits::new();
        let mut out = Vec::new();
        edits.pop_values(m, HeaderName::Route, 2);
        edits.pop_values(m, HeaderName::Via, 1);
        edits.set(m, HeaderName::MaxForwards, |out| out.extend_from_slice(b"69"));
        edits.regularise(m);
        edits.write(m, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\r\nVia: SIP/2.0/TCP [2001:db8::1]:5062;branch=z9hG4bK2\r\nv: SIP / 2.0"),
            "{text}"
        );
        assert!(text.contains("\r\nRoute: <sip:p3.example.com;lr>\r\n"), "{text}");
        assert!(!text.contains("p2.example"), "{text}");
        assert!(text.contains("\r\nFrom: Alice <sip:alice"), "{text}");
        assert!(text.contains("Max-Forwards: 69\r\n"), "{text}");
    });
}

#[test]
fn an_answer_carries_received_and_rport_in_the_topmost_via() {
    parsed(|m| {
        let mut out = Vec::new();
        Reply::new(486, "192.0.2.1:5099".parse().unwrap(), b"t1").write(m, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("SIP/2.0 486 Busy Here\r\n"), "{text}");
        assert!(text.contains("branch=z9hG4bKnashds8;received=192.0.2.1;rport=5099 , SIP/2.0/TCP"), "{text}");
        assert!(text.contains("<sip:bob@biloxi.com>;tag=t1\r\n"), "{text}");
    });
}
