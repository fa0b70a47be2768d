//! Messages written to be read in two ways, to be long, or to be slow (RFC 3261 §7.3.1, §18.3, §25.1).

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use tandem_sip::{Edits, HeaderName, Index, Limits, Message, ParseError, Reply, Via};

/// A request with these lines after its usual ones.
fn request(lines: &[u8], body: &[u8]) -> Vec<u8> {
    request_line(b"OPTIONS sip:a@b SIP/2.0", lines, body)
}

fn request_line(line: &[u8], lines: &[u8], body: &[u8]) -> Vec<u8> {
    let method = line.split(|&b| b == b' ').next().unwrap_or_default();
    let head = b"\r\nVia: SIP/2.0/UDP c;branch=z9hG4bKx\r\nFrom: <sip:c@d>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: i\r\nCSeq: 1 ";
    [line, head, method, b"\r\n", lines, b"\r\n", body].concat()
}

fn outcome(bytes: &[u8], limits: &Limits) -> Result<Option<ParseError>, ParseError> {
    let mut index = Index::new();
    Message::parse(bytes, &mut index, limits).map(|message| message.defect())
}

fn defect(bytes: &[u8]) -> Option<ParseError> {
    outcome(bytes, &Limits::default()).unwrap()
}

/// CVE-2023-27598 and its like: a length that wraps, that two readers read differently, or that is no number.
#[test]
fn a_content_length_is_a_number_that_fits_or_a_400() {
    let good: &[(&str, usize)] = &[
        ("0", 0),
        ("1", 1),
        ("5", 5),
        ("05", 5),
        ("0000000000000000000000000000000000000005", 5),
        (" 5", 5),
        ("5 ", 5),
        ("\t5\t", 5),
        ("\r\n 5", 5),
        ("5\r\n ", 5),
    ];
    for (value, len) in good {
        let bytes = request(format!("Content-Length: {value}\r\n").as_bytes(), b"12345");
        let mut index = Index::new();
        let message = Message::parse(&bytes, &mut index, &Limits::default()).unwrap();
        assert_eq!((message.defect(), message.body().len()), (None, *len), "{value:?}");
    }
    for value in [
        "",
        "-0",
        "-1",
        "+5",
        "6",
        "5,5",
        "5, 5",
        "5 5",
        "5;a",
        "5.0",
        "5e0",
        "0x5",
        "five",
        "\"5\"",
        "<5>",
        "5\u{0}",
        "\u{0}5",
        "5\u{b}",
        "5\\",
        "255",
        "4294967296",
        "4294967301",
        "4294967328",
        "18446744073709551615",
        "18446744073709551616",
        "18446744073709551621",
        "340282366920938463463374607431768211461",
        "99999999999999999999",
        "٥",
        "5\u{a0}",
    ] {
        let bytes = request(format!("Content-Length: {value}\r\n").as_bytes(), b"12345");
        assert_eq!(defect(&bytes).map(ParseError::status), Some(400), "{value:?}");
    }
    for twice in ["Content-Length: 5\r\nl: 0\r\n", "l: 0\r\nCONTENT-LENGTH: 5\r\n", "l: 5\r\nl: 5\r\n"] {
        assert_eq!(
            defect(&request(twice.as_bytes(), b"12345")).map(ParseError::status),
            Some(400),
            "{twice:?}"
        );
    }
}

