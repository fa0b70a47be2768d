// What must hold for any octets at all; the property tests and the fuzz targets share it by path.

use tandem_sip::{
    CSeq, Edits, Field, Frame, FrameError, Framer, HeaderName, Index, Limits, Message, Method, NameAddr,
    Reply, Transport, Uri, Via, host_ip, unescape, write_via_received,
};

/// Reads octets as a message and asks it everything.
pub(crate) fn message(bytes: &[u8]) {
    let mut index = Index::new();
    let Ok(message) = Message::parse(bytes, &mut index, &Limits::default()) else { return };
    assert!(bytes.starts_with(message.bytes()));
    assert!(message.bytes().ends_with(message.body()));
    assert_eq!(message.is_request(), message.status() == 0);
    let _ = (message.method(), message.method_token(), message.reason(), message.call_id(), message.cseq());
    let _ = Uri::parse(message.request_uri()).map(|u| u.transport().is_ok());
    let mut end = message.headers_start();
    for field in message.all_fields() {
        // Lines stand in order, inside the header, with their values inside them.
        assert!(end <= field.line.start && field.line.start < field.line.end, "{field:?}");
        assert!(field.line.start <= field.value_span.start && field.value_span.end <= field.line.end);
        assert_eq!(field.value, &bytes[field.value_span.start as usize..field.value_span.end as usize]);
        assert_eq!(HeaderName::from_bytes(field.name_bytes), field.name);
        end = field.line.end;
        for value in field.values().take(200) {
            assert_eq!(value.bytes, &bytes[value.span.start as usize..value.span.end as usize]);
            assert!(!value.bytes.is_empty());
            name_addr(value.bytes);
            via(value.bytes);
        }
        let _ = (message.number(field.name), message.lists(field.name, b"100rel"));
        assert!(message.fields(field.name).any(|other| other.line == field.line));
    }
    if message.is_request() {
        answer(&message);
    }
    if message.defect().is_none() {
        edits(&message);
    }
}

/// An answer to any request must be a message itself, and its sender's.
fn answer(request: &Message<'_>) {
    let mut out = Vec::new();
    Reply::new(400, ([192, 0, 2, 1], 5061).into(), b"tag").write(request, &mut out);
    let mut index = Index::new();
    let loose = Limits {
        message_bytes_max: usize::MAX,
        header_bytes_max: usize::MAX,
        token_bytes_max: usize::MAX,
        ..Limits::default()
    };
    let answer = Message::parse(&out, &mut index, &loose);
    let answer = answer.unwrap_or_else(|e| panic!("{e:?}: {}", String::from_utf8_lossy(&out)));
    assert_eq!((answer.status(), answer.body()), (400, &b""[..]));
    if request.defect().is_none() {
        assert_eq!(answer.defect(), None, "{}", String::from_utf8_lossy(&out));
        assert_eq!(answer.via().branch, request.via().branch);
        assert_eq!(answer.call_id(), request.call_id());
        assert_eq!(answer.cseq(), request.cseq());
        assert_eq!(answer.values(HeaderName::Via).count(), request.values(HeaderName::Via).count());
        if let (Some(to), Some(answered)) = (request.to(), answer.to()) {
            assert_eq!(answered.tag(), to.tag().or(Some(b"tag")));
        }
    }
}

/// What two elements must read alike: each field's name and its value with white space made one space.
fn essence(message: &Message<'_>) -> Vec<(HeaderName, Vec<u8>, Vec<u8>)> {
    let unfold = |field: &Field<'_>| {
        let mut text: Vec<u8> = Vec::new();
        for &b in field.value {
            match b {
                b' ' | b'\t' | b'\r' | b'\n' if text.last() == Some(&b' ') => {}
                b' ' | b'\t' | b'\r' | b'\n' => text.push(b' '),
                _ => text.push(b),
            }
        }
        text
    };
    message.all_fields().map(|f| (f.name, f.name_bytes.to_vec(), unfold(&f))).collect()
}

