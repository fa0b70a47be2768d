//! What we write into messages so that any balancer of the cluster routes them with an empty table: the affinity token
//! in our Record-Route URI, and the branch of our Via (RFC 3261 §16.4, §16.11).
//!
//! A token names the destination, which end of the call is which, and the key that signed it; it is good for one
//! Call-ID. A branch names the destination and the listener that the request came by, and signs the Via below it with
//! the address that it came from: a response goes back there, or nowhere. Both have a constant size. Keys rotate: what
//! the key before this one signed is still believed, so that calls outlive the change.
//!
//! Left out: an expiry. A token of a call that is over leads to the destination that knows it is over.

use core::net::{IpAddr, SocketAddr};

use tandem_base::HashKey;
use tandem_sip::{Hop, ListenerId, MAGIC_COOKIE, Message, Via, host_ip};

use crate::base32::{digits, number};

/// The URI parameter that holds the token.
pub(crate) const PARAMETER: &[u8] = b"t";

const DESTINATION_DIGITS: usize = 8;
const END_DIGITS: usize = 4;
const MAC_DIGITS: usize = 13;
const LISTENER_DIGITS: usize = 4;
const TOKEN_HEAD: usize = 2 + DESTINATION_DIGITS + END_DIGITS;
const BRANCH_HEAD: usize = 2 + LISTENER_DIGITS + DESTINATION_DIGITS;
/// Behind the magic cookie; no branch of the proxy or of a transaction starts so.
const BRANCH_PREFIX: &[u8] = b"lb";

/// A destination as tokens and branches name it: 40 bits of a hash of its pool and id, the same on every node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DestinationTag(u64);

impl DestinationTag {
    /// The tag of the destination `id` of `pool`.
    #[must_use]
    pub(crate) fn new(pool: &str, id: &str) -> Self {
        // No secret: ids are the operator's, and a tag is believed for the signature around it.
        let key = HashKey::from_bytes(*b"destination tag.");
        Self(key.hash64(&[pool.as_bytes(), id.as_bytes()]) >> (64 - 5 * DESTINATION_DIGITS))
    }

    /// No destination: what goes away from the pool.
    pub(crate) const NONE: Self = Self(0);
}

/// Which end of a call a message comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The destination's side.
    Destination,
    /// The other one.
    Outside,
}

/// A token that was found to be ours and this call's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    /// Where the call is.
    pub(crate) destination: DestinationTag,
    /// The end whose tag `hash` is of: the one that sent the first request.
    pub(crate) first: End,
    /// Twenty bits of a hash of that end's tag.
    pub(crate) hash: u32,
}

impl Token {
    /// The end that a request comes from: whose tag stands in its From.
    ///
    /// `None` if neither From nor To has the tag of the first request: another dialog than the token was made for.
    #[must_use]
    pub(crate) fn sender(&self, request: &Message<'_>) -> Option<End> {
        let tag = |address: Option<tandem_sip::NameAddr<'_>>| {
            end_hash(address.and_then(|address| address.tag()).unwrap_or_default())
        };
        if tag(request.from()) == self.hash {
            return Some(self.first);
        }
        (tag(request.to()) == self.hash).then_some(match self.first {
            End::Destination => End::Outside,
            End::Outside => End::Destination,
        })
    }
}

/// Twenty bits that tell a call's two tags apart.
pub(crate) fn end_hash(tag: &[u8]) -> u32 {
    // No secret: a peer who makes both tags collide confuses the ends of his own call.
    let key = HashKey::from_bytes(*b"tag of the end..");
    u32::try_from(key.hash64(&[tag]) >> (64 - 5 * END_DIGITS)).unwrap_or(0)
}

/// What a branch of ours was written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// To a destination.
    In,
    /// From a destination's side, within a call.
    Back,
    /// From a destination, for a call that it starts.
    Out,
}

impl Direction {
    const fn letter(self) -> u8 {
        match self {
            Self::In => b'i',
            Self::Back => b'b',
            Self::Out => b'o',
        }
    }
}

