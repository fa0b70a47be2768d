//! Who sees every datagram between the balancer and its destinations, and whether each went where its call is.
//!
//! It knows nothing of the balancer's table or token. What it goes by: which destination answered a call's INVITE, and
//! which gave the To tag that a request carries. A destination that was killed and started again is the same one.
//!
//! A request is astray if
//! - it has a To tag (ACK, re-INVITE, BYE) and goes elsewhere than to the destination that gave the tag;
//! - it is a CANCEL, or the INVITE again, and goes elsewhere than to the destination whose answer reached the balancer;
//! - it is a CANCEL and goes to a destination that never got the INVITE.

use std::hash::{DefaultHasher, Hash, Hasher};

use tandem_base::{HashKey, Map, Rng, map};

/// The most samples of requests astray that are kept.
const SAMPLES: usize = 10;

/// A destination's number, from 0.
pub(crate) type Place = u8;

#[derive(Debug, Default)]
struct Call {
    /// One bit for each destination that was sent the INVITE.
    tried: u64,
    /// The one that was sent it last.
    current: Place,
    /// That one, once its answer has reached the balancer.
    owner: Option<Place>,
    /// Hashes of the To tags that destinations gave.
    tags: Vec<(u64, Place)>,
}

/// What one destination was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Calls: INVITEs without a To tag, each counted once.
    pub(crate) calls: u64,
    /// ACKs, BYEs, re-INVITEs and CANCELs.
    pub(crate) inside: u64,
    /// INVITEs that came again.
    pub(crate) again: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Witness {
    /// Calls seen lately, and those seen before that.
    young: Map<u64, Call>,
    old: Map<u64, Call>,
    key: HashKey,
    /// By destination.
    pub(crate) sent: Vec<Sent>,
    /// Calls that more than one destination was sent.
    pub(crate) second_tries: u64,
    pub(crate) astray: u64,
    pub(crate) samples: Vec<String>,
}

impl Witness {
    pub(crate) fn new(destinations: usize) -> Self {
        let key = HashKey::from_rng(&mut Rng::from_seed(1));
        Self {
            young: map(key),
            old: map(key),
            key,
            sent: vec![Sent::default(); destinations],
            second_tries: 0,
            astray: 0,
            samples: Vec::new(),
        }
    }

    /// Forgets the calls that were not heard of since the last time but one.
    pub(crate) fn turn(&mut self) {
        self.old = std::mem::replace(&mut self.young, map(self.key));
    }

    fn call(&mut self, id: u64) -> &mut Call {
        if let Some(call) = self.old.remove(&id) {
            self.young.insert(id, call);
        }
        self.young.entry(id).or_default()
    }

    /// The balancer sent this to a destination.
    pub(crate) fn to(&mut self, place: Place, datagram: &[u8]) {
        let Some(message) = Message::read(datagram) else { return };
        let Some(method) = message.method else { return };
        if !matches!(method, b"INVITE" | b"ACK" | b"BYE" | b"CANCEL") {
            return;
        }
        let (bit, id) = (1_u64 << place, hash(message.call_id));
        let call = self.call(id);
        let (mut first, mut again, mut second) = (false, false, false);
        let wrong = match (message.tag.map(hash), method) {
            (Some(tag), _) => match call.tags.iter().find(|(known, _)| *known == tag) {
                Some(&(_, giver)) => (giver != place).then(|| format!("destination {giver} gave its To tag")),
                None => Some("no destination gave its To tag".to_owned()),
            },
            (None, b"INVITE") => {
                first = call.tried == 0;
                again = call.tried & bit != 0;
                second = !first && !again;
                call.tried |= bit;
                call.current = place;
                call.owner.filter(|&owner| owner != place).map(|owner| format!("{owner} had answered"))
            }
            (None, b"CANCEL") => match call.owner {
                Some(owner) => (owner != place).then(|| format!("{owner} had answered")),
                None => (call.tried & bit == 0).then(|| "it never got the INVITE".to_owned()),
            },
            (None, _) => Some("it has no To tag".to_owned()),
        };
        self.second_tries += u64::from(second);
        if let Some(sent) = self.sent.get_mut(usize::from(place)) {
            sent.calls += u64::from(first || second);
            sent.again += u64::from(again);
            sent.inside += u64::from(message.tag.is_some() || method == b"CANCEL");
        }
        if let Some(why) = wrong {
            self.astray += 1;
            if self.samples.len() < SAMPLES {
                let text = String::from_utf8_lossy(datagram);
                self.samples.push(format!("to destination {place}, but {why}:\n{text}"));
            }
        }
    }

