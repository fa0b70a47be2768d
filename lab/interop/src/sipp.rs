//! SIPp: callers and callees from `scenarios/`, and one OPTIONS by hand to see whether a proxy is up.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use crate::{Lab, Port, Running};

/// SIPp gives up on a call after this long: long enough for every timer a test waits for.
const PATIENCE: Duration = Duration::from_secs(40);

/// One SIPp, to be started with [`Sipp::start`] or [`Sipp::run`].
#[derive(Debug)]
pub struct Sipp<'a> {
    lab: &'a Lab,
    scenario: &'static str,
    port: Port,
    ip: IpAddr,
    to: Option<SocketAddr>,
    calls: u32,
    args: Vec<String>,
    keys: Vec<(String, String)>,
    unchallenged: bool,
    pause: Option<Duration>,
}

impl<'a> Sipp<'a> {
    /// Prepares one call of `scenarios/NAME.xml` on a free port of `ip`.
    #[must_use]
    pub fn new(lab: &'a Lab, scenario: &'static str, ip: IpAddr) -> Self {
        Self {
            lab,
            scenario,
            port: Port::free(),
            ip,
            to: None,
            calls: 1,
            args: Vec::new(),
            keys: Vec::new(),
            unchallenged: false,
            pause: None,
        }
    }

    /// A callee: waits for calls on loopback, in the family of `like`.
    #[must_use]
    pub fn callee(lab: &'a Lab, scenario: &'static str, like: SocketAddr) -> Self {
        Self::new(lab, scenario, like.ip())
    }

    /// Sends to `to`.
    #[must_use]
    pub fn to(mut self, to: SocketAddr) -> Self {
        self.to = Some(to);
        self
    }

    /// Acts as this user, with this password when challenged.
    #[must_use]
    pub fn user(mut self, user: &str, password: &str) -> Self {
        self.args.extend(["-au", user, "-ap", password].map(str::to_owned));
        self.key("me", user)
    }

    /// Sets `[name]` in the scenario.
    #[must_use]
    pub fn key(mut self, name: &str, value: &str) -> Self {
        self.keys.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves out of the scenario the challenge and what comes before it.
    #[must_use]
    pub fn unchallenged(mut self) -> Self {
        self.unchallenged = true;
        self
    }

    /// Pauses so long wherever the scenario pauses.
    #[must_use]
    pub fn pausing(mut self, pause: Duration) -> Self {
        self.pause = Some(pause);
        self
    }

    /// Makes this many calls, ten a second; as a callee, takes this many and ends. 0: until it is stopped.
    #[must_use]
    pub fn calls(mut self, calls: u32) -> Self {
        self.calls = calls;
        self
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.number())
    }

    /// A contact URI for `user` at this SIPp.
    #[must_use]
    pub fn contact(&self, user: &str) -> String {
        format!("sip:{user}@{}", self.addr())
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// If SIPp is not installed.
    #[must_use]
    pub fn start(self) -> Started {
        let name = format!("sipp-{}-{}", self.scenario, self.port);
        let file = |what: &str| self.lab.dir().join(format!("{name}.{what}"));
        let (messages, errors) = (file("messages"), file("errors"));
        let mut scenario =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/{}.xml", self.scenario));
        if self.unchallenged || self.pause.is_some() {
            let mut text = std::fs::read_to_string(&scenario).expect("the laboratory has its scenarios");
            if self.unchallenged {
                text = without_challenge(&text);
            }
            if let Some(pause) = self.pause {
                text = text.replace(
                    "<pause milliseconds=\"100\"/>",
                    &format!("<pause milliseconds=\"{}\"/>", pause.as_millis()),
                );
            }
            scenario = self.lab.write(&format!("{name}.xml"), &text);
        }
        let addr = self.addr();
        let running = Running::start(self.lab.dir(), &name, "sipp", |command| {
            command.arg("-sf").arg(scenario).args([
                "-nostdin",
                "-timeout_error",
                "-skip_rlimit",
                "-trace_msg",
            ]);
            command.arg("-message_file").arg(&messages).arg("-trace_err").arg("-error_file").arg(&errors);
            command.args(["-i", &bracketed(self.ip), "-p", &addr.port().to_string()]);
            if self.calls > 0 {
                command.args(["-m", &self.calls.to_string()]);
                command.args(["-timeout", &format!("{}s", PATIENCE.as_secs())]);
            }
            command.args(["-r", "10", "-l", "100", "-max_retrans", "12", "-aa"]);
            command.args(&self.args);
            for (name, value) in &self.keys {
                command.args(["-key", name, value]);
            }
            command.args(["-auth_uri", &self.request_target()]);
            if let Some(to) = self.to {
                command.arg(to.to_string());
            }
        })
        .with_log(errors)
        .with_log(messages.clone());
        let mut started = Started { running, messages, addr, _port: self.port };
        if self.to.is_none() {
            started.running.wait_until("it listens", Duration::from_secs(5), |_| taken(addr));
        }
        started
    }

    /// What follows `sip:` in the Request-URI of the challenged request, which credentials must repeat (RFC 7616
    /// §3.4); SIPp would write the address it sends to.
    fn request_target(&self) -> String {
        let key = |wanted: &str| {
            self.keys.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
        };
        let domain = key("domain").unwrap_or_default();
        match key("peer") {
            Some(peer) => format!("{peer}@{}", key("away").unwrap_or(domain)),
            None => domain.to_owned(),
        }
    }

    /// Runs it to its end, which must be a success.
    ///
    /// # Panics
    ///
    /// If a call did not go as the scenario says.
    pub fn run(self) {
        self.start().expect_success();
    }
}

/// A running SIPp.
#[derive(Debug)]
pub struct Started {
    running: Running,
    messages: std::path::PathBuf,
    addr: SocketAddr,
    _port: Port,
}

impl Started {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Waits for its calls to have gone as the scenario says.
    ///
    /// # Panics
    ///
    /// If one did not.
    pub fn expect_success(&mut self) {
        self.running.expect_success(PATIENCE + Duration::from_secs(5));
    }