/// A branch that was found to be ours, with what it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WayBack {
    /// What the request was.
    pub(crate) direction: Direction,
    /// The destination that it went to, or whose call it belongs to.
    pub(crate) destination: DestinationTag,
    /// The listener that it came by.
    pub(crate) listener: ListenerId,
    /// Where its response goes.
    pub(crate) upstream: SocketAddr,
}

#[derive(Clone, Copy)]
struct Key {
    token: HashKey,
    branch: HashKey,
    /// The digit that tells which key signed.
    generation: u8,
}

impl Key {
    fn new(secret: &HashKey) -> Self {
        let [generation] = digits::<1>(secret.mac64(&[b"balance generation"]));
        Self { token: secret.derive(b"balance token"), branch: secret.derive(b"balance branch"), generation }
    }
}

/// The keys that sign tokens and branches: the same on every balancer of a cluster.
#[derive(Clone)]
pub(crate) struct Signer {
    current: Key,
    previous: Option<Key>,
}

impl core::fmt::Debug for Signer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Signer(..)")
    }
}

impl Signer {
    /// Signs under `current`; what `previous` signed is believed too.
    #[must_use]
    pub(crate) fn new(current: &HashKey, previous: Option<&HashKey>) -> Self {
        Self { current: Key::new(current), previous: previous.map(Key::new) }
    }

    /// The keys that may have signed what carries this digit: mostly one.
    fn keys(&self, generation: u8) -> impl Iterator<Item = &Key> {
        core::iter::once(&self.current)
            .chain(self.previous.as_ref())
            .filter(move |key| key.generation == generation)
    }

    /// Writes the token of one call: 27 octets.
    pub(crate) fn write_token(&self, token: &Token, call_id: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.push(match token.first {
            End::Destination => b'd',
            End::Outside => b'o',
        });
        out.push(self.current.generation);
        out.extend_from_slice(&digits::<DESTINATION_DIGITS>(token.destination.0));
        out.extend_from_slice(&digits::<END_DIGITS>(u64::from(token.hash)));
        let mac = self.current.token.mac64(&[call_id, out.get(start..).unwrap_or_default()]);
        out.extend_from_slice(&digits::<MAC_DIGITS>(mac));
    }

    /// Reads a token; `None` if we did not write it for this very call.
    #[must_use]
    pub(crate) fn read_token(&self, text: &[u8], call_id: &[u8]) -> Option<Token> {
        let (head, mac) = text.split_at_checked(TOKEN_HEAD)?;
        let mac = (mac.len() == MAC_DIGITS).then_some(mac).and_then(number)?;
        let (&side, rest) = head.split_first()?;
        let (&generation, rest) = rest.split_first()?;
        let (destination, end) = rest.split_at_checked(DESTINATION_DIGITS)?;
        let first = match side {
            b'd' => End::Destination,
            b'o' => End::Outside,
            _ => return None,
        };
        let is_ours = self.keys(generation).any(|key| key.token.mac64(&[call_id, head]) == mac);
        is_ours.then_some(())?;
        Some(Token {
            destination: DestinationTag(number(destination)?),
            first,
            hash: u32::try_from(number(end)?).ok()?,
        })
    }

    /// Writes the branch of a request that came on `from`: the same for its retransmissions, its CANCEL and the ACK
    /// to its failure, and another for each destination that it is sent to.
    pub(crate) fn write_branch(
        &self,
        direction: Direction,
        destination: DestinationTag,
        request: &Message<'_>,
        from: Hop,
        out: &mut Vec<u8>,
    ) {
        let via = request.via();
        let sent_by_port = via.port.unwrap_or(from.transport.default_port());
        let port = if via.rport.is_some() { from.peer.port() } else { sent_by_port };
        out.extend_from_slice(MAGIC_COOKIE);
        out.extend_from_slice(BRANCH_PREFIX);
        let start = out.len();
        out.push(direction.letter());
        out.push(self.current.generation);
        out.extend_from_slice(&digits::<LISTENER_DIGITS>(u64::from(from.listener.0)));
        out.extend_from_slice(&digits::<DESTINATION_DIGITS>(destination.0));
        let head = out.get(start..).unwrap_or_default();
        let mac = branch_mac(&self.current.branch, head, request, via, SocketAddr::new(from.peer.ip(), port));
        out.extend_from_slice(&digits::<MAC_DIGITS>(mac));
    }

