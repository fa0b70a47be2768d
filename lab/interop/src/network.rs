//! Three machines in one: a caller and a server, each behind a link of its own, and a router between them.
//!
//! A test runs itself again inside fresh user, mount and network namespaces, where nobody else is and nothing needs a
//! privilege outside. That run is on the router; [`on`] starts programs on the other two.

use std::process::Command;

use crate::{Lab, Running};

const INSIDE: &str = "TANDEM_TEST_INSIDE";

/// The router's address on the caller's link.
pub const ROUTER: &str = "10.1.0.1";
/// The caller.
pub const CALLER: &str = "10.1.0.2";
/// The server.
pub const SERVER: &str = "10.2.0.2";

/// The caller and the server reach each other through the router, as they would reach each other without a balancer.
const SCRIPT: &str = r#"set -e
mount -t tmpfs none /run
ip link set lo up
for link in 1:caller 2:server; do
    net=${link%:*} name=${link#*:}
    ip netns add "$name"
    ip link add "to-$name" type veth peer name eth0 netns "$name"
    ip addr add "10.$net.0.1/24" dev "to-$name"
    ip link set "to-$name" up
    ip -n "$name" addr add "10.$net.0.2/24" dev eth0
    ip -n "$name" link set lo up
    ip -n "$name" link set eth0 up
    ip -n "$name" route add default via "10.$net.0.1"
done
echo 1 > /proc/sys/net/ipv4/ip_forward
exec "$0" --exact "$1" --nocapture"#;

/// Whether this is the run inside. Else makes that run, and it must succeed.
///
/// # Panics
///
/// If the namespaces can't be made, or the test fails inside; with what was said there.
#[must_use]
pub fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "--mount", "sh", "-c", SCRIPT])
        .arg(std::env::current_exe().expect("a running program knows its own file"))
        .arg(test)
        .env(INSIDE, "1")
        .output()
        .expect("util-linux' unshare starts");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "inside the namespaces:\n{said}");
    assert!(said.contains("1 passed"), "no test of that name ran inside:\n{said}");
    false
}

/// Starts `program` on the machine `machine`, `caller` or `server`.
#[must_use]
pub fn on(machine: &str, lab: &Lab, name: &str, program: &str, args: &[&str]) -> Running {
    Running::start(lab.dir(), name, "ip", |command| {
        command.args(["netns", "exec", machine, program]).args(args);
    })
}
