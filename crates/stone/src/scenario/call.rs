//! One call of a scenario: what it remembers, and how a message is rendered from that.

use core::net::{IpAddr, SocketAddr};

use tandem_base::Instant;

use super::model::{Action, Arithmetic, Comparison, Operand, Where};
use super::text::{Keyword, Piece, Text, put_sum};
use crate::digest::{Challenged, credentials};
use crate::lines::{Line, Name, Start, param, split, uri_of, values};
use crate::template::put_decimal;
use crate::users::User;

/// What all calls of a scenario share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// `[service]`.
    pub service: String,
    /// `[remote_ip]`, `[remote_port]`; where a calling end sends.
    pub remote: SocketAddr,
    /// `[local_ip]`, `[local_port]`.
    pub local: SocketAddr,
    /// Rows of the user file, each a list of fields.
    pub rows: Vec<Vec<Vec<u8>>>,
    /// User and password of `[authentication]` without its own.
    pub user: User,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: Vec<u8>,
    pub(crate) number: u32,
    pub(crate) step: usize,
    /// Orders the timers of this call: only those of the latest step count.
    pub(crate) turn: u8,
    pub(crate) variables: Vec<Vec<u8>>,
    /// The message received last, whole.
    pub(crate) received: Vec<u8>,
    /// Hashes of messages received, newest last.
    pub(crate) seen: Vec<u64>,
    /// The message sent last, and how often it was repeated.
    pub(crate) sent: Vec<u8>,
    pub(crate) repeats: u8,
    pub(crate) awaits_answer: bool,
    pub(crate) peer: SocketAddr,
    pub(crate) cseq: u32,
    pub(crate) branches: u32,
    pub(crate) peer_tag: Vec<u8>,
    pub(crate) routes: Vec<Vec<u8>>,
    pub(crate) next_url: Vec<u8>,
    pub(crate) challenge: Vec<u8>,
    pub(crate) began: Instant,
}

impl Call {
    pub(crate) fn new(id: Vec<u8>, number: u32, peer: SocketAddr, variables: usize, began: Instant) -> Self {
        Self {
            id,
            number,
            step: 0,
            turn: 0,
            variables: vec![Vec::new(); variables],
            received: Vec::new(),
            seen: Vec::new(),
            sent: Vec::new(),
            repeats: 0,
            awaits_answer: false,
            peer,
            cseq: 1,
            branches: 0,
            peer_tag: Vec::new(),
            routes: Vec::new(),
            next_url: Vec::new(),
            challenge: Vec::new(),
            began,
        }
    }

    /// The method of the request sent last; empty if an answer was.
    pub(crate) fn sent_method(&self) -> &[u8] {
        match split(&self.sent) {
            Some((Start::Request { method, .. }, _)) => method,
            Some((Start::Response { .. }, _)) | None => &[],
        }
    }

    /// Keeps what a received message says about the peer.
    pub(crate) fn learn(&mut self, message: &[u8], routes: bool, auth: bool) {
        self.received.clear();
        self.received.extend_from_slice(message);
        let Some((start, lines)) = split(message) else { return };
        let answer = matches!(start, Start::Response { .. });
        let mut found = Vec::new();
        for Line { name, value, whole } in lines {
            match name {
                Name::To if answer => self.keep_tag(value),
                Name::From if !answer => self.keep_tag(value),
                Name::Contact if routes => self.next_url = uri_of(value).unwrap_or_default().to_vec(),
                Name::RecordRoute if routes => found.extend(values(value).map(<[u8]>::to_vec)),
                Name::WwwAuthenticate | Name::ProxyAuthenticate if auth => {
                    self.challenge = whole.trim_ascii_end().to_vec()
                }
                Name::To | Name::From | Name::Contact | Name::RecordRoute | Name::WwwAuthenticate => {}
                Name::ProxyAuthenticate | Name::Via | Name::CallId | Name::CSeq | Name::Other => {}
            }
        }
        if routes {
            if answer {
                found.reverse(); // RFC 3261 §12.1.2; the answering end keeps the order (§12.1.1)
            }
            self.routes = found;
        }
    }

    fn keep_tag(&mut self, value: &[u8]) {
        if let Some(tag) = param(value, b"tag") {
            self.peer_tag = tag.to_vec();
        }
    }