/// CVE-2020-28361: what stands between an internal header field's name and its colon must not hide it from us and
/// show it to the next element.
#[test]
fn no_octet_behind_a_name_hides_it() {
    for byte in 0..=255_u8 {
        for text in [&[byte][..], &[byte, b' '], &[b' ', byte], &[b'\r', b'\n', byte]] {
            let line = [b"P-Asserted-Identity", text, b": <sip:ceo@b>\r\n"].concat();
            let bytes = request(&line, b"");
            let mut index = Index::new();
            let message = Message::parse(&bytes, &mut index, &Limits::default()).unwrap();
            if message.defect().is_some() {
                continue;
            }
            let mut edits = Edits::new();
            let mut out = Vec::new();
            edits.remove_all(&message, HeaderName::PAssertedIdentity);
            edits.regularise(&message);
            edits.write(&message, &mut out);
            let left = String::from_utf8_lossy(&out);
            let other_name = left.lines().any(|line| {
                let name = line.split([':', ' ']).next().unwrap_or_default();
                name.len() > "P-Asserted-Identity".len() && name.starts_with("P-Asserted-Identity")
            });
            assert!(!left.contains("ceo@b") || other_name, "{text:?}: {left}");
        }
    }
}

#[test]
fn two_readings_of_one_line_are_refused() {
    for line in [
        &b"Subject: a\rX: b\r\n"[..],
        b"Subject: a\nX: b\r\n",
        b"Subject: a\r\r\n",
        b"Subject: a\\\r\n: b\r\n",
        b"Subject: a\0b\r\n",
        b"Subject: a\x0bb\r\n",
        b"Subject\0: a\r\n",
        b"NoColon\r\n",
        b": empty\r\n",
        b"Two words: a\r\n",
        b"S\xc3\xa9: a\r\n",
    ] {
        assert_eq!(defect(&request(line, b"")).map(ParseError::status), Some(400), "{line:?}");
    }
    assert_eq!(defect(&request(b"Subject: \"a\\\0b\\\x07\"\tc \xd0\x96\r\nX:\r\n", b"")), None);
}

#[test]
fn a_status_code_has_three_digits_and_a_class() {
    let response = |code: &str| {
        format!(
            "SIP/2.0 {code}\r\nVia: SIP/2.0/UDP h\r\nf: <sip:a>\r\nt: <sip:b>\r\ni: x\r\nCSeq: 1 BYE\r\n\r\n"
        )
    };
    let limits = Limits::default();
    for code in ["100 Trying", "200 ", "200", "699 \u{416}"] {
        assert_eq!(outcome(response(code).as_bytes(), &limits), Ok(None), "{code}");
    }
    for code in ["700 x", "999 x", "2000 x", "200x", "200\tOK", "200 O\0K"] {
        assert!(outcome(response(code).as_bytes(), &limits).unwrap().is_some(), "{code}");
    }
    for code in ["", "2", "20", "000 x", "099 x", "-10 x", "+20 x", "2 0 x", " 200 x", "0x1 x"] {
        assert_eq!(outcome(response(code).as_bytes(), &limits), Err(ParseError::NotSip), "{code}");
    }
}

/// A datagram cut anywhere in its header fields is no other, shorter message.
#[test]
fn a_cut_message_is_refused() {
    let whole = request(b"Subject: a\r\n", b"");
    for len in 1..whole.len() {
        let bytes = &whole[..len];
        let refused = match outcome(bytes, &Limits::default()) {
            Ok(defect) => defect.is_some(),
            Err(_) => true,
        };
        assert!(refused, "{len}");
    }
}

#[test]
fn a_second_request_in_the_datagram_is_not_read() {
    let inner = request(b"X-Inner: 1\r\n", b"");
    for lines in ["Content-Length: 0\r\n", "l:0\r\n"] {
        let bytes = request(lines.as_bytes(), &inner);
        let mut index = Index::new();
        let message = Message::parse(&bytes, &mut index, &Limits::default()).unwrap();
        assert_eq!((message.body(), message.defect()), (&b""[..], None));
        assert!(!message.bytes().ends_with(&inner));
        assert!(message.all_fields().all(|field| field.name_bytes != b"X-Inner"));
    }
}

