//! The probe on the wire: an OPTIONS (RFC 3261 §11) whose answer is known again without a table.
//!
//! The branch carries pool, slot, number and a keyed hash over them, so that nobody who hasn't seen the probe can
//! answer for a destination, and an answer finds its way by what it repeats (§8.1.3.3, §18.1.2).

use core::time::Duration;

use tandem_base::HashKey;
use tandem_sip::{Hop, MAGIC_COOKIE, Message, Method, write_sent_by};

use crate::{Probe, ProbeOutcome, Slot};

/// Marks our probes' branches.
const MARK: &[u8] = b"hp";

/// Writes a probe. `from` is our listener's address for Via and From, `pool` tells the pools of one process apart.
pub fn write_probe(key: &HashKey, pool: u16, from: core::net::SocketAddr, probe: &Probe, out: &mut Vec<u8>) {
    let Probe { slot, hop: Hop { transport, peer, .. }, number } = *probe;
    let mac = mac(key, pool, slot, number);
    out.extend_from_slice(b"OPTIONS sip:");
    write_sent_by(out, peer);
    if transport != tandem_sip::Transport::Udp {
        out.extend_from_slice(format!(";transport={}", transport.uri_token()).as_bytes());
    }
    out.extend_from_slice(b" SIP/2.0\r\nVia: SIP/2.0/");
    out.extend_from_slice(transport.via_token().as_bytes());
    out.push(b' ');
    write_sent_by(out, from);
    out.extend_from_slice(b";rport;branch=");
    out.extend_from_slice(MAGIC_COOKIE);
    out.extend_from_slice(MARK);
    out.extend_from_slice(format!("{pool:04x}{:04x}{number:08x}{mac:016x}", slot.0).as_bytes());
    out.extend_from_slice(b"\r\nMax-Forwards: 70\r\nFrom: <sip:probe@");
    write_sent_by(out, from);
    out.extend_from_slice(format!(">;tag={number:08x}\r\nTo: <sip:").as_bytes());
    write_sent_by(out, peer);
    out.extend_from_slice(format!(">\r\nCall-ID: {mac:016x}{pool:04x}{:04x}@", slot.0).as_bytes());
    write_sent_by(out, from);
    out.extend_from_slice(
        format!(
            "\r\nCSeq: {} OPTIONS\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n",
            number & 0x7fff_ffff
        )
        .as_bytes(),
    );
}

/// What became of one of our probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeAnswer {
    /// Which pool.
    pub pool: u16,
    /// Which destination.
    pub slot: Slot,
    /// Which probe.
    pub number: u32,
    /// A final answer, or ICMP.
    pub outcome: ProbeOutcome,
}

/// Reads a response to a probe. `None` for anything else, a provisional response and a forgery among it.
#[must_use]
pub fn read_probe_answer(key: &HashKey, message: &Message<'_>) -> Option<ProbeAnswer> {
    if message.is_request() || message.status() < 200 || message.method() != Method::Options {
        return None;
    }
    let (pool, slot, number) = read_branch(key, message)?;
    let retry_after = message.header(tandem_sip::HeaderName::RetryAfter).and_then(read_retry_after);
    Some(ProbeAnswer { pool, slot, number, outcome: ProbeOutcome::Answered(message.status(), retry_after) })
}

/// Reads a probe that came back by ICMP. `None` for anything else, and for a forgery: who didn't see the probe can't make
/// it up.
#[must_use]
pub fn read_undelivered_probe(key: &HashKey, message: &Message<'_>) -> Option<ProbeAnswer> {
    if !message.is_request() || message.method() != Method::Options {
        return None;
    }
    let (pool, slot, number) = read_branch(key, message)?;
    Some(ProbeAnswer { pool, slot, number, outcome: ProbeOutcome::Unreachable })
}