    /// Renders a text; the length of what follows the empty line goes where `[len]` stands.
    pub(crate) fn render(&mut self, text: &Text, setting: &Setting, index: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(700);
        let mut length_at = None;
        self.branches += 1;
        // A line that is nothing but an absent header field goes with its end, as in SIPp.
        let mut swallow = false;
        for piece in &text.0 {
            match piece {
                Piece::Literal(text) => {
                    let rest = text.strip_prefix(b"\r\n").filter(|_| swallow);
                    out.extend_from_slice(rest.unwrap_or(text));
                    swallow = false;
                }
                Piece::Keyword(Keyword::Len(plus)) => length_at = Some((out.len(), *plus)),
                Piece::Keyword(keyword) => {
                    let before = out.len();
                    self.put(&mut out, keyword, setting, index);
                    swallow = out.len() == before && out.ends_with(b"\r\n");
                }
            }
        }
        if let Some((at, plus)) = length_at {
            let body = memchr::memmem::find(&out, b"\r\n\r\n").map_or(0, |head| out.len() - head - 4);
            let mut digits = Vec::new();
            put_sum(&mut digits, u32::try_from(body).unwrap_or_default(), plus);
            out.splice(at..at, digits);
        }
        out
    }

    fn put(&self, out: &mut Vec<u8>, keyword: &Keyword, setting: &Setting, index: usize) {
        let ip = |out: &mut Vec<u8>, ip: IpAddr| match ip {
            IpAddr::V4(ip) => out.extend_from_slice(ip.to_string().as_bytes()),
            IpAddr::V6(ip) => out.extend_from_slice(format!("[{ip}]").as_bytes()),
        };
        match keyword {
            Keyword::Service => out.extend_from_slice(setting.service.as_bytes()),
            Keyword::RemoteIp => ip(out, setting.remote.ip()),
            Keyword::RemotePort => put_decimal(out, setting.remote.port().into()),
            Keyword::Transport => out.extend_from_slice(b"UDP"),
            Keyword::LocalIp | Keyword::MediaIp => ip(out, setting.local.ip()),
            Keyword::LocalIpType | Keyword::MediaIpType => {
                out.push(if setting.local.is_ipv4() { b'4' } else { b'6' })
            }
            Keyword::LocalPort => put_decimal(out, setting.local.port().into()),
            Keyword::MediaPort => put_decimal(out, 40_000 + self.number % 10_000 * 2),
            Keyword::Len(_) => {}
            Keyword::CallId => out.extend_from_slice(&self.id),
            Keyword::CallNumber => put_decimal(out, self.number),
            Keyword::Cseq(plus) => put_sum(out, self.cseq, *plus),
            Keyword::Branch => {
                out.extend_from_slice(
                    format!("z9hG4bK-{}-{}-{index}-{}", std::process::id(), self.number, self.branches)
                        .as_bytes(),
                );
            }
            Keyword::MessageIndex => put_decimal(out, u32::try_from(index).unwrap_or_default()),
            Keyword::Pid => put_decimal(out, std::process::id()),
            Keyword::PeerTag if self.peer_tag.is_empty() => {}
            Keyword::PeerTag => {
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(&self.peer_tag);
            }
            Keyword::Routes if self.routes.is_empty() => {}
            Keyword::Routes => {
                out.extend_from_slice(b"Route: ");
                out.extend_from_slice(&self.routes.join(&b", "[..]));
            }
            Keyword::NextUrl => out.extend_from_slice(&self.next_url),
            Keyword::Last(header) => self.put_last(out, header),
            Keyword::Field(column) => out.extend_from_slice(self.field(setting, *column)),
            Keyword::Variable(place) => out.extend_from_slice(self.variable(*place)),
            Keyword::Authentication { user, password } => {
                self.put_credentials(out, setting, user.as_deref(), password.as_deref())
            }
        }
    }

