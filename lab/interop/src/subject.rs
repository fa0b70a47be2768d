//! The proxy and registrar being tested: the node, or Kamailio in its place.

use std::net::SocketAddr;

use crate::kamailio::{Kamailio, Options};
use crate::tandem::Tandem;
use crate::{Lab, Sipp};

/// How the subject forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Transaction stateful: RFC 3261 §16.
    #[default]
    Stateful,
    /// Stateless: RFC 3261 §16.11.
    Stateless,
    /// Answers 302 with the bindings.
    Redirect,
}

/// What a test asks of the subject.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// How it forwards.
    pub mode: Mode,
    /// Listens on ::1 in place of 127.0.0.1.
    pub ipv6: bool,
    /// Asks nobody for a password.
    pub open: bool,
    /// Offers SHA-256 before MD5, as the node does by default; for peers that go on to the challenge they know.
    pub sha_256: bool,
}

/// Every user of the laboratory: name and password.
const USERS: [(&str, &str); 4] =
    [("alice", "wonderland"), ("bob", "builder"), ("carol", "christmas"), ("dave", "hal9000")];

/// The domain the subject answers for.
pub(crate) const DOMAIN: &str = "localhost";

/// A running subject.
#[derive(Debug)]
pub struct Subject {
    addr: SocketAddr,
    open: bool,
    process: Process,
}

#[derive(Debug)]
enum Process {
    #[expect(dead_code, reason = "kept alive, ended when dropped")]
    Tandem(Tandem),
    #[expect(dead_code, reason = "kept alive, ended when dropped")]
    Kamailio(Kamailio),
}

impl Subject {
    /// Starts the subject named by `TANDEM_SUBJECT` (`tandem`, the default, or `kamailio`) with the laboratory's
    /// users; digest is required for REGISTER and for calls, unless it is to be open.
    ///
    /// # Panics
    ///
    /// If it does not come up, or the name is another.
    #[must_use]
    pub fn start(lab: &Lab, setup: &Setup) -> Self {
        Self::named(lab, "subject", setup)
    }

    /// The same in a directory of this name, so that there may be several.
    ///
    /// # Panics
    ///
    /// If it does not come up, or the name is another.
    #[must_use]
    pub fn named(lab: &Lab, name: &str, setup: &Setup) -> Self {
        let kind = std::env::var("TANDEM_SUBJECT").unwrap_or_else(|_| "tandem".to_owned());
        match kind.as_str() {
            "tandem" => {
                let tandem = Tandem::start(lab, name, setup, &USERS);
                Self { addr: tandem.addr, open: setup.open, process: Process::Tandem(tandem) }
            }
            "kamailio" => {
                let kamailio = Kamailio::start(lab, name, &kamailio_options(setup));
                Self { addr: kamailio.addr, open: setup.open, process: Process::Kamailio(kamailio) }
            }
            other => panic!("TANDEM_SUBJECT is `{other}`; known are tandem and kamailio"),
        }
    }

    /// Whether Kamailio is in the node's place.
    #[must_use]
    pub const fn is_kamailio(&self) -> bool {
        matches!(self.process, Process::Kamailio(_))
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The domain it answers for.
    #[must_use]
    pub fn domain(&self) -> &'static str {
        DOMAIN
    }

    /// The password of one of the laboratory's users.
    ///
    /// # Panics
    ///
    /// If there is no such user.
    #[must_use]
    pub fn password(&self, user: &str) -> &'static str {
        USERS.iter().find(|(name, _)| *name == user).map(|(_, password)| *password).expect("a known user")
    }

    /// Registers `contact` for `user` with SIPp and digest, and waits for the 200.
    pub fn register(&self, lab: &Lab, user: &str, contact: &str) {
        self.sipp(lab, "register", user).key("contact", contact).key("expires", "600").run();
    }

    /// A SIPp that acts as `user` towards this subject, in one of `scenarios/`.
    #[must_use]
    pub fn sipp<'a>(&self, lab: &'a Lab, scenario: &'static str, user: &str) -> Sipp<'a> {
        let sipp = Sipp::new(lab, scenario, self.addr.ip())
            .to(self.addr)
            .user(user, self.password(user))
            .key("domain", self.domain());
        if self.open { sipp.unchallenged() } else { sipp }
    }
}

fn kamailio_options(setup: &Setup) -> Options {
    let mut defines = Vec::new();
    if !setup.open {
        defines.push("CHALLENGE".to_owned());
    }
    match setup.mode {
        Mode::Stateful => {}
        Mode::Stateless => defines.push("STATELESS".to_owned()),
        Mode::Redirect => defines.push("REDIRECT".to_owned()),
    }
    let users = USERS.iter().map(|(user, password)| ((*user).to_owned(), (*password).to_owned())).collect();
    Options { domain: DOMAIN.to_owned(), defines, users, ipv6: setup.ipv6 }
}
