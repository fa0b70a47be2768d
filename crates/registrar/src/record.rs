//! All bindings of one address-of-record in one allocation (RFC 3261 §10.3, RFC 3327, RFC 5626 §6).
//!
//! A registrar of a million phones holds a million of these, so a record is packed bytes: a header of six bytes
//! (how many bindings, when the first of them ends), the name, then one run of bytes per binding, in the order a proxy tries
//! them: highest q first, the most recent first among equals. A view of a binding costs a walk over its lengths and
//! no allocation. Times are whole seconds: rounded up when stored, so that no binding ends before it was promised.
//!
//! A record is immutable; a change makes a new one ([`RecordBuilder`]) and swaps it in ([`crate::Locations`]).
//! Left out: feature parameters of RFC 3840, which nothing reads yet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use tandem_base::Instant;
use tandem_sip::{ConnectionId, Hop, ListenerId, Transport};

/// The q of a contact that gives none, in thousandths (RFC 3261 §20.10 leaves it open; 1.0 is what peers assume).
pub const Q_DEFAULT: u16 = 1000;

/// One binding: a contact of an address-of-record and how to reach it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding<'a> {
    /// The contact URI as it was registered, without angle brackets or header parameters.
    pub contact: &'a [u8],
    /// Preference in thousandths, 0 to 1000 (RFC 3261 §10.2.1.2).
    pub q: u16,
    /// When the binding ends; whole seconds.
    pub expires_at: Instant,
    /// When it was last registered; whole seconds.
    pub updated_at: Instant,
    /// Call-ID of the REGISTER that set it (RFC 3261 §10.3 step 7).
    pub call_id: &'a [u8],
    /// CSeq number of that REGISTER.
    pub cseq: u32,
    /// The Path vector (RFC 3327 §5.3) as one comma-separated list, first hop first, ready to be a Route header
    /// field; empty if there is none.
    pub path: &'a [u8],
    /// The hop the REGISTER came by: where a phone behind a NAT can be reached. `None` when unknown.
    pub received: Option<Hop>,
    /// `+sip.instance` (RFC 5626 §4.1) without its quotes; empty if absent.
    pub instance: &'a [u8],
    /// `reg-id` (RFC 5626 §4.2); 0 if absent.
    pub reg_id: u32,
    /// The User-Agent header field; empty if absent.
    pub user_agent: &'a [u8],
}

impl Binding<'_> {
    /// Whether the binding has ended at `now`.
    #[must_use]
    pub fn is_expired(&self, now: Instant) -> bool {
        self.expires_at <= now
    }

    /// Whole seconds left at `now`, at least one for a binding that lives, zero for one that does not.
    #[must_use]
    pub fn remaining_secs(&self, now: Instant) -> u64 {
        match self.expires_at.saturating_since(now) {
            Duration::ZERO => 0,
            left => left.as_secs().max(1),
        }
    }
}

/// The bindings of one address-of-record, packed; never empty of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Record(Box<[u8]>);

const COUNT: usize = 2;
const HEADER: usize = COUNT + 4;

const HAS_PATH: u8 = 1;
const HAS_INSTANCE: u8 = 2;
const HAS_USER_AGENT: u8 = 4;
const HAS_HOP: u8 = 8;
const HAS_CONNECTION: u8 = 16;
const IS_V6: u8 = 32;
const HAS_Q: u8 = 64;

