//! What the callers say: the messages of SIPp's `uac` scenario, without its session description.

use std::io::Write as _;

use tandem_sip::{HeaderName, Message, NameAddr};

/// The callers' hosts: five SIPp instances, as the paper had (A14).
pub(crate) const CLIENTS: u64 = 5;
const PIDS: [u32; 5] = [20_871, 20_874, 3_312, 17_420, 9_077];

/// A call's number among all, split as five callers count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) client: u64,
    count: u64,
    pid: u32,
}

impl Name {
    pub(crate) fn of(number: u64) -> Self {
        let client = number % CLIENTS;
        let pid = usize::try_from(client).ok().and_then(|at| PIDS.get(at)).copied().unwrap_or(1);
        Self { client, count: number / CLIENTS + 1, pid }
    }
}

/// SIPp's Call-ID: `count-pid@address`.
pub(crate) fn write_call_id(number: u64, out: &mut Vec<u8>) {
    let Name { client, count, pid } = Name::of(number);
    put(out, format_args!("{count}-{pid}@10.1.0.{}", client + 11));
}

/// The Call-ID of one SIPp instance that makes all calls.
pub(crate) fn write_call_id_of_one(number: u64, out: &mut Vec<u8>) {
    put(out, format_args!("{}-{}@10.1.0.11", number + 1, PIDS[0]));
}

/// The number that a Call-ID was written for.
pub(crate) fn number_of(call_id: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(call_id).ok()?;
    let (count, rest) = text.split_once('-')?;
    let (_, client) = rest.rsplit_once('.')?;
    let (count, client): (u64, u64) = (count.parse().ok()?, client.parse().ok()?);
    Some(count.checked_sub(1)? * CLIENTS + client.checked_sub(11)?)
}

/// A request outside a dialog, or the ACK to its refusal.
pub(crate) fn write_first(method: &str, number: u64, user: &str, balancer: u16, out: &mut Vec<u8>) {
    let is_ack = method == "ACK";
    let cseq = 1;
    put(out, format_args!("{method} sip:{user}@10.0.0.{balancer}:5060 SIP/2.0\r\n"));
    write_via(number, 0, out);
    write_from(number, out);
    put(out, format_args!("To: <sip:{user}@10.0.0.{balancer}:5060>"));
    out.extend_from_slice(if is_ack { b";tag=refused\r\n" } else { b"\r\n" });
    write_rest(method, number, cseq, out);
}

/// A request within a dialog. `dialog` is what [`dialog_of`] kept.
pub(crate) fn write_next(method: &str, number: u64, cseq: u32, dialog: &[u8], out: &mut Vec<u8>) {
    let mut parts = dialog.splitn(3, |&octet| octet == 0);
    let [target, to, routes] = [(); 3].map(|()| parts.next().unwrap_or_default());
    put(out, format_args!("{method} "));
    out.extend_from_slice(target);
    out.extend_from_slice(b" SIP/2.0\r\n");
    write_via(number, if method == "ACK" { 1 } else { cseq }, out);
    out.extend_from_slice(routes);
    write_from(number, out);
    out.extend_from_slice(b"To: ");
    out.extend_from_slice(to);
    out.extend_from_slice(b"\r\n");
    write_rest(method, number, cseq, out);
}

/// What of a 200 is needed later: the remote target, To, and the route set (RFC 3261 §12.1.2).
pub(crate) fn dialog_of(response: &Message<'_>) -> Box<[u8]> {
    let mut kept = Vec::with_capacity(192);
    let contact = response.header(HeaderName::Contact).and_then(NameAddr::parse);
    kept.extend_from_slice(contact.map_or(b"sip:unknown.invalid", |contact| contact.uri_bytes));
    kept.push(0);
    kept.extend_from_slice(response.header(HeaderName::To).unwrap_or_default());
    kept.push(0);
    let routes: Vec<&[u8]> = response.values(HeaderName::RecordRoute).map(|value| value.bytes).collect();
    for route in routes.iter().rev() {
        kept.extend_from_slice(b"Route: ");
        kept.extend_from_slice(route);
        kept.extend_from_slice(b"\r\n");
    }
    kept.into_boxed_slice()
}

fn write_via(number: u64, nth: u32, out: &mut Vec<u8>) {
    let Name { client, count, pid } = Name::of(number);
    let host = client + 11;
    put(out, format_args!("Via: SIP/2.0/UDP 10.1.0.{host}:5060;branch=z9hG4bK-{pid}-{count}-{nth}\r\n"));
}

fn write_from(number: u64, out: &mut Vec<u8>) {
    let Name { client, count, pid } = Name::of(number);
    put(out, format_args!("From: sipp <sip:sipp@10.1.0.{}:5060>;tag={pid}SIPpTag00{count}\r\n", client + 11));
}

fn write_rest(method: &str, number: u64, cseq: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Call-ID: ");
    write_call_id(number, out);
    let host = Name::of(number).client + 11;
    put(
        out,
        format_args!(
            "\r\nCSeq: {cseq} {method}\r\nContact: <sip:sipp@10.1.0.{host}:5060>\r\nMax-Forwards: 70\r\n\
             Subject: Performance Test\r\nContent-Length: 0\r\n\r\n"
        ),
    );
}

fn put(out: &mut Vec<u8>, text: core::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_id_tells_its_number() {
        for number in [0, 1, 4, 5, 299_999] {
            let mut text = Vec::new();
            write_call_id(number, &mut text);
            assert_eq!(number_of(&text), Some(number));
        }
        assert_eq!(number_of(b"0-1@10.1.0.11"), None);
        assert_eq!(number_of(b"x"), None);
    }
}