    /// A destination sent this; `lost` on its way to the balancer or not.
    pub(crate) fn from(&mut self, place: Place, datagram: &[u8], lost: bool) {
        let Some(message) = Message::read(datagram) else { return };
        let (Some(status), true) = (message.status, message.of_invite) else { return };
        let id = hash(message.call_id);
        if status <= 100 {
            return;
        }
        let call = self.call(id);
        if let Some(tag) = message.tag.map(hash)
            && !call.tags.iter().any(|(known, giver)| (*known, *giver) == (tag, place))
        {
            call.tags.push((tag, place));
        }
        // Answers that speak of the destination send the call on (`failover_codes`).
        let stays = !matches!(status, 500 | 502 | 503 | 504);
        if stays && !lost && call.current == place {
            call.owner = Some(place);
        }
    }
}

fn hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// What the witness needs of a message.
#[derive(Debug, Default)]
struct Message<'a> {
    method: Option<&'a [u8]>,
    status: Option<u16>,
    call_id: &'a [u8],
    tag: Option<&'a [u8]>,
    of_invite: bool,
}

impl<'a> Message<'a> {
    fn read(datagram: &'a [u8]) -> Option<Self> {
        let mut lines = datagram.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let mut message = Self::default();
        let mut words = lines.next()?.split(|&byte| byte == b' ');
        let first = words.next()?;
        if first == b"SIP/2.0" {
            message.status = core::str::from_utf8(words.next()?).ok()?.parse().ok();
        } else {
            message.method = Some(first);
        }
        for line in lines {
            if line.is_empty() {
                break;
            }
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let (name, value) = line.split_at(colon);
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            let is =
                |names: [&str; 2]| names.iter().any(|n| name.trim_ascii().eq_ignore_ascii_case(n.as_bytes()));
            if is(["Call-ID", "i"]) {
                message.call_id = value;
            } else if is(["To", "t"]) {
                message.tag = value.split(|&byte| byte == b';').find_map(|param| param.strip_prefix(b"tag="));
            } else if is(["CSeq", "CSeq"]) {
                message.of_invite = value.ends_with(b"INVITE");
            }
        }
        (!message.call_id.is_empty()).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(first: &str, tag: &str, of: &str) -> Vec<u8> {
        format!("{first}\r\nTo: <sip:b@d>{tag}\r\nCall-ID: c\r\nCSeq: 1 {of}\r\n\r\n").into_bytes()
    }

    /// A call on destination 1 of 2.
    fn answered() -> Witness {
        let mut witness = Witness::new(2);
        witness.to(1, &message("INVITE sip:b SIP/2.0", "", "INVITE"));
        witness.from(1, &message("SIP/2.0 180 Ringing", ";tag=t", "INVITE"), false);
        witness
    }

    #[test]
    fn what_follows_its_call_is_not_astray_and_what_does_not_is() {
        for (place, astray) in [(1, 0), (0, 1)] {
            for (method, tag) in
                [("INVITE", ""), ("INVITE", ";tag=t"), ("ACK", ";tag=t"), ("BYE", ";tag=t"), ("CANCEL", "")]
            {
                let mut witness = answered();
                witness.turn();
                witness.to(place, &message(&format!("{method} sip:b SIP/2.0"), tag, method));
                assert_eq!(witness.astray, astray, "{method}{tag} to {place}: {:?}", witness.samples);
            }
        }
    }

    #[test]
    fn a_first_request_may_go_elsewhere_while_no_answer_has_come_and_not_after() {
        let invite = message("INVITE sip:b SIP/2.0", "", "INVITE");
        for (status, lost, astray) in
            [("100", false, 0), ("180", true, 0), ("503", false, 0), ("180", false, 1), ("486", false, 1)]
        {
            let mut witness = Witness::new(2);
            witness.to(0, &invite);
            witness.from(0, &message(&format!("SIP/2.0 {status} x"), ";tag=t", "INVITE"), lost);
            witness.to(1, &invite);
            assert_eq!((witness.astray, witness.second_tries), (astray, 1), "{status}");
        }
    }

    #[test]
    fn a_tag_that_nobody_gave_and_a_cancel_to_one_that_was_never_asked_are_astray() {
        let mut witness = answered();
        witness.to(1, &message("BYE sip:b SIP/2.0", ";tag=other", "BYE"));
        assert_eq!(witness.astray, 1);
        let mut witness = Witness::new(2);
        witness.to(1, &message("CANCEL sip:b SIP/2.0", "", "CANCEL"));
        assert_eq!(witness.astray, 1);
    }
}