/// Every kind of text in a message at lengths up to 64 KiB: taken up to its limit, refused with its status beyond.
#[test]
fn each_identifier_line_and_message_has_its_limit() {
    let limits = Limits::default();
    let sizes =
        [1, 2, 16, 64, 200, 255, 256, 257, 1024, 4000, 4096, 8100, 8192, 8193, 16_384, 65_000, 65_535];
    let names: Vec<&str> = HeaderName::KNOWN.iter().map(|name| name.as_str()).collect();
    for size in sizes {
        let text = "a".repeat(size);
        let status = |bytes: Vec<u8>| outcome(&bytes, &limits).map(|d| d.map(ParseError::status));
        let at_most = |max: usize, code: u16| Ok((size > max).then_some(code));
        let with = |from: &str, to: &str| {
            let message = String::from_utf8(request(b"", b"")).unwrap().replacen(from, to, 1);
            let size = message.len();
            (message.into_bytes(), size)
        };
        for (from, to) in [
            ("branch=z9hG4bKx", format!("branch={text}")),
            ("Call-ID: i", format!("Call-ID: {text}")),
            ("tag=1", format!("tag={text}")),
            ("<sip:a@b>\r\n", format!("<sip:a@b>;tag={text}\r\n")),
        ] {
            let (bytes, len) = with(from, &to);
            if len <= limits.message_bytes_max {
                assert_eq!(status(bytes), at_most(limits.token_bytes_max, 400), "{from} {size}");
            } else {
                assert_eq!(status(bytes), Ok(Some(513)), "{from} {size}");
            }
        }
        let bytes = request_line(format!("{text} sip:a@b SIP/2.0").as_bytes(), b"", b"");
        if size <= limits.token_bytes_max {
            assert_eq!(status(bytes), Ok(None), "method {size}");
        } else {
            assert!(status(bytes).unwrap().is_some(), "method {size}");
        }
        let bytes = request_line(format!("OPTIONS sip:{text} SIP/2.0").as_bytes(), b"", b"");
        if bytes.len() <= limits.message_bytes_max {
            let line = "OPTIONS sip: SIP/2.0".len() + size;
            assert_eq!(status(bytes), Ok((line > limits.start_line_bytes_max).then_some(414)), "URI {size}");
        }
        for name in &names {
            let line = format!("{name}: {text}\r\n");
            let bytes = request(line.as_bytes(), b"");
            if bytes.len() > limits.message_bytes_max {
                assert_eq!(status(bytes), Ok(Some(513)), "{name} {size}");
            } else if line.len() > limits.header_bytes_max {
                assert_eq!(status(bytes), Ok(Some(400)), "{name} {size}");
            } else {
                let _no_panic = status(bytes);
            }
        }
        for digits in ["1".repeat(size), "0".repeat(size)] {
            let (bytes, _) = with("CSeq: 1", &format!("CSeq: {digits}"));
            let _no_panic = status(bytes);
        }
    }
    for (number, code) in [("2147483647", None), ("2147483648", Some(400)), ("00000000000002147483647", None)]
    {
        let message =
            String::from_utf8(request(b"", b"")).unwrap().replacen("CSeq: 1", &format!("CSeq: {number}"), 1);
        assert_eq!(defect(message.as_bytes()).map(ParseError::status), code, "{number}");
    }
}

#[test]
fn lines_and_values_are_counted() {
    let limits = Limits::default();
    let lines = |n: usize| request("X: y\r\n".repeat(n).as_bytes(), b"");
    assert_eq!(outcome(&lines(limits.headers_max - 5), &limits), Ok(None));
    assert_eq!(
        outcome(&lines(limits.headers_max - 4), &limits),
        Ok(Some(ParseError::TooMany(HeaderName::Other)))
    );
    for name in [HeaderName::Route, HeaderName::RecordRoute, HeaderName::Contact, HeaderName::Path] {
        let list = |n: usize, apart: &str| {
            let values = vec!["<sip:a,b@c>"; n].join(apart);
            request(format!("{name}: {values}\r\n").as_bytes(), b"")
        };
        for apart in [", ", ",", &format!("\r\n{name}: ")] {
            assert_eq!(outcome(&list(64, apart), &limits), Ok(None), "{name}");
            assert_eq!(outcome(&list(65, apart), &limits), Ok(Some(ParseError::TooMany(name))), "{name}");
        }
    }
    let vias = |n: usize| request(format!("v: {}\r\n", vec!["SIP/2.0/UDP h"; n].join(",")).as_bytes(), b"");
    assert_eq!(outcome(&vias(63), &limits), Ok(None));
    assert_eq!(outcome(&vias(64), &limits), Ok(Some(ParseError::TooMany(HeaderName::Via))));
}