impl Record {
    /// How many bindings, expired ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.first_chunk::<COUNT>().map_or(0, |count| usize::from(u16::from_le_bytes(*count)))
    }

    /// Whether there is no binding; does not occur in a record that [`RecordBuilder::finish`] gave.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the first of the bindings ends.
    #[must_use]
    pub fn soonest(&self) -> Instant {
        let mut read = Reader(self.0.get(COUNT..).unwrap_or_default());
        Instant::from_secs(u64::from(read.u32().unwrap_or_default()))
    }

    /// The address-of-record in canonical form.
    #[must_use]
    pub fn aor(&self) -> &[u8] {
        self.behind_header().slice().unwrap_or_default()
    }

    /// The bindings by preference, expired ones included.
    pub fn iter(&self) -> Bindings<'_> {
        let mut read = self.behind_header();
        read.slice();
        Bindings(read)
    }

    fn behind_header(&self) -> Reader<'_> {
        Reader(self.0.get(HEADER..).unwrap_or_default())
    }

    /// The bindings by preference that live at `now`.
    pub fn live(&self, now: Instant) -> impl Iterator<Item = Binding<'_>> {
        self.iter().filter(move |binding| !binding.is_expired(now))
    }

    /// The record without the bindings that `drop` names; `None` if none is left.
    #[must_use]
    pub fn without(&self, mut drop: impl FnMut(&Binding<'_>) -> bool) -> Option<Self> {
        let mut builder = RecordBuilder::new(self.aor());
        self.iter().filter(|binding| !drop(binding)).for_each(|binding| builder.push(binding));
        builder.finish()
    }

    /// Size of the packed bytes.
    #[must_use]
    pub fn packed_bytes(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Record {
    type Item = Binding<'a>;
    type IntoIter = Bindings<'a>;
    fn into_iter(self) -> Bindings<'a> {
        self.iter()
    }
}

impl core::fmt::Debug for Record {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The bindings of a [`Record`].
#[derive(Clone, Debug)]
pub struct Bindings<'a>(Reader<'a>);

impl<'a> Iterator for Bindings<'a> {
    type Item = Binding<'a>;
    fn next(&mut self) -> Option<Binding<'a>> {
        self.0.binding()
    }
}

/// Collects bindings and packs them into a [`Record`].
#[derive(Debug)]
pub struct RecordBuilder<'a> {
    aor: &'a [u8],
    bindings: Vec<Binding<'a>>,
}

impl<'a> RecordBuilder<'a> {
    /// For the address-of-record `aor` in canonical form, with no binding yet.
    #[must_use]
    pub const fn new(aor: &'a [u8]) -> Self {
        Self { aor, bindings: Vec::new() }
    }

    /// Adds a binding; `q` above 1000 is taken as 1000. The record holds at most 65,535, later ones are not kept.
    pub fn push(&mut self, binding: Binding<'a>) {
        if self.bindings.len() < usize::from(u16::MAX) {
            self.bindings.push(Binding { q: binding.q.min(1000), ..binding });
        }
    }

    /// The bindings so far.
    #[must_use]
    pub fn bindings(&self) -> &[Binding<'a>] {
        &self.bindings
    }

    /// The bindings so far, to change or take away.
    pub fn bindings_mut(&mut self) -> &mut Vec<Binding<'a>> {
        &mut self.bindings
    }

    /// Orders by preference and packs; `None` if there is no binding.
    #[must_use]
    pub fn finish(mut self) -> Option<Record> {
        let soonest = self.bindings.iter().map(|b| b.expires_at).min()?;
        self.bindings.sort_by(|a, b| b.q.cmp(&a.q).then(b.updated_at.cmp(&a.updated_at)));
        let len = HEADER + slice_len(self.aor) + self.bindings.iter().map(packed_len).sum::<usize>();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&u16::try_from(self.bindings.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend_from_slice(&seconds(soonest).to_le_bytes());
        write_slice(&mut bytes, self.aor);
        for binding in &self.bindings {
            write_binding(&mut bytes, binding);
        }
        Some(Record(bytes.into_boxed_slice()))
    }
}

/// Exactly what [`write_binding`] writes: a buffer cut to size later would leave holes all over the heap.
fn packed_len(b: &Binding<'_>) -> usize {
    let optional = |bytes: &[u8]| if bytes.is_empty() { 0 } else { slice_len(bytes) };
    let instance = if b.instance.is_empty() && b.reg_id == 0 { 0 } else { 4 + slice_len(b.instance) };
    let q = if b.q == Q_DEFAULT { 0 } else { 2 };
    let hop = b.received.map_or(0, |hop| {
        let ip = if hop.peer.is_ipv6() { 16 } else { 4 };
        5 + ip + if hop.connection.is_some() { 8 } else { 0 }
    });
    13 + q
        + hop
        + slice_len(b.contact)
        + slice_len(b.call_id)
        + optional(b.path)
        + instance
        + optional(b.user_agent)
}

/// Whole seconds, rounded up, so that what is kept never ends early.
fn seconds(at: Instant) -> u32 {
    u32::try_from(at.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX)
}