    /// Waits until what it sent and received is as wanted.
    ///
    /// # Panics
    ///
    /// If that does not come, with `what`.
    pub fn wait_messages(&mut self, what: &str, mut wanted: impl FnMut(&str) -> bool) {
        let messages = self.messages.clone();
        self.running.wait_until(what, PATIENCE, |_| wanted(&read(&messages)));
    }

    /// The requests it received, each with its Call-ID.
    #[must_use]
    pub fn received(&self) -> Vec<(String, String)> {
        let text = self.messages();
        let entries = text.split("-----------------------------------------------");
        let received = entries.filter(|entry| entry.contains("message received"));
        let requests = received.filter(|entry| !entry.contains("\nSIP/2.0 "));
        let with_id = |entry: &str| {
            let id = entry.lines().find_map(|line| line.strip_prefix("Call-ID:"))?;
            let start = entry.find("\n\n").map_or(0, |at| at + 2);
            Some((id.trim().to_owned(), entry.get(start..).unwrap_or_default().to_owned()))
        };
        requests.filter_map(with_id).collect()
    }

    /// Every message it sent and received.
    #[must_use]
    pub fn messages(&self) -> String {
        read(&self.messages)
    }
}

fn read(path: &Path) -> String {
    std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}

/// The scenario from its second first request on, without credentials.
fn without_challenge(scenario: &str) -> String {
    let challenge = scenario.find("auth=\"true\"").expect("a scenario with a challenge");
    let (before, after) = scenario.split_at(challenge);
    let head = before.split("  <send").next().unwrap_or_default();
    // The ACK of the 407 comes first, where there is one.
    let again = ["INVITE sip:", "REGISTER sip:"]
        .iter()
        .find_map(|start| after.find(start))
        .expect("a second request");
    let send = after.get(..again).and_then(|text| text.rfind("  <send")).expect("a request is sent");
    let rest = after.get(send..).unwrap_or_default();
    format!("{head}{}", rest.replace("      [authentication]\n", ""))
}

/// SIPp wants IPv6 addresses in brackets, everywhere.
fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// True once somebody has bound `addr`.
fn taken(addr: SocketAddr) -> bool {
    UdpSocket::bind(addr).is_err()
}

/// True if a proxy at `addr` answers OPTIONS (RFC 3261 §11) with anything at all.
pub(crate) fn answers(addr: SocketAddr) -> bool {
    let any = if addr.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { addr.ip() };
    let Ok(socket) = UdpSocket::bind((any, 0)) else { return false };
    let Ok(local) = socket.local_addr() else { return false };
    let request = format!(
        "OPTIONS sip:{addr} SIP/2.0\r\nVia: SIP/2.0/UDP {local};rport;branch=z9hG4bKready{port}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:lab@{local}>;tag=r{port}\r\nTo: <sip:{addr}>\r\n\
         Call-ID: ready-{port}@lab\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
        port = local.port()
    );
    let mut answer = [0; 4096];
    socket.set_read_timeout(Some(Duration::from_millis(200))).is_ok()
        && socket.send_to(request.as_bytes(), addr).is_ok()
        && socket
            .recv(&mut answer)
            .is_ok_and(|length| answer.get(..length).unwrap_or_default().starts_with(b"SIP/2.0 "))
}