/// Pool, slot and number, from a branch that we wrote.
fn read_branch(key: &HashKey, message: &Message<'_>) -> Option<(u16, Slot, u32)> {
    let via = message.via();
    let digits = via.branch?.strip_prefix(MAGIC_COOKIE)?.strip_prefix(MARK)?;
    if digits.len() != 32 {
        return None;
    }
    let number = |from: usize, to: usize| {
        u64::from_str_radix(core::str::from_utf8(digits.get(from..to)?).ok()?, 16).ok()
    };
    let pool = u16::try_from(number(0, 4)?).ok()?;
    let slot = Slot(u16::try_from(number(4, 8)?).ok()?);
    let probe = u32::try_from(number(8, 16)?).ok()?;
    (number(16, 32)? == mac(key, pool, slot, probe)).then_some((pool, slot, probe))
}

/// The seconds of a Retry-After (RFC 3261 §20.33): digits, then perhaps a comment or parameters.
#[must_use]
pub fn read_retry_after(value: &[u8]) -> Option<Duration> {
    let digits = value.trim_ascii_start();
    let end = digits.iter().position(|octet| !octet.is_ascii_digit()).unwrap_or(digits.len());
    let seconds: u32 = core::str::from_utf8(digits.get(..end)?).ok()?.parse().ok()?;
    Some(Duration::from_secs(u64::from(seconds)))
}

fn mac(key: &HashKey, pool: u16, slot: Slot, number: u32) -> u64 {
    key.mac64(&[b"probe", &pool.to_be_bytes(), &slot.0.to_be_bytes(), &number.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_sip::{Index, Limits, ListenerId, Reply};

    fn key() -> HashKey {
        HashKey::from_bytes([9; 16])
    }

    /// The probe as a destination reads it, and its answer as we do, after `spoil` had its way with it.
    fn answer(status: u16, spoil: impl Fn(String) -> String) -> Option<ProbeAnswer> {
        let hop = Hop::udp(ListenerId(0), "192.0.2.7:5070".parse().unwrap());
        let probe = Probe { slot: Slot(300), hop, number: 0x8000_0005 };
        let mut request = Vec::new();
        write_probe(&key(), 2, "198.51.100.1:5060".parse().unwrap(), &probe, &mut request);
        let mut index = Index::new();
        let request = Message::parse(&request, &mut index, &Limits::default()).unwrap();
        assert_eq!(request.defect(), None);
        assert_eq!(request.request_uri(), b"sip:192.0.2.7:5070");
        let mut response = Vec::new();
        let headers = b"Retry-After: 18000;duration=3600\r\n";
        Reply { headers, ..Reply::new(status, "198.51.100.1:5060".parse().unwrap(), b"t") }
            .write(&request, &mut response);
        let response = spoil(String::from_utf8(response).unwrap());
        let mut index = Index::new();
        let response = Message::parse(response.as_bytes(), &mut index, &Limits::default()).unwrap();
        read_probe_answer(&key(), &response)
    }

    #[test]
    fn an_answer_names_its_probe_and_a_forged_one_nothing() {
        let retry_after = Some(Duration::from_secs(18_000));
        let outcome = ProbeOutcome::Answered(503, retry_after);
        let expected = ProbeAnswer { pool: 2, slot: Slot(300), number: 0x8000_0005, outcome };
        assert_eq!(answer(503, |text| text), Some(expected));
        assert_eq!(answer(200, |text| text.replace("hp0002012c", "hp0002012d")), None);
        assert_eq!(answer(200, |text| text.replace("z9hG4bKhp", "z9hG4bKxx")), None);
        assert_eq!(answer(100, |text| text), None);
    }

    #[test]
    fn a_retry_after_is_read_with_comment_and_parameters_and_nonsense_is_not() {
        let seconds = |value: &str| read_retry_after(value.as_bytes()).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 5 (I'm in a meeting)"), Some(5));
        assert_eq!(seconds("18000;duration=3600"), Some(18_000));
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("99999999999"), None);
    }
}
