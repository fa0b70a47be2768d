//! One row of `location`, and the binding it stands for.
//!
//! Text in the database is UTF-8 without control characters: other octets are percent-escaped, which leaves a URI the
//! same URI. The listener a phone came in by is kept by its address (`udp:192.0.2.1:5060`, as Kamailio writes it), so
//! that it is found again when the configuration lists the listeners in another order.

use std::net::SocketAddr;
use std::sync::Arc;

use tandem_registrar::{Binding, Change, Locations, LocationsFull, RecordBuilder, parse_q, split_aor};
use tandem_sip::{Hop, ListenerId, Transport, Uri, unescape};

use crate::Times;

/// The node's listeners by address.
#[derive(Clone, Debug, Default)]
pub struct Sockets(Arc<[(ListenerId, Transport, SocketAddr)]>);

impl Sockets {
    /// From the configuration's listeners.
    #[must_use]
    pub fn new(listeners: impl IntoIterator<Item = (ListenerId, Transport, SocketAddr)>) -> Self {
        Self(listeners.into_iter().collect())
    }

    /// `udp:192.0.2.1:5060`; empty for one that is not listed.
    pub(crate) fn text(&self, listener: ListenerId) -> String {
        let found = self.0.iter().find(|(id, _, _)| *id == listener);
        found.map(|(_, transport, address)| format!("{transport}:{address}")).unwrap_or_default()
    }

    /// The listener of a text as [`Sockets::text`] writes it, or else the first of `transport`.
    fn find(&self, text: &str, transport: Transport) -> Option<ListenerId> {
        let exact = self.0.iter().find(|(_, t, address)| *t == transport && format!("{t}:{address}") == text);
        exact.or_else(|| self.0.iter().find(|(_, t, _)| *t == transport)).map(|(id, _, _)| *id)
    }
}

/// A row as text and numbers; `batch` and `id` are the writer's business.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LocationRow {
    pub(crate) username: String,
    pub(crate) domain: String,
    pub(crate) contact: String,
    pub(crate) received: String,
    pub(crate) path: String,
    pub(crate) expires: i64,
    /// Thousandths.
    pub(crate) q: u16,
    pub(crate) callid: String,
    pub(crate) cseq: i64,
    pub(crate) last_modified: i64,
    pub(crate) user_agent: String,
    pub(crate) socket: String,
    pub(crate) instance: String,
    pub(crate) reg_id: i64,
}

impl LocationRow {
    /// The row of a binding of `aor`, its times as the wall clock shows them.
    ///
    /// `last_modified` is when the row was written, which is what [`Times::left`] needs; the order of registrations
    /// among equal q is that of writing.
    pub(crate) fn of(aor: &[u8], binding: &Binding<'_>, sockets: &Sockets, times: Times) -> Self {
        let (username, domain) = aor_columns(aor);
        let (received, socket) = match binding.received {
            Some(hop) => (received_uri(hop), sockets.text(hop.listener)),
            None => (String::new(), String::new()),
        };
        Self {
            username,
            domain,
            contact: text(binding.contact),
            received,
            path: text(binding.path),
            expires: times.unix_of(binding.expires_at),
            q: binding.q,
            callid: text(binding.call_id),
            cseq: i64::from(binding.cseq),
            last_modified: times.unix,
            user_agent: text(binding.user_agent),
            socket,
            instance: text(binding.instance),
            reg_id: i64::from(binding.reg_id),
        }
    }

    /// What [`LocationRow::apply`] would do, as far as the row alone tells.
    pub(crate) fn check(&self, times: Times) -> Applied {
        match row_ref(self).defect() {
            Some(defect) => Applied::Bad(defect),
            None if times.left(self.last_modified, self.expires) == 0 => Applied::Expired,
            None => Applied::Taken,
        }
    }

    /// The canonical address-of-record.
    pub(crate) fn aor(&self) -> Vec<u8> {
        row_ref(self).aor()
    }

    /// Adds the row's binding to `locations`, unless one for the same contact is there already.
    pub(crate) fn apply(&self, locations: &Locations, sockets: &Sockets, times: Times) -> Applied {
        row_ref(self).apply(locations, sockets, times)
    }
}

/// A row whose texts are borrowed: a million are read at start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRef<'a> {
    pub(crate) username: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) contact: &'a str,
    pub(crate) received: &'a str,
    pub(crate) path: &'a str,
    pub(crate) expires: i64,
    pub(crate) q: u16,
    pub(crate) callid: &'a str,
    pub(crate) cseq: i64,
    pub(crate) last_modified: i64,
    pub(crate) user_agent: &'a str,
    pub(crate) socket: &'a str,
    pub(crate) instance: &'a str,
    pub(crate) reg_id: i64,
}

/// What became of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Applied {
    Taken,
    Expired,
    /// A binding for this contact is there already.
    Present,
    /// It can't be a binding; the text says why.
    Bad(&'static str),
    Full,
}

