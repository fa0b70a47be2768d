//! The node: a configuration, `tandem serve`, and its users by `tandem ctl`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::subject::{DOMAIN, Mode, Setup};
use crate::{Lab, Port, Running};

/// A running node.
#[derive(Debug)]
pub(crate) struct Tandem {
    pub(crate) addr: SocketAddr,
    _port: Port,
    _admin: Port,
    _running: Running,
}

impl Tandem {
    pub(crate) fn start(lab: &Lab, name: &str, setup: &Setup, users: &[(&str, &str)]) -> Self {
        let (port, admin) = (Port::free(), Port::free());
        let addr = if setup.ipv6 { port.v6() } else { port.v4() };
        let config = lab.write(&format!("{name}/tandem.toml"), &config(addr, admin.v4(), setup));
        let dir = lab.dir().join(name);
        let binary = binary();
        let mut running = Running::start(&dir, "tandem", &binary.display().to_string(), |command| {
            command.arg("serve").arg("-c").arg(&config);
        });
        running.wait_until("it answers OPTIONS", Duration::from_secs(20), |_| crate::sipp::answers(addr));
        for (user, password) in users {
            add_user(&binary, &dir, &format!("{user}@{DOMAIN}"), password);
        }
        Self { addr, _port: port, _admin: admin, _running: running }
    }
}

fn config(addr: SocketAddr, admin: SocketAddr, setup: &Setup) -> String {
    let mode = match setup.mode {
        Mode::Stateful => "stateful",
        Mode::Stateless => "stateless",
        Mode::Redirect => "redirect",
    };
    let challenge = if setup.open { "never" } else { "outside" };
    let algorithms = if setup.sha_256 { r#""SHA-256", "MD5""# } else { r#""MD5""# };
    // Interop: Debian 12's SIPp 3.6, sipsak 0.9.8 and baresip 1.0 give up at a SHA-256 challenge, although MD5 is
    // offered after it (RFC 8760 §2.4 wants them to go on).
    format!(
        "domains = [\"{DOMAIN}\"]\n\n[[listen]]\nuri = \"udp:{addr}\"\n\n[node]\nshards = 2\n\n\
         [proxy]\nmode = \"{mode}\"\n\n[auth]\nchallenge = \"{challenge}\"\nalgorithms = [{algorithms}]\n\n\
         [store]\ndurability = \"commit\"\n\n[admin]\nlisten = \"{admin}\"\n\n[log]\nlevel = \"debug\"\n"
    )
}

/// Adds a user, from the directory the node was started in, where its socket is.
fn add_user(binary: &Path, dir: &Path, user: &str, password: &str) {
    let mut ctl = Command::new(binary)
        .args(["ctl", "users", "add", user, "--password-stdin"])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the node's binary starts");
    let mut stdin = ctl.stdin.take().expect("just made");
    stdin.write_all(format!("{password}\n").as_bytes()).expect("tandem ctl reads the password");
    drop(stdin);
    let output = ctl.wait_with_output().expect("tandem ctl is our child");
    assert!(
        output.status.success(),
        "tandem ctl users add {user}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The node's program.
///
/// `TANDEM_BIN`, or the `tandem` built beside this program: `target/PROFILE/deps/TEST` → `target/PROFILE/tandem`.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("TANDEM_BIN") {
        return PathBuf::from(path);
    }
    let program = std::env::current_exe().expect("a running program knows its own file");
    let above = program.ancestors().skip(1).take(2).map(|dir| dir.join("tandem"));
    above
        .clone()
        .find(|tandem| tandem.is_file())
        .or_else(|| above.last())
        .expect("a program lies in a folder")
}
