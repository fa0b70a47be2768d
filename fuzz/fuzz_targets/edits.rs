//! `edits`: see ../README.md.

#![no_main]

use tandem_sip::{HeaderName, Index, Limits, Message};

#[path = "../../crates/sip/tests/exercise/mod.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod exercise;

// The fuzzer's octets stand as header fields in a request that is good without them, so that nearly every input
// gets as far as the edits.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let request = [
        b"INVITE sip:a@b SIP/2.0\r\nFrom: <sip:c@d>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\n",
        bytes,
        b"\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx;rport\r\n\r\n",
    ]
    .concat();
    let mut index = Index::new();
    let Ok(message) = Message::parse(&request, &mut index, &Limits::default()) else { return };
    if message.defect().is_none() && message.values(HeaderName::Via).next().is_some() {
        exercise::edits(&message);
    }
});
