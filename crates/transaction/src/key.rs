//! Matching requests to server transactions: RFC 3261 §17.2.3.
//!
//! A transaction is known by a keyed 128-bit hash of what has to match; no text is kept. With the magic cookie that
//! is branch, `sent-by` and method, the ACK counting as its INVITE. Without it (RFC 2543) it is Request-URI, both
//! tags, Call-ID, CSeq number and the topmost Via. There the ACK carries the To tag of our response, so an INVITE
//! gets a second entry in the index once that is known.

use tandem_base::HashKey;
use tandem_sip::{HeaderName, Message, Method, Via};

/// What a new request's transaction will be known by; from [`Layer::receive_request`](crate::Layer::receive_request)
/// to [`Layer::open_server`](crate::Layer::open_server).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerKey {
    pub(crate) hash: u128,
    /// The hash of all but the To tag and the method, for a request of RFC 2543.
    pub(crate) legacy: Option<u128>,
    pub(crate) method: Method,
}

impl ServerKey {
    /// The request's method.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.method
    }
}

/// The secrets under which requests are hashed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matcher {
    modern: HashKey,
    legacy: HashKey,
}

impl Matcher {
    pub(crate) fn new(key: HashKey) -> Self {
        Self { modern: key.derive(b"transaction"), legacy: key.derive(b"transaction of RFC 2543") }
    }

    /// The key under which `request` opens a transaction, or repeats the request of one.
    pub(crate) fn key(&self, request: &Message<'_>) -> ServerKey {
        let method = request.method();
        let is_ack = method == Method::Ack;
        let token = if is_ack { b"INVITE" } else { request.method_token() };
        match request.via().unique_branch() {
            Some(branch) => {
                ServerKey { hash: self.modern(request.via(), branch, token), legacy: None, method }
            }
            None => {
                let base = self.legacy_base(request);
                let hash = if is_ack {
                    self.legacy_ack(base, to_tag(request))
                } else {
                    self.legacy_request(base, to_tag(request), token)
                };
                ServerKey { hash, legacy: Some(base), method }
            }
        }
    }

    /// The hash of the INVITE that `cancel` means (§9.2).
    pub(crate) fn cancelled(&self, cancel: &Message<'_>) -> u128 {
        match cancel.via().unique_branch() {
            Some(branch) => self.modern(cancel.via(), branch, b"INVITE"),
            None => self.legacy_request(self.legacy_base(cancel), to_tag(cancel), b"INVITE"),
        }
    }

    /// The hash of the request that a response of ours answers; `None` for a request of RFC 2543.
    pub(crate) fn answered(&self, response: &Message<'_>) -> Option<u128> {
        let branch = response.via().unique_branch()?;
        Some(self.modern(response.via(), branch, response.cseq().method_token))
    }

    /// The hash of the ACK that will acknowledge `response` to the INVITE with the given base.
    pub(crate) fn legacy_acknowledged(&self, base: u128, response: &Message<'_>) -> u128 {
        self.legacy_ack(base, to_tag(response))
    }

    fn modern(&self, via: &Via<'_>, branch: &[u8], method: &[u8]) -> u128 {
        let mut hasher = self.modern.hasher128();
        hasher.part(branch);
        // Host names match in any case (§17.2.3 with §7.3.1).
        let mut lower = [0; 32];
        for chunk in via.host.chunks(lower.len()) {
            for (to, from) in lower.iter_mut().zip(chunk) {
                *to = from.to_ascii_lowercase();
            }
            hasher.bytes(lower.get(..chunk.len()).unwrap_or_default());
        }
        hasher.word(via.host.len() as u64);
        hasher.word(via.port.unwrap_or(0).into());
        hasher.part(method);
        hasher.finish()
    }

    fn legacy_base(&self, request: &Message<'_>) -> u128 {
        let mut hasher = self.legacy.hasher128();
        hasher.part(request.request_uri());
        hasher.part(request.from().and_then(|from| from.tag()).unwrap_or_default());
        hasher.part(request.call_id());
        hasher.word(request.cseq().number.into());
        hasher.part(request.values(HeaderName::Via).next().map(|via| via.bytes).unwrap_or_default());
        hasher.finish()
    }

    fn legacy_request(&self, base: u128, to_tag: &[u8], method: &[u8]) -> u128 {
        self.legacy.hash128(&[&base.to_le_bytes(), to_tag, method])
    }

    fn legacy_ack(&self, base: u128, to_tag: &[u8]) -> u128 {
        self.legacy.hash128(&[&base.to_le_bytes(), to_tag, b"ACK"])
    }
}

fn to_tag<'a>(message: &Message<'a>) -> &'a [u8] {
    message.to().and_then(|to| to.tag()).unwrap_or_default()
}
