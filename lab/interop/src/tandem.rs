//! The node: a configuration, `tandem serve`, and its users by `tandem ctl`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
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
    pub(crate) fn start(lab: &Lab, setup: &Setup, users: &[(&str, &str)]) -> Self {
        let (port, admin) = (Port::free(), Port::free());
        let addr = if setup.ipv6 { port.v6() } else { port.v4() };
        let config = lab.write("tandem/tandem.toml", &config(lab.dir(), addr, admin.v4(), setup));
        let binary = binary();
        let mut running =
            Running::start(&lab.dir().join("tandem"), "tandem", &binary.display().to_string(), |command| {
                command.arg("serve").arg("-c").arg(&config);
            });
        running.wait_until("it answers OPTIONS", Duration::from_secs(20), |_| crate::sipp::answers(addr));
        for (user, password) in users {
            ctl(&binary, &config, &["users", "add", &format!("{user}@{DOMAIN}"), "--password", password]);
        }
        Self { addr, _port: port, _admin: admin, _running: running }
    }
}

fn config(dir: &Path, addr: SocketAddr, admin: SocketAddr, setup: &Setup) -> String {
    let mode = match setup.mode {
        Mode::Stateful => "stateful",
        Mode::Stateless => "stateless",
        Mode::Redirect => "redirect",
    };
    let _ = (dir, admin);
    format!("mode = \"{mode}\"\nlisten = \"udp:{addr}\"\n")
}

fn ctl(binary: &Path, config: &Path, args: &[&str]) {
    let output = Command::new(binary).arg("ctl").arg("-c").arg(config).args(args).output();
    let output = output.expect("the node's binary starts");
    assert!(
        output.status.success(),
        "tandem ctl {}: {}{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// `TANDEM_BIN`, or the `tandem` built beside this test: `target/PROFILE/deps/TEST` → `target/PROFILE/tandem`.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("TANDEM_BIN") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("a running test knows its own file");
    let profile = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    profile.join("tandem")
}