    /// Whether a branch looks like one of ours, so that nobody else need look at its response.
    #[must_use]
    pub(crate) fn is_branch(branch: &[u8]) -> bool {
        branch
            .strip_prefix(MAGIC_COOKIE)
            .and_then(|rest| rest.strip_prefix(BRANCH_PREFIX))
            .is_some_and(|rest| rest.len() == BRANCH_HEAD + MAC_DIGITS)
    }

    /// Reads the topmost branch of a response whose next Via is `below`; `None` if we did not write it for that.
    #[must_use]
    pub(crate) fn read_branch(
        &self,
        branch: &[u8],
        response: &Message<'_>,
        below: &Via<'_>,
    ) -> Option<WayBack> {
        let text = branch.strip_prefix(MAGIC_COOKIE)?.strip_prefix(BRANCH_PREFIX)?;
        let (head, mac) = text.split_at_checked(BRANCH_HEAD)?;
        let mac = (mac.len() == MAC_DIGITS).then_some(mac).and_then(number)?;
        let (&letter, rest) = head.split_first()?;
        let (&generation, rest) = rest.split_first()?;
        let (listener, destination) = rest.split_at_checked(LISTENER_DIGITS)?;
        let directions = [Direction::In, Direction::Back, Direction::Out];
        let direction = directions.into_iter().find(|direction| direction.letter() == letter)?;
        let upstream = upstream_of(below)?;
        let is_ours =
            self.keys(generation).any(|key| branch_mac(&key.branch, head, response, below, upstream) == mac);
        is_ours.then_some(())?;
        Some(WayBack {
            direction,
            destination: DestinationTag(number(destination)?),
            listener: ListenerId(u16::try_from(number(listener)?).ok()?),
            upstream,
        })
    }
}

/// The parameter that we put into the caller's own Via where we add none: a destination that answers to where the
/// request came from gets it to us, and this tells where it goes on.
pub(crate) const RETURN_PARAMETER: &[u8] = b"lb";

impl Signer {
    /// Writes where the response to a request that came on `from` goes: 22 or 41 octets.
    pub(crate) fn write_return(&self, request: &Message<'_>, from: Hop, out: &mut Vec<u8>) {
        let via = request.via();
        let port = if via.rport.is_some() {
            from.peer.port()
        } else {
            via.port.unwrap_or(from.transport.default_port())
        };
        let start = out.len();
        out.push(self.current.generation);
        out.extend_from_slice(&digits::<LISTENER_DIGITS>(u64::from(from.listener.0)));
        out.extend_from_slice(&digits::<4>(u64::from(port)));
        match from.peer.ip().to_canonical() {
            IpAddr::V4(ip) => out.extend_from_slice(&digits::<7>(u64::from(ip.to_bits()))),
            IpAddr::V6(ip) => {
                let bits = ip.to_bits();
                let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0);
                out.extend_from_slice(&digits::<MAC_DIGITS>(half(bits >> 64)));
                out.extend_from_slice(&digits::<MAC_DIGITS>(half(bits)));
            }
        }
        let head = out.get(start..).unwrap_or_default();
        let mac = return_mac(&self.current.branch, head, request, via);
        out.extend_from_slice(&digits::<MAC_DIGITS>(mac));
    }

    /// Reads it from the topmost Via of a response; `None` if we did not write it for that.
    pub(crate) fn read_return(
        &self,
        text: &[u8],
        response: &Message<'_>,
    ) -> Option<(ListenerId, SocketAddr)> {
        let (head, mac) = text.split_at_checked(text.len().checked_sub(MAC_DIGITS)?)?;
        let (&generation, rest) = head.split_first()?;
        let mac = number(mac)?;
        let via = response.via();
        let is_ours = self.keys(generation).any(|key| return_mac(&key.branch, head, response, via) == mac);
        is_ours.then_some(())?;
        let (listener, rest) = rest.split_at_checked(LISTENER_DIGITS)?;
        let (port, ip) = rest.split_at_checked(4)?;
        let ip = match ip.len() {
            7 => IpAddr::V4(u32::try_from(number(ip)?).ok()?.into()),
            26 => {
                let (high, low) = ip.split_at_checked(MAC_DIGITS)?;
                IpAddr::V6((u128::from(number(high)?) << 64 | u128::from(number(low)?)).into())
            }
            _ => return None,
        };
        let listener = ListenerId(u16::try_from(number(listener)?).ok()?);
        Some((listener, SocketAddr::new(ip, u16::try_from(number(port)?).ok()?)))
    }
}

