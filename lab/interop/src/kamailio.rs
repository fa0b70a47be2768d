//! Kamailio: the neighbour proxy, and the subject when the tests themselves are in question.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::{Lab, Port, Running};

/// A Kamailio that keeps its bindings in RAM and answers for one domain.
#[derive(Debug)]
pub struct Kamailio {
    /// Where it listens.
    pub addr: SocketAddr,
    _port: Port,
    _running: Running,
}

/// What the configuration is told (see `peers/kamailio.cfg`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) domain: String,
    pub(crate) defines: Vec<String>,
    pub(crate) users: Vec<(String, String)>,
    pub(crate) ipv6: bool,
}

impl Kamailio {
    /// Starts a neighbour without digest: it answers for its own address, keeps bindings, and relays the rest to
    /// where the Request-URI points.
    #[must_use]
    pub fn neighbour(lab: &Lab) -> Self {
        Self::start(
            lab,
            "neighbour",
            &Options { domain: "neighbour.invalid".to_owned(), ..Options::default() },
        )
    }

    /// Starts a registrar and proxy without digest that answers for `domain`.
    #[must_use]
    pub fn registrar(lab: &Lab, name: &str, domain: &str) -> Self {
        Self::start(lab, name, &Options { domain: domain.to_owned(), ..Options::default() })
    }

    /// Starts a neighbour that sends every request outside a dialog to `next_hop`.
    #[must_use]
    pub fn towards(lab: &Lab, next_hop: SocketAddr) -> Self {
        let defines = vec![format!("NEXTHOP=\"sip:{next_hop}\"")];
        Self::start(
            lab,
            "neighbour",
            &Options { domain: "neighbour.invalid".to_owned(), defines, ..Options::default() },
        )
    }

    pub(crate) fn start(lab: &Lab, name: &str, options: &Options) -> Self {
        let port = Port::free();
        let addr = if options.ipv6 { port.v6() } else { port.v4() };
        lab.write(&format!("{name}/domain.cfg"), &format!("alias=\"{}\"\n", options.domain));
        lab.write(&format!("{name}/users.cfg"), &users(&options.users));
        let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/kamailio.cfg");
        let text = std::fs::read_to_string(template).expect("the laboratory has its Kamailio configuration");
        let config = lab.write(&format!("{name}/kamailio.cfg"), &text);
        let dir = lab.dir().join(name);
        let mut running = Running::start(&dir, "kamailio", "/usr/sbin/kamailio", |command| {
            command.args(["-DD", "-E", "-m", "64", "-M", "8", "-l", &format!("udp:{addr}")]);
            command.arg("-f").arg(&config).arg("-Y").arg(&dir).arg("-w").arg(&dir);
            command.arg("-P").arg(dir.join("kamailio.pid"));
            for define in &options.defines {
                command.args(["-A", define]);
            }
        });
        running.wait_until("it answers OPTIONS", Duration::from_secs(10), |_| crate::sipp::answers(addr));
        Self { addr, _port: port, _running: running }
    }
}

/// The part of the configuration that knows the passwords.
fn users(users: &[(String, String)]) -> String {
    let mut text = String::from("route[PASSWORD] {\n\t$var(password) = \"\";\n");
    for (user, password) in users {
        let _ = writeln!(text, "\tif ($au == \"{user}\") $var(password) = \"{password}\";");
    }
    text.push_str("}\n");
    text
}
