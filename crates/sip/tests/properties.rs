//! What must hold of any message: made up, damaged, or random octets.

#![expect(clippy::indexing_slicing, reason = "helpers of tests")]

mod exercise;
#[path = "torture/table.rs"]
#[allow(dead_code, reason = "only the octets of the messages are of use here")]
mod table;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tandem_sip::{Edits, HeaderName, Index, Limits, Message, Span};

/// Octets that a failed case shows as text.
#[derive(Clone)]
struct Octets(Vec<u8>);

impl core::fmt::Debug for Octets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// One header field line with white space wherever the grammar lets it stand.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let known = select(HeaderName::KNOWN).prop_map(|name| name.as_str().to_owned());
    let compact = select(HeaderName::KNOWN).prop_map(|name| {
        name.compact().map_or_else(|| "X-Other".to_owned(), |letter| char::from(letter).to_string())
    });
    let name = prop_oneof![known, compact, "[A-Za-z0-9.!%*_+`'~-]{1,12}"];
    let required = |name: &String| {
        !matches!(
            HeaderName::from_bytes(name.as_bytes()),
            HeaderName::Via | HeaderName::CSeq | HeaderName::CallId | HeaderName::ContentLength
        ) && !HeaderName::from_bytes(name.as_bytes()).is_single()
    };
    let space = select(&["", " ", "\t ", "  "][..]);
    let value = vec(
        prop_oneof!["[ -~]{0,12}", "\\PC{0,4}", Just("\r\n ".to_owned()), Just("\r\n\t".to_owned())],
        0..6,
    );
    (name.prop_filter("a field of its own", required), space.clone(), space, value).prop_map(
        |(name, before, after, value)| format!("{name}{before}:{after}{}\r\n", value.concat()).into_bytes(),
    )
}

/// A request without a defect.
fn request() -> impl Strategy<Value = Octets> {
    let via = select(
        &[
            "Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\n",
            "v : SIP / 2.0 / TCP [::1] : 5061 ;rport\r\n ;branch = z9hG4bK2, SIP/2.0/UDP i\r\n",
            "Via:\r\n ,SIP/2.0/UDP 192.0.2.1;received=1.2.3.4;rport=5 ,,\r\nVIA: SIP/2.0/TLS j\r\n",
        ][..],
    );
    let others = select(
        &["Route: <sip:a;lr>, <sip:b>\r\n", "Route:\r\n <sip:a;lr>\r\n", "Max-Forwards : 7\r\n", ""][..],
    );
    (via, others, vec(line(), 0..8), vec(line(), 0..4), vec(any::<u8>(), 0..40), any::<bool>()).prop_map(
        |(via, others, before, after, body, stated)| {
            let mut bytes = b"INVITE sip:a@b;x=y SIP/2.0\r\n".to_vec();
            bytes.extend(before.concat());
            bytes.extend_from_slice(via.as_bytes());
            bytes.extend_from_slice(
                b"f:<sip:c@d>;tag=1\r\nTo : <sip:a@b>\r\nCall-ID: i@j\r\nCSeq: 1 INVITE\r\n",
            );
            bytes.extend_from_slice(others.as_bytes());
            bytes.extend(after.concat());
            if stated {
                bytes.extend(format!("Content-Length\t: {}\r\n", body.len()).into_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
            bytes.extend(body);
            Octets(bytes)
        },
    )
}

/// A torture message with a few octets changed, dropped or doubled.
fn damaged() -> impl Strategy<Value = Octets> {
    let cases: Vec<&'static [u8]> = table::all().map(|case| case.bytes).collect();
    let octet = prop_oneof![any::<u8>(), select(&b" \t\r\n\0\",;<>:@=?%[]\\\x7f\xff/*"[..])];
    (select(cases), vec((any::<prop::sample::Index>(), octet, 0..4_u8), 0..8)).prop_map(|(bytes, changes)| {
        let mut bytes = bytes.to_vec();
        for (at, octet, change) in changes {
            let at = at.index(bytes.len());
            match change {
                0 => bytes[at] = octet,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, octet),
                _ => {
                    let end = (at + usize::from(octet)).min(bytes.len());
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        Octets(bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_good_message_survives_parse_write_parse(Octets(bytes) in request()) {
        let mut index = Index::new();
        let message = Message::parse(&bytes, &mut index, &Limits::default()).unwrap();
        prop_assert_eq!(message.defect(), None);
        exercise::message(&bytes);
    }

    #[test]
    fn a_damaged_message_harms_nobody(Octets(bytes) in damaged()) {
        exercise::message(&bytes);
        exercise::frame(&bytes);
    }

    #[test]
    fn random_octets_harm_nobody(bytes in vec(any::<u8>(), 0..200), text in "[ -~]{0,40}") {
        exercise::message(&bytes);
        for bytes in [&bytes[..], text.as_bytes()] {
            exercise::via(bytes);
            exercise::name_addr(bytes);
            exercise::uri(bytes);
            exercise::uri(&[b"sip:", bytes].concat());
            exercise::uri(&[b"sip:a@b;", bytes].concat());
            exercise::via(&[b"SIP/2.0/UDP ", bytes].concat());
            exercise::via(&[b"SIP/2.0/UDP a;branch=", bytes].concat());
            exercise::name_addr(&[b"<sip:a@b>;", bytes].concat());
        }
    }

    /// The same edits made by hand on a list of octets, in any order of asking.
    #[test]
    fn edits_do_what_a_copy_edited_octet_by_octet_would(
        Octets(bytes) in request(),
        marks in vec((any::<prop::sample::Index>(), "[a-z]{0,5}"), 0..12),
        order in any::<u64>(),
    ) {
        let mut index = Index::new();
        let message = Message::parse(&bytes, &mut index, &Limits::default()).unwrap();
        let bytes = message.bytes();
        // Cuts from each even mark to the next; an insertion before each mark.
        let mut places: Vec<(usize, &str)> =
            marks.iter().map(|(at, text)| (at.index(bytes.len() + 1), text.as_str())).collect();
        places.sort_by_key(|(at, _)| *at);
        places.dedup_by_key(|(at, _)| *at);
        let mut expected = Vec::new();
        let mut at = 0;
        let mut wanted: Vec<(Span, String)> = Vec::new();
        for pair in places.chunks(2) {
            let (start, text) = pair[0];
            let end = pair.get(1).map_or(start, |(end, _)| *end);
            expected.extend_from_slice(&bytes[at..start]);
            expected.extend_from_slice(b"+");
            expected.extend_from_slice(text.as_bytes());
            at = end;
            let span = |start: usize, end: usize| Span { start: start.try_into().unwrap(), end: end.try_into().unwrap() };
            wanted.push((span(start, start), "+".to_owned()));
            wanted.push((span(start, end), text.to_owned()));
        }
        expected.extend_from_slice(&bytes[at..]);
        if order % 2 == 1 {
            // Insertions at one place keep their order, so only whole pairs may be asked for in another one.
            let mut pairs: Vec<_> = wanted.chunks(2).map(<[_]>::to_vec).collect();
            let turn = usize::try_from(order % 7).unwrap() % pairs.len().max(1);
            pairs.rotate_left(turn);
            wanted = pairs.concat();
        }
        let mut edits = Edits::new();
        for (span, text) in wanted {
            edits.replace(span, |out| out.extend_from_slice(text.as_bytes()));
        }
        let mut out = Vec::new();
        edits.write(&message, &mut out);
        prop_assert_eq!(out, expected);
    }
}