/// Nothing here may take more than linear time: 64 KiB of each would hold the test up for minutes if it were square.
#[test]
fn sixty_four_kib_of_anything_is_read_in_linear_time() {
    let limits = Limits {
        header_bytes_max: 1 << 17,
        start_line_bytes_max: 1 << 17,
        values_max: 1 << 17,
        ..Limits::default()
    };
    let fill = |text: &str| text.repeat(64_000 / text.len());
    for text in [
        ",",
        ", ",
        "a,",
        "\"",
        "\"\",",
        "\\\"",
        "<",
        "<>,",
        "<,",
        ";",
        ";a",
        ";a=",
        ";a=b",
        "; a = \"b\" ",
        "\r\n ",
        "\r\n\t,",
        " ",
        "%41",
        "[",
        "[]",
        ":",
        "@",
        "a@",
        "?a=b",
        "&a=b",
        "::",
        "1.",
        "SIP/2.0/UDP a,",
        "\u{416}",
    ] {
        let long = fill(text);
        for line in [
            format!("Route: <sip:a@b{long}>\r\n"),
            format!("Route: {long}\r\n"),
            format!("Contact: {long}<sip:a@b>{long}\r\n"),
            format!("v: SIP/2.0/UDP h{long}\r\n"),
            format!("X {long}: y\r\n"),
            format!("X: {long}\r\n"),
            format!("Contact: <sip:{long}@b{long}?{long}>\r\n"),
        ] {
            let bytes = request(line.as_bytes(), b"");
            let mut index = Index::new();
            let Ok(message) = Message::parse(&bytes, &mut index, &limits) else { continue };
            for name in [HeaderName::Route, HeaderName::Contact, HeaderName::Via] {
                for value in message.values(name).take(100) {
                    let address = tandem_sip::NameAddr::parse(value.bytes);
                    let uri = address.and_then(|a| a.uri());
                    if let Some(uri) = uri {
                        assert!(uri.is_equal(&uri));
                    }
                    let _ = Via::parse(value.bytes);
                }
                let mut edits = Edits::new();
                let mut out = Vec::new();
                edits.pop_values(&message, name, 30);
                edits.regularise(&message);
                edits.write(&message, &mut out);
            }
        }
        let a = format!("sip:a@b{long}");
        let b = format!("sip:A@b{long}");
        if let (Some(a), Some(b)) =
            (tandem_sip::Uri::parse(a.as_bytes()), tandem_sip::Uri::parse(b.as_bytes()))
        {
            assert!(!a.is_equal(&b));
        }
    }
}

