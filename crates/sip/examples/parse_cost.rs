//! What reading, forwarding and answering a message costs, in nanoseconds of one core.
//!
//! `cargo run --release -p tandem-sip --example parse_cost`. Prints the best of several rounds, which is what the
//! code costs when nothing else runs; compare runs on one machine only.

use std::hint::black_box;
use std::io::{self, Write};

use tandem_sip::{Edits, HeaderName, Index, Limits, Message, Reply};

const INVITE: &[u8] = b"INVITE sip:bob@biloxi.example.com SIP/2.0\r\n\
Via: SIP/2.0/UDP 192.0.2.4:5060;rport;branch=z9hG4bK74bf9a2b1c3d\r\n\
Max-Forwards: 70\r\n\
From: Alice <sip:alice@atlanta.example.com>;tag=9fxced76sl\r\n\
To: Bob <sip:bob@biloxi.example.com>\r\n\
Call-ID: 3848276298220188511@atlanta.example.com\r\n\
CSeq: 2 INVITE\r\n\
Contact: <sip:alice@192.0.2.4:5060;transport=udp>\r\n\
User-Agent: Desk Phone 4.2 build 20261121 (rev 1a2b3c4d5e6f)\r\n\
Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n\
Content-Type: application/sdp\r\n\
Content-Length: 151\r\n\
\r\n\
v=0\r\n\
o=alice 2890844526 2890844526 IN IP4 atlanta.example.com\r\n\
s=-\r\n\
c=IN IP4 192.0.2.101\r\n\
t=0 0\r\n\
m=audio 49172 RTP/AVP 0\r\n\
a=rtpmap:0 PCMU/8000\r\n";

const OK: &[u8] = b"SIP/2.0 200 OK\r\n\
Via: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK0a1b2c3d4e5f60718293\r\n\
Via: SIP/2.0/UDP 192.0.2.4:5060;rport=5060;branch=z9hG4bK74bf9a2b1c3d;received=192.0.2.4\r\n\
Record-Route: <sip:192.0.2.9;lr;c=5f60718293>\r\n\
From: Alice <sip:alice@atlanta.example.com>;tag=9fxced76sl\r\n\
To: Bob <sip:bob@biloxi.example.com>;tag=8321234356\r\n\
Call-ID: 3848276298220188511@atlanta.example.com\r\n\
CSeq: 2 INVITE\r\n\
Contact: <sip:bob@192.0.2.201:5060>\r\n\
Content-Length: 0\r\n\
\r\n";

const BYE: &[u8] = b"BYE sip:bob@192.0.2.201:5060 SIP/2.0\r\n\
Via: SIP/2.0/UDP 192.0.2.4:5060;rport;branch=z9hG4bKnashds10\r\n\
Max-Forwards: 70\r\n\
Route: <sip:192.0.2.9;lr;c=5f60718293>\r\n\
From: Alice <sip:alice@atlanta.example.com>;tag=9fxced76sl\r\n\
To: Bob <sip:bob@biloxi.example.com>;tag=8321234356\r\n\
Call-ID: 3848276298220188511@atlanta.example.com\r\n\
CSeq: 3 BYE\r\n\
Content-Length: 0\r\n\
\r\n";

// Rounds short enough that some run without being interrupted.
const CALLS: u32 = 1_000;
const ROUNDS: u32 = 2_000;

#[expect(clippy::disallowed_methods, reason = "an example measures; the crate itself reads no clock")]
fn best_ns(mut work: impl FnMut()) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let start = std::time::Instant::now();
            for _ in 0..CALLS {
                work();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() -> io::Result<()> {
    let limits = Limits::default();
    let mut index = Index::new();
    let mut out = io::stdout().lock();
    for (name, bytes) in [("INVITE", INVITE), ("200", OK), ("BYE", BYE)] {
        let ns = best_ns(|| {
            let message = Message::parse(black_box(bytes), &mut index, &limits);
            black_box(message.is_ok_and(|m| m.defect().is_none()));
        });
        writeln!(out, "parse {name:6} {:4} octets  {ns:7.1} ns", bytes.len())?;
    }
    let ns = best_ns(|| {
        if let Ok(message) = Message::parse(black_box(INVITE), &mut index, &limits) {
            black_box((message.from().and_then(|f| f.tag()), message.to().and_then(|t| t.uri())));
            black_box(tandem_sip::Uri::parse(message.request_uri()));
        }
    });
    writeln!(out, "parse INVITE, From, To, Request-URI  {ns:7.1} ns")?;

    let (mut edits, mut buffer) = (Edits::new(), Vec::new());
    let source = ([192, 0, 2, 4], 5060).into();
    let ns = best_ns(|| {
        let Ok(message) = Message::parse(black_box(INVITE), &mut index, &limits) else { return };
        buffer.clear();
        edits.clear();
        if let (Some(field), Some(value)) =
            (message.field(HeaderName::Via), message.values(HeaderName::Via).next())
        {
            edits.insert(field.line.start, |out| {
                out.extend_from_slice(
                    b"Via: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK0a1b2c3d4e5f60718293\r\n",
                );
                out.extend_from_slice(b"Record-Route: <sip:192.0.2.9;lr;c=5f60718293>\r\n");
            });
            edits.replace(value.span, |out| {
                tandem_sip::write_via_received(out, value.bytes, message.via(), source);
            });
        }
        edits.replace(message.request_uri_span(), |out| out.extend_from_slice(b"sip:bob@192.0.2.201:5060"));
        edits.set(&message, HeaderName::MaxForwards, |out| out.extend_from_slice(b"69"));
        edits.regularise(&message);
        edits.write(&message, &mut buffer);
        black_box(buffer.len());
    });
    writeln!(out, "parse and forward INVITE             {ns:7.1} ns")?;
    let ns = best_ns(|| {
        let Ok(message) = Message::parse(black_box(INVITE), &mut index, &limits) else { return };
        buffer.clear();
        Reply::new(486, source, b"4f2c").write(&message, &mut buffer);
        black_box(buffer.len());
    });
    writeln!(out, "parse and answer INVITE              {ns:7.1} ns")
}