fn row_ref(row: &LocationRow) -> RowRef<'_> {
    RowRef {
        username: &row.username,
        domain: &row.domain,
        contact: &row.contact,
        received: &row.received,
        path: &row.path,
        expires: row.expires,
        q: row.q,
        callid: &row.callid,
        cseq: row.cseq,
        last_modified: row.last_modified,
        user_agent: &row.user_agent,
        socket: &row.socket,
        instance: &row.instance,
        reg_id: row.reg_id,
    }
}

impl<'a> RowRef<'a> {
    /// Reads the fields of one row as the loader's SELECT joins them.
    pub(crate) fn from_fields(mut fields: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut next = || fields.next();
        let row = Self {
            username: next()?,
            domain: next()?,
            contact: next()?,
            received: next()?,
            path: next()?,
            expires: next()?.parse().ok()?,
            q: next()?.parse().ok().filter(|&q| q <= 1000)?,
            callid: next()?,
            cseq: next()?.parse().ok()?,
            last_modified: next()?.parse().ok()?,
            user_agent: next()?,
            socket: next()?,
            instance: next()?,
            reg_id: next()?.parse().ok()?,
        };
        fields.next().is_none().then_some(row)
    }

    fn aor(&self) -> Vec<u8> {
        let mut aor = Vec::with_capacity(self.username.len() + self.domain.len() + 1);
        if !self.username.is_empty() {
            aor.extend(unescape(self.username.as_bytes()));
            aor.push(b'@');
        }
        aor.extend_from_slice(self.domain.as_bytes());
        aor
    }

    /// Why the row can't be a binding.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        if self.domain.is_empty() {
            return Some("no domain");
        }
        if self.contact.bytes().any(|b| matches!(b, b'<' | b'>' | b'"'))
            || Uri::parse(self.contact.as_bytes()).is_none()
        {
            return Some("contact is no URI");
        }
        if u32::try_from(self.cseq).is_err() {
            return Some("cseq out of range");
        }
        let texts = [
            self.contact,
            self.path,
            self.callid,
            self.user_agent,
            self.instance,
            self.username,
            self.domain,
        ];
        if texts.iter().any(|text| text.bytes().any(|b| b < b' ' || b == 0x7f)) {
            return Some("control character in a text");
        }
        None
    }

    pub(crate) fn apply(&self, locations: &Locations, sockets: &Sockets, times: Times) -> Applied {
        if let Some(defect) = self.defect() {
            return Applied::Bad(defect);
        }
        let left = times.left(self.last_modified, self.expires);
        if left == 0 {
            return Applied::Expired;
        }
        let aor = self.aor();
        let binding = Binding {
            contact: self.contact.as_bytes(),
            q: self.q,
            expires_at: times.instant_of(times.unix.saturating_add(left)),
            updated_at: times.instant_of(self.last_modified.min(times.unix)),
            call_id: self.callid.as_bytes(),
            cseq: u32::try_from(self.cseq).unwrap_or_default(),
            path: self.path.as_bytes(),
            received: self.hop(sockets),
            instance: self.instance.as_bytes(),
            reg_id: u32::try_from(self.reg_id).unwrap_or_default(),
            user_agent: self.user_agent.as_bytes(),
        };
        let added = locations.update(&aor, |old| {
            if old.into_iter().flatten().any(|old| old.contact == binding.contact) {
                return Change::Keep;
            }
            let mut builder = RecordBuilder::new(&aor);
            old.into_iter().flatten().for_each(|old| builder.push(old));
            builder.push(binding);
            builder.finish().into()
        });
        match added {
            Ok(true) => Applied::Taken,
            Ok(false) => Applied::Present,
            Err(LocationsFull) => Applied::Full,
        }
    }

    /// The hop of `received` (`sip:192.0.2.4:5062;transport=tcp`) and `socket`.
    fn hop(&self, sockets: &Sockets) -> Option<Hop> {
        if self.received.is_empty() {
            return None;
        }
        let uri = Uri::parse(self.received.as_bytes())?;
        let transport = uri.transport().ok()?.unwrap_or(Transport::Udp);
        let peer = SocketAddr::new(uri.ip()?, uri.port.unwrap_or_else(|| transport.default_port()));
        // The connection, if it was one, ended with the process that wrote the row.
        Some(Hop { transport, listener: sockets.find(self.socket, transport)?, peer, connection: None })
    }
}

/// `username` and `domain` of a canonical address-of-record.
pub(crate) fn aor_columns(aor: &[u8]) -> (String, String) {
    let (user, host) = split_aor(aor);
    let mut username = String::with_capacity(user.len());
    push_escaped(user, |byte| byte == b'%', &mut username);
    (username, text(host))
}

/// UTF-8 text of any octets: control characters and what is no UTF-8 are percent-escaped.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    push_escaped(bytes, |_| false, &mut out);
    out
}