fn write_binding(out: &mut Vec<u8>, b: &Binding<'_>) {
    let mut flags = 0;
    let mut set = |flag: u8, on: bool| flags |= if on { flag } else { 0 };
    set(HAS_PATH, !b.path.is_empty());
    set(HAS_INSTANCE, !b.instance.is_empty() || b.reg_id != 0);
    set(HAS_USER_AGENT, !b.user_agent.is_empty());
    set(HAS_HOP, b.received.is_some());
    set(HAS_CONNECTION, b.received.is_some_and(|hop| hop.connection.is_some()));
    set(IS_V6, b.received.is_some_and(|hop| hop.peer.is_ipv6()));
    set(HAS_Q, b.q != Q_DEFAULT);
    out.push(flags);
    out.extend_from_slice(&seconds(b.expires_at).to_le_bytes());
    // Rounded down: "registered at" may not lie ahead of now.
    out.extend_from_slice(&u32::try_from(b.updated_at.as_secs()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&b.cseq.to_le_bytes());
    if b.q != Q_DEFAULT {
        out.extend_from_slice(&b.q.to_le_bytes());
    }
    if let Some(hop) = b.received {
        out.push(transport_code(hop.transport));
        out.extend_from_slice(&hop.listener.0.to_le_bytes());
        out.extend_from_slice(&hop.peer.port().to_le_bytes());
        match hop.peer.ip() {
            IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
        }
        if let Some(connection) = hop.connection {
            out.extend_from_slice(&connection.0.to_le_bytes());
        }
    }
    write_slice(out, b.contact);
    write_slice(out, b.call_id);
    if !b.path.is_empty() {
        write_slice(out, b.path);
    }
    if !b.instance.is_empty() || b.reg_id != 0 {
        out.extend_from_slice(&b.reg_id.to_le_bytes());
        write_slice(out, b.instance);
    }
    if !b.user_agent.is_empty() {
        write_slice(out, b.user_agent);
    }
}

/// How many bytes [`write_slice`] writes.
const fn slice_len(bytes: &[u8]) -> usize {
    bytes.len() + if bytes.len() < 255 { 1 } else { 5 }
}

/// A length of one byte below 255, else 255 and four bytes; then the bytes.
fn write_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(len) if len < u8::MAX => out.push(len),
        _ => {
            out.push(u8::MAX);
            out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

const fn transport_code(transport: Transport) -> u8 {
    match transport {
        Transport::Udp => 0,
        Transport::Tcp => 1,
        Transport::Tls => 2,
        Transport::Ws => 3,
        Transport::Wss => 4,
    }
}

const fn transport_of(code: u8) -> Option<Transport> {
    match code {
        0 => Some(Transport::Udp),
        1 => Some(Transport::Tcp),
        2 => Some(Transport::Tls),
        3 => Some(Transport::Ws),
        4 => Some(Transport::Wss),
        _ => None,
    }
}

/// Walks packed bytes; past the end every read is `None`.
#[derive(Clone, Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn slice(&mut self) -> Option<&'a [u8]> {
        let len = match self.u8()? {
            u8::MAX => usize::try_from(self.u32()?).ok()?,
            len => usize::from(len),
        };
        self.take(len)
    }

    fn binding(&mut self) -> Option<Binding<'a>> {
        let flags = self.u8()?;
        let has = |flag: u8| flags & flag != 0;
        let expires_at = Instant::from_secs(u64::from(self.u32()?));
        let updated_at = Instant::from_secs(u64::from(self.u32()?));
        let cseq = self.u32()?;
        let q = if has(HAS_Q) { self.u16()? } else { Q_DEFAULT };
        let received = if has(HAS_HOP) { Some(self.hop(flags)?) } else { None };
        let contact = self.slice()?;
        let call_id = self.slice()?;
        let path = if has(HAS_PATH) { self.slice()? } else { &[] };
        let (reg_id, instance) = if has(HAS_INSTANCE) { (self.u32()?, self.slice()?) } else { (0, &[][..]) };
        let user_agent = if has(HAS_USER_AGENT) { self.slice()? } else { &[] };
        Some(Binding {
            contact,
            q,
            expires_at,
            updated_at,
            call_id,
            cseq,
            path,
            received,
            instance,
            reg_id,
            user_agent,
        })
    }

    fn hop(&mut self, flags: u8) -> Option<Hop> {
        let transport = transport_of(self.u8()?)?;
        let listener = ListenerId(self.u16()?);
        let port = self.u16()?;
        let ip = if flags & IS_V6 == 0 {
            IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))
        } else {
            IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))
        };
        let connection = if flags & HAS_CONNECTION == 0 {
            None
        } else {
            Some(ConnectionId(u64::from_le_bytes(self.array()?)))
        };
        Some(Hop { transport, listener, peer: SocketAddr::new(ip, port), connection })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn binding(contact: &[u8], q: u16, updated: u64) -> Binding<'_> {
        Binding {
            contact,
            q,
            expires_at: Instant::from_secs(3600),
            updated_at: Instant::from_secs(updated),
            call_id: b"c1@phone",
            cseq: 1,
            path: b"",
            received: None,
            instance: b"",
            reg_id: 0,
            user_agent: b"",
        }
    }

    /// RFC 3261 §16.6 step 1 tries by q; among equals the latest registration is the likelier one.
    #[test]
    fn bindings_come_by_q_and_then_the_most_recent_first() {
        let mut builder = RecordBuilder::new(b"a@h");
        for (contact, q, at) in [(&b"sip:a@h"[..], 500, 1), (b"sip:b@h", 1000, 1), (b"sip:c@h", 500, 2)] {
            builder.push(binding(contact, q, at));
        }
        let record = builder.finish().unwrap();
        let order: Vec<_> = record.iter().map(|b| b.contact.to_vec()).collect();
        assert_eq!(order, [b"sip:b@h".to_vec(), b"sip:c@h".to_vec(), b"sip:a@h".to_vec()]);
    }

    /// A promise of 60 s made at 10.9 s ends at 70.9 s; kept in whole seconds it ends at 71 s, never at 70 s.
    #[test]
    fn a_binding_kept_in_seconds_never_ends_early() {
        let mut builder = RecordBuilder::new(b"a@h");
        let ends = Instant::from_nanos(70_900_000_000);
        builder.push(Binding { expires_at: ends, ..binding(b"sip:a@h", 1000, 10) });
        let record = builder.finish().unwrap();
        assert_eq!(record.live(Instant::from_nanos(70_899_999_999)).count(), 1);
        assert_eq!(record.live(Instant::from_secs(71)).count(), 0);
        assert_eq!(record.iter().next().unwrap().remaining_secs(Instant::from_nanos(10_900_000_000)), 60);
    }

    prop_compose! {
        fn any_hop()(
            code in 0u8..5, listener: u16, v6: bool, ip: u128, port: u16, connection: Option<u64>,
        ) -> Hop {
            let ip = if v6 { IpAddr::V6(ip.into()) } else { IpAddr::V4(Ipv4Addr::from((ip >> 96) as u32)) };
            Hop {
                transport: transport_of(code).unwrap(),
                listener: ListenerId(listener),
                peer: SocketAddr::new(ip, port),
                connection: connection.map(ConnectionId),
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_packed_is_what_is_read(
            texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 5),
            q in 0u16..=1000, expires: u32, updated: u32, cseq: u32, reg_id: u32,
            aor in proptest::collection::vec(any::<u8>(), 0..300), received in proptest::option::of(any_hop()),
        ) {
            let one = Binding {
                contact: &texts[0], call_id: &texts[1], path: &texts[2], instance: &texts[3],
                user_agent: &texts[4], q, cseq, reg_id, received,
                expires_at: Instant::from_secs(expires.into()), updated_at: Instant::from_secs(updated.into()),
            };
            let mut builder = RecordBuilder::new(&aor);
            builder.push(one);
            builder.push(one);
            let record = builder.finish().unwrap();
            prop_assert_eq!(record.packed_bytes(), HEADER + slice_len(&aor) + 2 * packed_len(&one));
            prop_assert_eq!(record.aor(), aor);
            prop_assert_eq!(record.iter().collect::<Vec<_>>(), [one, one]);
            prop_assert_eq!((record.len(), record.soonest()), (2, one.expires_at));
        }
    }
}