fn return_mac(key: &HashKey, head: &[u8], message: &Message<'_>, via: &Via<'_>) -> u64 {
    let number = message.cseq().number.to_be_bytes();
    key.mac64(&[b"return", head, via.branch.unwrap_or_default(), via.host, &number, message.call_id()])
}

/// Signs a branch's head with all that makes the transaction one of its own and tells its way back.
fn branch_mac(key: &HashKey, head: &[u8], message: &Message<'_>, via: &Via<'_>, upstream: SocketAddr) -> u64 {
    let (ip, len) = match upstream.ip().to_canonical() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().octets(), 4_u8),
        IpAddr::V6(ip) => (ip.octets(), 16),
    };
    let [p0, p1] = upstream.port().to_be_bytes();
    let [c0, c1, c2, c3] = message.cseq().number.to_be_bytes();
    // A request of RFC 2543 may have no branch, or one that repeats: Call-ID and CSeq tell it from others.
    let numbers = [len, p0, p1, c0, c1, c2, c3];
    key.mac64(&[head, via.branch.unwrap_or_default(), via.host, &ip, &numbers, message.call_id()])
}

/// Where a response goes by its Via alone (RFC 3261 §18.2.2): what we noted when the request came, else `sent-by`.
fn upstream_of(via: &Via<'_>) -> Option<SocketAddr> {
    let ip = via.received_ip().or_else(|| host_ip(via.host))?;
    let sent_by_port = via.port.or_else(|| via.transport().map(|transport| transport.default_port()))?;
    Some(SocketAddr::new(ip, via.rport.flatten().unwrap_or(sent_by_port)))
}

#[cfg(test)]
mod tests {
    use tandem_base::Rng;
    use tandem_sip::{HeaderName, Index, Limits};

    use super::*;

    fn key(seed: u64) -> HashKey {
        HashKey::from_rng(&mut Rng::from_seed(seed))
    }

    fn token() -> Token {
        Token {
            destination: DestinationTag::new("media", "a1"),
            first: End::Outside,
            hash: end_hash(b"1928301774"),
        }
    }

    fn written(signer: &Signer, token: &Token, call_id: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        signer.write_token(token, call_id, &mut text);
        text
    }

    #[test]
    fn a_token_is_believed_for_its_own_call_only() {
        let signer = Signer::new(&key(1), None);
        let text = written(&signer, &token(), b"call-1");
        assert_eq!(text.len(), 27);
        assert_eq!(signer.read_token(&text, b"call-1"), Some(token()));
        assert_eq!(signer.read_token(&text, b"call-2"), None);
        assert_eq!(Signer::new(&key(2), None).read_token(&text, b"call-1"), None);
    }

    /// Every single octet of a token counts: changed, cut short, or with one more, it is nobody's.
    #[test]
    fn a_token_changed_in_any_octet_is_refused() {
        let signer = Signer::new(&key(1), None);
        let text = written(&signer, &token(), b"call-1");
        for at in 0..text.len() {
            for other in *b"abcdo7A1" {
                let mut forged = text.clone();
                forged[at] = other;
                assert_eq!(signer.read_token(&forged, b"call-1").is_some(), forged == text, "octet {at}");
            }
            assert_eq!(signer.read_token(&text[..at], b"call-1"), None);
        }
        assert_eq!(signer.read_token(&[&text[..], b"a"].concat(), b"call-1"), None);
    }

    #[test]
    fn a_token_outlives_one_change_of_keys_and_not_two() {
        let text = written(&Signer::new(&key(1), None), &token(), b"call-1");
        let once = Signer::new(&key(2), Some(&key(1)));
        assert_eq!(once.read_token(&text, b"call-1"), Some(token()));
        assert_ne!(written(&once, &token(), b"call-1"), text);
        assert_eq!(Signer::new(&key(3), Some(&key(2))).read_token(&text, b"call-1"), None);
    }