/// parse → write → parse: nothing changes but the spelling, and what a forwarding element changes.
pub(crate) fn edits(message: &Message<'_>) {
    let write = |edits: &mut Edits| {
        let mut out = Vec::new();
        edits.write(message, &mut out);
        out
    };
    assert_eq!(write(&mut Edits::new()), message.bytes());

    let mut edits = Edits::new();
    edits.regularise(message);
    let regular = write(&mut edits);
    let mut index = Index::new();
    let again = Message::parse(&regular, &mut index, &Limits::default()).expect("what was good stays good");
    assert_eq!(again.defect(), None, "{}", String::from_utf8_lossy(&regular));
    assert!(!again.is_irregular());
    assert_eq!(essence(&again), essence(message));
    assert_eq!(
        (again.method(), again.request_uri(), again.status()),
        (message.method(), message.request_uri(), message.status())
    );
    assert_eq!(
        (again.body(), again.cseq(), again.call_id()),
        (message.body(), message.cseq(), message.call_id())
    );
    assert_eq!(again.via().branch, message.via().branch);

    // As a proxy forwards: drop a Route, rewrite the topmost Via, set Max-Forwards, put a Via on top.
    let mut edits = Edits::new();
    edits.pop_values(message, HeaderName::Route, 1);
    let top = message.values(HeaderName::Via).next().expect("parse has seen a Via");
    edits
        .insert(top.field.line.start, |out| out.extend_from_slice(b"Via: SIP/2.0/UDP p;branch=z9hG4bKp\r\n"));
    edits.replace(top.span, |out| {
        write_via_received(out, top.bytes, message.via(), ([192, 0, 2, 1], 5061).into());
    });
    edits.set(message, HeaderName::MaxForwards, |out| out.extend_from_slice(b"69"));
    edits.regularise(message);
    let forwarded = write(&mut edits);
    let mut index = Index::new();
    let loose = Limits {
        headers_max: 200,
        values_max: 100,
        message_bytes_max: usize::MAX,
        header_bytes_max: 10_000,
        ..Limits::default()
    };
    let again = Message::parse(&forwarded, &mut index, &loose).expect("a forwarded message is a message");
    assert_eq!(again.defect(), None, "{}", String::from_utf8_lossy(&forwarded));
    assert!(!again.is_irregular(), "{}", String::from_utf8_lossy(&forwarded));
    assert_eq!(again.via().host, b"p");
    assert_eq!(again.number(HeaderName::MaxForwards), Ok(Some(69)));
    assert_eq!(again.body(), message.body());
    let count = |m: &Message<'_>, name| m.values(name).count();
    assert_eq!(count(&again, HeaderName::Via), count(message, HeaderName::Via) + 1);
    assert_eq!(count(&again, HeaderName::Route), count(message, HeaderName::Route).saturating_sub(1));
    assert_eq!(
        again.header(HeaderName::To).map(<[u8]>::len).is_some(),
        message.header(HeaderName::To).is_some()
    );

    // As it passes an answer back: the topmost Via comes off.
    let mut edits = Edits::new();
    edits.pop_values(message, HeaderName::Via, 1);
    let popped = write(&mut edits);
    let mut index = Index::new();
    match Message::parse(&popped, &mut index, &Limits::default()) {
        Ok(again) => {
            let rest: Vec<&[u8]> = message.values(HeaderName::Via).skip(1).map(|v| v.bytes).collect();
            assert_eq!(again.values(HeaderName::Via).map(|v| v.bytes).collect::<Vec<_>>(), rest);
        }
        // The next Via was none, or there was none.
        Err(_) => {
            assert!(message.values(HeaderName::Via).nth(1).is_none_or(|v| Via::parse(v.bytes).is_none()))
        }
    }
}

/// Reads octets as a Via, and what is written of it.
pub(crate) fn via(bytes: &[u8]) {
    let Some(via) = Via::parse(bytes) else { return };
    let _ = (via.transport(), via.unique_branch(), via.received_ip(), host_ip(via.host));
    for source in ["192.0.2.1:1", "[2001:db8::1]:65535", "[::ffff:192.0.2.1]:5060"] {
        let source: std::net::SocketAddr = source.parse().expect("an address");
        let mut out = Vec::new();
        let value = trimmed(bytes);
        write_via_received(&mut out, value, &via, source);
        let again = Via::parse(&out).unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(&out)));
        let ip = source.ip().to_canonical();
        assert_eq!(
            (again.host, again.port, again.branch, again.maddr),
            (via.host, via.port, via.branch, via.maddr)
        );
        assert_eq!(again.transport_token, via.transport_token);
        assert!(again.received_ip() == Some(ip) || host_ip(again.host) == Some(ip));
        assert_eq!(again.rport, via.rport.map(|_| Some(source.port())));
        // Folds become spaces.
        let text = |t: &[u8]| t.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect::<Vec<u8>>();
        let other = |v: &Via<'_>| {
            let ours =
                |name: &[u8]| name.eq_ignore_ascii_case(b"received") || name.eq_ignore_ascii_case(b"rport");
            let others = v.params().filter(|p| !ours(p.name));
            others.map(|p| (p.name.to_vec(), p.value.map(text))).collect::<Vec<_>>()
        };
        assert_eq!(other(&again), other(&via));
    }
}