    fn field<'a>(&self, setting: &'a Setting, column: usize) -> &'a [u8] {
        let row =
            (self.number as usize).checked_rem(setting.rows.len()).and_then(|row| setting.rows.get(row));
        row.and_then(|row| row.get(column)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every line of the header field, as it came, joined by line ends.
    fn put_last(&self, out: &mut Vec<u8>, header: &str) {
        let mut first = true;
        for line in split(&self.received).into_iter().flat_map(|(_, lines)| lines) {
            if is_header(&line, header) {
                if !first {
                    out.extend_from_slice(b"\r\n");
                }
                first = false;
                out.extend_from_slice(line.whole.trim_ascii_end());
            }
        }
    }

    fn put_credentials(
        &self,
        out: &mut Vec<u8>,
        setting: &Setting,
        user: Option<&[u8]>,
        password: Option<&[u8]>,
    ) {
        let Some((start, _)) =
            out.iter().position(|&byte| byte == b'\r').and_then(|end| out.split_at_checked(end))
        else {
            return;
        };
        let mut words =
            start.split(|&byte| byte == b' ').map(|word| String::from_utf8_lossy(word).into_owned());
        let (method, uri) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let text = |bytes: Option<&[u8]>, or: &str| {
            bytes.map_or_else(|| or.into(), |bytes| String::from_utf8_lossy(bytes).as_ref().into())
        };
        let user =
            User { name: text(user, &setting.user.name), password: text(password, &setting.user.password) };
        let proxy = self.challenge.to_ascii_lowercase().starts_with(b"proxy");
        let colon = self.challenge.iter().position(|&byte| byte == b':').unwrap_or_default();
        let value = self.challenge.get(colon + 1..).unwrap_or_default().trim_ascii();
        let challenged = Challenged { proxy, method: &method, uri: &uri, user: &user, cnonce: self.number };
        if let Some(line) = credentials(core::iter::once(value), &challenged) {
            out.extend_from_slice(line.trim_ascii_end());
        }
    }

    pub(crate) fn variable(&self, place: usize) -> &[u8] {
        self.variables.get(place).map(Vec::as_slice).unwrap_or_default()
    }

    fn number_in(&self, place: usize) -> f64 {
        core::str::from_utf8(self.variable(place))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or_default()
    }

    fn set(&mut self, place: usize, value: Vec<u8>) {
        if let Some(variable) = self.variables.get_mut(place) {
            *variable = value;
        }
    }

    /// Does one action; `false` if a check failed.
    pub(crate) fn act(&mut self, action: &Action, setting: &Setting, index: usize) -> bool {
        match action {
            Action::Match { regex, place, check, inverse, into } => {
                let searched = self.searched(place);
                let captures = regex.captures(&searched);
                let matched = captures.is_some();
                if let Some(captures) = captures {
                    let groups: Vec<_> =
                        captures.iter().map(|group| group.map(|group| group.as_bytes().to_vec())).collect();
                    for (&variable, group) in into.iter().zip(groups) {
                        self.set(variable, group.unwrap_or_default());
                    }
                }
                !(*check && !matched || *inverse && matched)
            }
            Action::Compute { to, how, value } => {
                let (old, right) = (self.number_in(*to), self.operand(*value));
                let result = match how {
                    Arithmetic::Assign | Arithmetic::ToNumber => right,
                    Arithmetic::Add => old + right,
                    Arithmetic::Subtract => old - right,
                    Arithmetic::Multiply => old * right,
                    Arithmetic::Divide => old / right,
                };
                self.set(*to, result.to_string().into_bytes());
                true
            }
            Action::AssignText { to, text } => {
                let value = self.render(text, setting, index);
                self.set(*to, value);
                true
            }
            Action::Compare { to, variable, text } => {
                let value = self.render(text, setting, index);
                let equal = self.variable(*variable) == value;
                self.set(*to, if equal { b"0".to_vec() } else { b"1".to_vec() });
                true
            }
            Action::Test { to, variable, compare, value } => {
                let (left, right) = (self.number_in(*variable), self.operand(*value));
                let truth = match compare {
                    Comparison::Equal => (left - right).abs() < f64::EPSILON,
                    Comparison::NotEqual => (left - right).abs() >= f64::EPSILON,
                    Comparison::Greater => left > right,
                    Comparison::Less => left < right,
                    Comparison::GreaterEqual => left >= right,
                    Comparison::LessEqual => left <= right,
                };
                self.set(*to, if truth { b"1".to_vec() } else { Vec::new() });
                true
            }
            Action::Say(text) => {
                let text = self.render(text, setting, index);
                eprintln!("call {}: {}", self.number, String::from_utf8_lossy(&text));
                true
            }
        }
    }

    fn operand(&self, operand: Operand) -> f64 {
        match operand {
            Operand::Number(number) => number,
            Operand::Variable(place) => self.number_in(place),
        }
    }

    fn searched(&self, place: &Where) -> Vec<u8> {
        match place {
            Where::Message => self.received.clone(),
            Where::Body => {
                let body = memchr::memmem::find(&self.received, b"\r\n\r\n")
                    .and_then(|head| self.received.get(head + 4..));
                body.unwrap_or_default().to_vec()
            }
            Where::Header(header) => {
                let mut lines = split(&self.received).into_iter().flat_map(|(_, lines)| lines);
                lines.find(|line| is_header(line, header)).map(|line| line.value.to_vec()).unwrap_or_default()
            }
        }
    }
}

/// Whether a line is of the header field named in lower case, in either spelling (RFC 3261 §7.3.3).
fn is_header(line: &Line<'_>, name: &str) -> bool {
    let known = match name {
        "via" | "v" => Some(Name::Via),
        "from" | "f" => Some(Name::From),
        "to" | "t" => Some(Name::To),
        "call-id" | "i" => Some(Name::CallId),
        "cseq" => Some(Name::CSeq),
        "contact" | "m" => Some(Name::Contact),
        "record-route" => Some(Name::RecordRoute),
        _ => None,
    };
    let written = line.whole.split(|&byte| byte == b':').next().unwrap_or_default().trim_ascii();
    known.map_or_else(|| written.eq_ignore_ascii_case(name.as_bytes()), |known| line.name == known)
}