    fn request(method: &str, via: &str) -> String {
        format!(
            "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {via}\r\nFrom: <sip:a@x>;tag=f\r\n\
             To: <sip:b@y>\r\nCall-ID: call-1\r\nCSeq: 7 {method}\r\nContent-Length: 0\r\n\r\n"
        )
    }

    fn with<T>(text: &str, then: impl FnOnce(&Message<'_>) -> T) -> T {
        let mut index = Index::new();
        then(&Message::parse(text.as_bytes(), &mut index, &Limits::default()).unwrap())
    }

    fn branch_of(signer: &Signer, text: &str, destination: DestinationTag) -> Vec<u8> {
        let from = Hop::udp(ListenerId(3), "192.0.2.9:40000".parse().unwrap());
        let mut branch = Vec::new();
        with(text, |m| signer.write_branch(Direction::In, destination, m, from, &mut branch));
        branch
    }

    fn read(signer: &Signer, branch: &[u8], below: &str, number: u32) -> Option<WayBack> {
        let branch = String::from_utf8(branch.to_vec()).unwrap();
        let text = format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1;branch={branch}\r\nVia: SIP/2.0/UDP {below}\r\n\
             From: <sip:a@x>;tag=f\r\nTo: <sip:b@y>;tag=t\r\nCall-ID: call-1\r\nCSeq: {number} INVITE\r\n\
             Content-Length: 0\r\n\r\n"
        );
        with(&text, |m| {
            let value = m.values(HeaderName::Via).nth(1).unwrap();
            signer.read_branch(m.via().branch.unwrap(), m, &Via::parse(value.bytes).unwrap())
        })
    }

    #[test]
    fn a_response_goes_back_where_its_request_came_from_or_nowhere() {
        let signer = Signer::new(&key(1), None);
        let tag = DestinationTag::new("media", "a1");
        let branch = branch_of(&signer, &request("INVITE", "10.0.0.1:5070;rport;branch=z9hG4bKx"), tag);
        assert!(Signer::is_branch(&branch) && !Signer::is_branch(b"z9hG4bKSx"));
        let good = "10.0.0.1:5070;branch=z9hG4bKx;received=192.0.2.9;rport=40000";
        let way_back = read(&signer, &branch, good, 7).unwrap();
        assert_eq!((way_back.destination, way_back.listener), (tag, ListenerId(3)));
        assert_eq!(way_back.upstream, "192.0.2.9:40000".parse().unwrap());
        for bad in [
            "10.0.0.1:5070;branch=z9hG4bKx;received=203.0.113.5;rport=40000",
            "10.0.0.1:5070;branch=z9hG4bKx;received=192.0.2.9;rport=40001",
            "10.0.0.1:5070;branch=z9hG4bKy;received=192.0.2.9;rport=40000",
            "10.0.0.1:5070;branch=z9hG4bKx",
        ] {
            assert_eq!(read(&signer, &branch, bad, 7), None, "{bad}");
        }
        assert_eq!(read(&signer, &branch, good, 8), None);
        assert!(read(&Signer::new(&key(2), Some(&key(1))), &branch, good, 7).is_some());
        assert_eq!(read(&Signer::new(&key(2), None), &branch, good, 7), None);
    }

    /// RFC 3261 §16.11: a CANCEL and the ACK to a failure must match the INVITE at the next hop.
    #[test]
    fn cancel_and_ack_get_their_invites_branch_and_another_destination_another() {
        let signer = Signer::new(&key(1), None);
        let tag = DestinationTag::new("media", "a1");
        let branch = |method| branch_of(&signer, &request(method, "10.0.0.1:5070;branch=z9hG4bKx"), tag);
        assert_eq!(branch("INVITE"), branch("CANCEL"));
        assert_eq!(branch("INVITE"), branch("ACK"));
        let other = branch_of(
            &signer,
            &request("INVITE", "10.0.0.1:5070;branch=z9hG4bKx"),
            DestinationTag::new("media", "a2"),
        );
        assert_ne!(branch("INVITE"), other);
    }
}