fn push_escaped(bytes: &[u8], also: impl Fn(u8) -> bool, out: &mut String) {
    let plain = |b: u8| b >= b' ' && b != 0x7f && !also(b);
    for chunk in bytes.utf8_chunks() {
        if chunk.valid().bytes().all(plain) {
            out.push_str(chunk.valid());
        } else {
            for char in chunk.valid().chars() {
                match u8::try_from(char) {
                    Ok(byte) if char.is_ascii() && !plain(byte) => push_escape(byte, out),
                    _ => out.push(char),
                }
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_escape(byte, out));
    }
}

fn push_escape(byte: u8, out: &mut String) {
    out.push('%');
    for digit in [byte >> 4, byte & 15] {
        out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase());
    }
}

fn received_uri(hop: Hop) -> String {
    match hop.transport {
        Transport::Udp => format!("sip:{}", hop.peer),
        Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => {
            format!("sip:{};transport={}", hop.peer, hop.transport)
        }
    }
}

/// Reads q as any of the databases prints a floating number; Kamailio's -1 means "not given".
pub(crate) fn read_q(text: &str) -> Option<u16> {
    if let Some(q) = parse_q(text.as_bytes()) {
        return Some(q);
    }
    let q: f64 = text.parse().ok()?;
    if q < 0.0 {
        return Some(1000);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within 0 to 1000 by the test before it"
    )]
    (q <= 1.0).then_some((q * 1000.0).round() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_base::{HashKey, Instant};

    fn sockets() -> Sockets {
        Sockets::new([
            (ListenerId(0), Transport::Udp, "192.0.2.1:5060".parse().unwrap()),
            (ListenerId(1), Transport::Tcp, "[2001:db8::1]:5060".parse().unwrap()),
        ])
    }

    /// The user part has an escaped `@`, a `%`, a NUL and an octet that is no UTF-8; all come back.
    #[test]
    fn any_address_of_record_and_hop_come_back_as_they_were() {
        let aor = b"a@b%41\0\xff@h";
        let hop = Hop {
            transport: Transport::Tcp,
            listener: ListenerId(1),
            peer: "[2001:db8::2]:40000".parse().unwrap(),
            connection: None,
        };
        let binding = Binding {
            contact: b"sip:a@h;x=%41",
            q: 333,
            expires_at: Instant::from_secs(160),
            updated_at: Instant::from_secs(100),
            call_id: b"id",
            cseq: u32::MAX,
            path: b"<sip:p;lr>,<sip:q;lr>",
            received: Some(hop),
            instance: b"<urn:uuid:1>",
            reg_id: 2,
            user_agent: "Téléphone".as_bytes(),
        };
        let times = Times { now: Instant::from_secs(100), unix: 1_800_000_000 };
        let row = LocationRow::of(aor, &binding, &sockets(), times);
        assert_eq!((row.username.as_str(), row.domain.as_str()), ("a@b%2541%00%FF", "h"));
        assert_eq!(
            (row.received.as_str(), row.socket.as_str()),
            ("sip:[2001:db8::2]:40000;transport=tcp", "tcp:[2001:db8::1]:5060")
        );
        let locations = Locations::new(HashKey::from_bytes([0; 16]), 10);
        assert_eq!(row.apply(&locations, &sockets(), times), Applied::Taken);
        assert_eq!(row.apply(&locations, &sockets(), times), Applied::Present);
        assert_eq!(locations.lookup(aor, times.now, |found| assert_eq!(found, binding)), 1);
    }

    #[test]
    fn a_row_that_can_be_no_binding_says_why() {
        let good = LocationRow {
            username: "a".into(),
            domain: "h".into(),
            contact: "sip:a@h".into(),
            callid: "c".into(),
            expires: 100,
            ..LocationRow::default()
        };
        let locations = Locations::new(HashKey::from_bytes([0; 16]), 1);
        let times = Times { now: Instant::ZERO, unix: 50 };
        let apply = |row: LocationRow| row.apply(&locations, &sockets(), times);
        assert_eq!(
            apply(LocationRow { contact: "sip:a@h>\r\nX: y".into(), ..good.clone() }),
            Applied::Bad("contact is no URI")
        );
        assert_eq!(
            apply(LocationRow { path: "a\nb".into(), ..good.clone() }),
            Applied::Bad("control character in a text")
        );
        assert_eq!(apply(LocationRow { cseq: -1, ..good.clone() }), Applied::Bad("cseq out of range"));
        assert_eq!(apply(LocationRow { expires: 50, ..good.clone() }), Applied::Expired);
        assert_eq!(apply(good.clone()), Applied::Taken);
        assert_eq!(apply(LocationRow { username: "b".into(), ..good }), Applied::Full);
    }

    #[test]
    fn q_is_read_as_databases_print_it() {
        let read = ["1", "0.5", "1.00", "-1.00", "0.70000001", "1e-1", "2", "x"].map(read_q);
        assert_eq!(read, [Some(1000), Some(500), Some(1000), Some(1000), Some(700), Some(100), None, None]);
    }
}
