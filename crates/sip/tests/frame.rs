//! Streams are cut into the same messages however the network cut them (RFC 3261 §18.3, RFC 5626 §3.5.1).

#![expect(clippy::indexing_slicing, reason = "helpers of tests")]

#[path = "torture/table.rs"]
#[allow(dead_code, reason = "only the octets of the messages are of use here")]
mod table;

use tandem_sip::{Frame, FrameError, Framer, HeaderName, Index, Limits, Message, ParseError};

#[derive(Clone, PartialEq, Eq, Debug)]
enum Event {
    Pong,
    Ping,
    Message(Vec<u8>),
    Error(FrameError),
}

/// Feeds the pieces one by one and collects what comes out.
fn frames(pieces: &[&[u8]], limits: &Limits) -> Vec<Event> {
    let (mut framer, mut index) = (Framer::new(), Index::new());
    let (mut buffer, mut events) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let event = match framer.next(&buffer, &mut index, limits) {
                Ok(Frame::Incomplete) => break,
                Ok(Frame::Pong) => Event::Pong,
                Ok(Frame::Ping) => Event::Ping,
                Ok(Frame::Message { len }) => Event::Message(buffer[..len].to_vec()),
                Err(error) => {
                    events.push(Event::Error(error));
                    return events;
                }
            };
            let used = match &event {
                Event::Message(message) => message.len(),
                Event::Pong | Event::Ping | Event::Error(_) => 2,
            };
            buffer.drain(..used);
            events.push(event);
        }
    }
    events
}

fn message(lines: &str, body: &str) -> String {
    format!("OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/TCP b;branch=z9hG4bKx\r\n{lines}\r\n{body}")
}

#[test]
fn every_split_of_every_torture_message_gives_the_same_frames() {
    let limits = Limits::default();
    let mut whole_messages = 0;
    for case in table::all() {
        // A keep-alive and a good message first, so that pipelining and line ends are split too.
        let first = message("l: 3\r\n", "a\r\n");
        let stream = [b"\r\n\r\n\r\n", first.as_bytes(), b"\r\n", case.bytes, b"\r\n\r\n"].concat();
        let at_once = frames(&[&stream], &limits);
        whole_messages += at_once.iter().filter(|event| matches!(event, Event::Message(_))).count();
        assert_eq!(at_once[..3], [Event::Pong, Event::Ping, Event::Pong]);
        for at in 0..=stream.len() {
            let (a, b) = stream.split_at(at);
            assert_eq!(frames(&[a, b], &limits), at_once, "{} split at {at}", case.name);
        }
        let octets: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(frames(&octets, &limits), at_once, "{} octet by octet", case.name);
    }
    assert!(whole_messages > 100, "{whole_messages}");
}

/// A message that came over a stream reads as the same message in a datagram.
#[test]
fn a_framed_message_is_the_message_a_datagram_would_hold() {
    let limits = Limits::default();
    for case in table::all() {
        let mut index = Index::new();
        let Ok(datagram) = Message::parse(case.bytes, &mut index, &limits) else { continue };
        if datagram.defect().is_some() || datagram.header(HeaderName::ContentLength).is_none() {
            continue;
        }
        let framed = frames(&[case.bytes], &limits);
        assert_eq!(framed.first(), Some(&Event::Message(datagram.bytes().to_vec())), "{}", case.name);
    }
}

#[test]
fn a_stream_whose_messages_have_no_sure_end_is_given_up() {
    let limits = Limits::default();
    let missing = ParseError::Missing(HeaderName::ContentLength);
    let repeated = ParseError::Repeated(HeaderName::ContentLength);
    let line = |status: u16| move |error: ParseError| error.status() == status;
    for (lines, is_expected) in [
        ("", Box::new(move |e| e == missing) as Box<dyn Fn(ParseError) -> bool>),
        ("l: 1\r\nl: 1\r\n", Box::new(move |e| e == repeated)),
        ("l: -1\r\n", Box::new(|e| e == ParseError::ContentLength)),
        ("l: 4294967328\r\n", Box::new(|e| e == ParseError::TooLarge)),
        ("l: 18446744073709551615\r\n", Box::new(|e| e == ParseError::TooLarge)),
        ("l: 18446744073709551616\r\n", Box::new(|e| e == ParseError::ContentLength)),
        ("l: 1\nX: y\r\n", Box::new(line(400))),
        ("X: y\rl: 1\r\nl: 0\r\n", Box::new(line(400))),
    ] {
        let text = message(lines, "OPTIONS sip:smuggled SIP/2.0\r\n\r\n");
        let events = frames(&[text.as_bytes()], &limits);
        let [Event::Error(FrameError { error, head_len })] = events[..] else {
            panic!("{lines:?}: {events:?}")
        };
        assert!(is_expected(error), "{lines:?}: {error:?}");
        assert!(text.as_bytes()[..head_len].ends_with(b"\r\n\r\n"), "{lines:?}");
    }
    let events = frames(&[b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"], &limits);
    assert_eq!(events, [Event::Error(FrameError { error: ParseError::NotSip, head_len: 0 })]);
}

#[test]
fn a_message_has_the_same_bound_in_one_piece_or_many() {
    let limits = Limits { message_bytes_max: 200, ..Limits::default() };
    let (head, long) = (message("l: 100\r\n", "").len(), "y".repeat(300));
    let body = "z".repeat(200 - head);
    let fits = message(&format!("l: {:3}\r\n", body.len()), &body);
    let over = message(&format!("l: {:3}\r\n", body.len() + 1), &body);
    let endless = message(&format!("X: {long}\r\n"), "");
    for (text, good) in [(&fits, true), (&over, false), (&endless, false)] {
        let at_once = frames(&[text.as_bytes()], &limits);
        let octets: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(frames(&octets, &limits), at_once);
        assert_eq!(matches!(at_once[..], [Event::Message(_)]), good, "{at_once:?}");
        if !good {
            assert!(matches!(at_once[..], [Event::Error(FrameError { error: ParseError::TooLarge, .. })]));
        }
    }
}