/// Reads octets as a name-addr, and its parts as what they are.
pub(crate) fn name_addr(bytes: &[u8]) {
    if let Some(address) = NameAddr::parse(bytes) {
        let _ = (address.tag(), address.param(b"q"), address.params().count());
        if let Some(found) = address.uri() {
            uri(found.bytes);
            // A URI in brackets is the same URI.
            let bracketed = [b"<", found.bytes, b">;tag=x"].concat();
            let again = NameAddr::parse(&bracketed).expect("a URI holds no bracket");
            assert_eq!((again.uri_bytes, again.tag()), (found.bytes, Some(&b"x"[..])));
        }
    }
    if let Some(cseq) = CSeq::parse(bytes) {
        assert!(cseq.number < 1 << 31);
        assert_eq!(Method::from_token(cseq.method_token), cseq.method);
    }
}

/// Reads octets as a URI and compares it.
pub(crate) fn uri(bytes: &[u8]) {
    let _ = (host_ip(bytes), unescape(bytes).count(), Transport::from_token(bytes));
    let Some(uri) = Uri::parse(bytes) else { return };
    assert!(uri.is_equal(&uri));
    let _ = (uri.transport(), uri.is_loose(), uri.ip(), uri.params().count(), uri.headers());
    if uri.is_sip() {
        // Put together from its parts it is itself, so no octet belongs to two parts or to none.
        let mut whole = bytes[..bytes.len() - uri.opaque.len()].to_vec();
        if let Some(user) = uri.user {
            whole.extend_from_slice(user);
            if let Some(password) = uri.password {
                whole.push(b':');
                whole.extend_from_slice(password);
            }
            whole.push(b'@');
        }
        whole.extend_from_slice(uri.host);
        let after_port = bytes.len()
            - uri.params_bytes().len()
            - uri.headers().len()
            - usize::from(!uri.headers().is_empty());
        let port = &bytes[whole.len()..after_port];
        assert_eq!(port.is_empty(), uri.port.is_none());
        whole.extend_from_slice(port);
        whole.extend_from_slice(uri.params_bytes());
        if !uri.headers().is_empty() {
            whole.push(b'?');
            whole.extend_from_slice(uri.headers());
        }
        assert_eq!(whole, bytes);
        // Another case of scheme and host is the same URI. Past 32 parts, equality is that of octets.
        if uri.params().count() > 32 || uri.headers().split(|&b| b == b'&').count() > 32 {
            return;
        }
        let mut other = bytes.to_vec();
        other[..4].make_ascii_uppercase();
        let host = bytes.len() - (after_port - port.len());
        let host_start = bytes.len() - host - uri.host.len();
        other[host_start..host_start + uri.host.len()].make_ascii_uppercase();
        let other = Uri::parse(&other).expect("case makes no URI another");
        assert!(uri.is_equal(&other) && other.is_equal(&uri), "{}", String::from_utf8_lossy(bytes));
    }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let space = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    let start = bytes.iter().position(|b| !space(b)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|b| !space(b)).map_or(start, |at| at + 1);
    &bytes[start..end]
}

/// Cuts octets into frames, at once and in pieces whose lengths they name themselves.
pub(crate) fn frame(bytes: &[u8]) {
    fn frames<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Result<Frame, FrameError>> {
        let limits = Limits { message_bytes_max: 2_000, ..Limits::default() };
        let (mut framer, mut index) = (Framer::new(), Index::new());
        let (mut buffer, mut all) = (Vec::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                let frame = framer.next(&buffer, &mut index, &limits);
                match frame {
                    Ok(Frame::Incomplete) => break,
                    Ok(frame) => drop(buffer.drain(..frame.octets())),
                    Err(_) => {
                        all.push(frame);
                        return all;
                    }
                }
                all.push(frame);
            }
        }
        all
    }
    let Some((&size, stream)) = bytes.split_first() else { return };
    let at_once = frames(core::iter::once(stream));
    assert_eq!(frames(stream.chunks(usize::from(size) + 1)), at_once);
    assert_eq!(frames(stream.chunks(1)), at_once);
}
