//! A redirect server's answer: the targets as Contacts of a 302 (RFC 3261 §8.3).

use tandem_sip::write_number;

use crate::TargetSet;

/// Writes a Contact header field line with every target, the best first, each with its q.
pub fn redirect_headers(set: &TargetSet, out: &mut Vec<u8>) {
    for (i, target) in set.targets().iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"Contact: <" } else { b", <" });
        out.extend_from_slice(set.uri(target));
        out.extend_from_slice(b">;q=");
        if target.q >= 1000 {
            out.push(b'1');
        } else {
            out.extend_from_slice(b"0.");
            for digit in [target.q / 100, target.q / 10 % 10, target.q % 10] {
                write_number(out, u64::from(digit));
            }
        }
    }
    if !set.is_empty() {
        out.extend_from_slice(b"\r\n");
    }
}
