//! Who a user agent is and how it behaves.

use core::net::SocketAddr;
use core::time::Duration;

/// One user agent's identity and habits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The user part of its address-of-record.
    pub user: String,
    /// The domain of its address-of-record.
    pub domain: String,
    /// Its password.
    pub password: String,
    /// Where it listens and sends from.
    pub address: SocketAddr,
    /// Its outbound proxy and registrar; requests outside dialogs go there.
    pub proxy: SocketAddr,
    /// T1, T2, T4 and the bounds of its transaction tables.
    pub transaction: tandem_transaction::Config,
    /// The q of its Contact in registrations, such as `0.5`; none if empty.
    pub q: String,
    /// Max-Forwards of its requests.
    pub max_forwards: u8,
    /// Whether its Via asks for `rport` (RFC 3581).
    pub rport: bool,
    /// Whether it uses a challenge again for further requests, with a growing nonce count.
    pub keeps_credentials: bool,
    /// Whether it calls the contacts of a 3xx (RFC 3261 §8.1.3.4).
    pub follows_redirects: bool,
    /// What it does with incoming calls.
    pub answer: Answer,
}

impl Settings {
    /// `user@domain` at `address`, behind the proxy at `proxy`, with the habits of a common telephone.
    #[must_use]
    pub fn new(user: &str, domain: &str, address: SocketAddr, proxy: SocketAddr) -> Self {
        Self {
            user: user.to_owned(),
            domain: domain.to_owned(),
            password: format!("secret of {user}"),
            address,
            proxy,
            transaction: tandem_transaction::Config {
                servers_max: 4096,
                clients_max: 4096,
                ..tandem_transaction::Config::default()
            },
            q: String::new(),
            max_forwards: 70,
            rport: true,
            keeps_credentials: false,
            follows_redirects: false,
            answer: Answer::default(),
        }
    }

    /// Its address-of-record.
    #[must_use]
    pub fn aor(&self) -> String {
        format!("sip:{}@{}", self.user, self.domain)
    }

    /// Its contact URI.
    #[must_use]
    pub fn contact(&self) -> String {
        format!("sip:{}@{}", self.user, self.address)
    }
}

/// What a user agent does with an incoming call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// When it rings with a 180; not at all if `None`.
    pub ring_after: Option<Duration>,
    /// When it answers; not at all if `None`: it rings until cancelled.
    pub after: Option<Duration>,
    /// The final status.
    pub status: u16,
    /// Contacts of a 3xx.
    pub contacts: Vec<String>,
    /// When it hangs up, counted from the ACK; not at all if `None`.
    pub hang_up_after: Option<Duration>,
    /// Whether it loses its ability to take an ACK, so that it repeats its 2xx to the end.
    pub is_deaf_to_ack: bool,
}

impl Default for Answer {
    /// Rings at once and answers 200 after a second.
    fn default() -> Self {
        Self {
            ring_after: Some(Duration::ZERO),
            after: Some(Duration::from_secs(1)),
            status: 200,
            contacts: Vec::new(),
            hang_up_after: None,
            is_deaf_to_ack: false,
        }
    }
}

impl Answer {
    /// Rings at once and answers with `status` after `after`.
    #[must_use]
    pub fn with(status: u16, after: Duration) -> Self {
        Self { status, after: Some(after), ..Self::default() }
    }

    /// Rings and never answers.
    #[must_use]
    pub fn never() -> Self {
        Self { after: None, ..Self::default() }
    }
}