/// RFC 3261 §20.42, RFC 3581 §3, RFC 5118 §4.5.
#[test]
fn a_via_is_read_with_all_its_white_space_and_no_more() {
    let read = |text: &str| {
        Via::parse(text.as_bytes()).map(|v| {
            let text = |t: &[u8]| String::from_utf8_lossy(t).into_owned();
            (text(v.transport_token), text(v.host), v.port, v.rport)
        })
    };
    let is =
        |transport: &str, host: &str, port, rport| Some((transport.to_owned(), host.to_owned(), port, rport));
    assert_eq!(read("SIP/2.0/UDP h"), is("UDP", "h", None, None));
    assert_eq!(read("sip / 2.0\t/ tls  h : 5061 ; branch = z"), is("tls", "h", Some(5061), None));
    assert_eq!(read("SIP/2.0/WS [::1] :80;rport"), is("WS", "[::1]", Some(80), Some(None)));
    assert_eq!(read("SIP/2.0/UDP [::1];rport="), is("UDP", "[::1]", None, Some(None)));
    assert_eq!(read("SIP/2.0/UDP h:5060;rport=5061;x=\"a;b\""), is("UDP", "h", Some(5060), Some(Some(5061))));
    assert_eq!(read("SIP/2.0/UDP h;ttl=16;maddr=224.0.1.75;hidden"), is("UDP", "h", None, None));
    for bad in [
        "",
        "SIP/2.0/UDP",
        "SIP/2.0/UDP ",
        "SIP/2.0 UDP h",
        "SIP/2.0/ h",
        "SIP/3.0/UDP h",
        "HTTP/2.0/UDP h",
        "SIP/2.0/UDPh",
        "SIP/2.0/UDP h:",
        "SIP/2.0/UDP h:0",
        "SIP/2.0/UDP h:65536",
        "SIP/2.0/UDP h i",
        "SIP/2.0/UDP ::1",
        "SIP/2.0/UDP [::1",
        "SIP/2.0/UDP ;branch=z",
        "SIP/2.0/UDP h;",
        "SIP/2.0/UDP h;;branch=z",
        "SIP/2.0/UDP h;branch",
        "SIP/2.0/UDP h;branch=",
        "SIP/2.0/UDP h;branch=\"z\"",
        "SIP/2.0/UDP h;maddr=\"h\"",
        "SIP/2.0/UDP h;received=",
        "SIP/2.0/UDP h;branch=a;branch=b",
        "SIP/2.0/UDP h;rport=65536",
        "SIP/2.0/UDP h;rport=x",
        "SIP/2.0/UDP h;rport;rport",
        "SIP/2.0/UDP h;received",
        "SIP/2.0/UDP h;branch=a b",
        "SIP/2.0/UDP h;x=<y>",
    ] {
        assert!(read(bad).is_none(), "{bad:?} is taken");
    }
    let via = Via::parse(b"SIP/2.0/UDP h;received=[2001:db8::1]").unwrap();
    assert_eq!(via.received_ip(), Some("2001:db8::1".parse().unwrap()));
}

/// The answer goes where the request came from, whatever its Via claims.
#[test]
fn a_forged_received_is_overwritten_in_any_place() {
    for (via, expected) in [
        ("SIP/2.0/UDP h;received=203.0.113.9;branch=z9", "SIP/2.0/UDP h;branch=z9;received=192.0.2.1"),
        (
            "SIP/2.0/UDP h;rport=1;branch=z9;received=203.0.113.9",
            "SIP/2.0/UDP h;branch=z9;received=192.0.2.1;rport=5070",
        ),
        ("SIP/2.0/UDP 192.0.2.1;branch=z9", "SIP/2.0/UDP 192.0.2.1;branch=z9"),
        (
            ", SIP/2.0/UDP h;branch=z9, SIP/2.0/UDP i",
            "SIP/2.0/UDP h;branch=z9;received=192.0.2.1, SIP/2.0/UDP i",
        ),
        ("SIP/2.0/UDP 192.0.2.1;;,;,,", "SIP/2.0/UDP 192.0.2.1;;,;,,"),
        ("\r\nv: , \r\nVia: SIP/2.0/UDP h", "\r\nVia: ,\r\nVia: SIP/2.0/UDP h;received=192.0.2.1"),
    ] {
        let message = String::from_utf8(request(b"", b"")).unwrap();
        let message = message.replacen("SIP/2.0/UDP c;branch=z9hG4bKx", via, 1);
        let mut index = Index::new();
        let request = Message::parse(message.as_bytes(), &mut index, &Limits::default()).unwrap();
        let mut out = Vec::new();
        Reply::new(404, "192.0.2.1:5070".parse().unwrap(), b"t").write(&request, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(&format!("\r\nVia: {expected}\r\n")), "{via}: {text}");
    }
}
