//! The arrows between crates: nothing points up, or at the simulator.

use std::path::Path;

use super::Report;

/// Each crate and the project's crates that it may use, besides those that its own may use. A crate that is not
/// listed here has no place in the picture yet: put it there first.
const ARROWS: &[(&str, &[&str])] = &[
    ("tandem-base", &[]),
    ("tandem-sip", &["tandem-base"]),
    ("tandem-auth", &["tandem-sip"]),
    ("tandem-transaction", &["tandem-sip"]),
    ("tandem-registrar", &["tandem-sip"]),
    ("tandem-proxy", &["tandem-transaction"]),
    ("tandem-balance", &["tandem-sip"]),
    ("tandem-ua", &["tandem-transaction", "tandem-auth"]),
    ("tandem-node", &["tandem-proxy", "tandem-registrar", "tandem-auth", "tandem-balance"]),
    ("tandem-sim", &["tandem-node", "tandem-ua"]),
    ("tandem-net", &["tandem-sip"]),
    ("tandem-shard", &["tandem-net"]),
    ("tandem-resolve", &["tandem-sip"]),
    ("tandem-config", &["tandem-sip"]),
    ("tandem-telemetry", &["tandem-sip"]),
    ("tandem-store", &["tandem-registrar", "tandem-auth", "tandem-config"]),
    ("tandem-stone", &["tandem-ua", "tandem-shard"]),
    ("tandem-lab", &["tandem-balance"]),
    (
        "tandem",
        &[
            "tandem-node",
            "tandem-balance",
            "tandem-shard",
            "tandem-resolve",
            "tandem-config",
            "tandem-telemetry",
            "tandem-store",
            "tandem-stone",
            "tandem-lab",
        ],
    ),
    ("tandem-interop", &["tandem"]),
    ("tandem-bench", &["tandem"]),
    ("tandem-fuzz", &["tandem"]),
    ("xtask", &[]),
];

/// Checks the dependencies that ship; tests may use what they like.
pub(super) fn check(path: &Path, text: &str, report: &mut Report) {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return report.error(path, error.message()),
    };
    let Some(name) =
        manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str)
    else {
        return; // the workspace's own
    };
    if !ARROWS.iter().any(|(from, _)| *from == name) {
        return report
            .error(path, format!("`{name}` has no place among the arrows in xtask/src/tidy/arrows.rs"));
    }
    for section in ["dependencies", "build-dependencies"] {
        let Some(dependencies) = manifest.get(section).and_then(toml::Value::as_table) else { continue };
        for dependency in dependencies.keys().filter(|name| is_ours(name)) {
            if !reaches(name, dependency) {
                report.error(
                    path,
                    format!("`{name}` may not use `{dependency}`: that arrow points up or across"),
                );
            }
        }
    }
}

fn is_ours(name: &str) -> bool {
    name == "tandem" || name.starts_with("tandem-")
}

/// True if `from` may use `to`, directly or because what it uses may.
fn reaches(from: &str, to: &str) -> bool {
    ARROWS
        .iter()
        .filter(|(name, _)| *name == from)
        .flat_map(|(_, below)| below.iter())
        .any(|below| *below == to || reaches(below, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(manifest: &str) -> usize {
        let mut report = Report::default();
        check(Path::new("Cargo.toml"), manifest, &mut report);
        report.errors.len()
    }

    #[test]
    fn the_proxy_may_use_transactions_and_not_the_registrar() {
        let manifest = "[package]\nname = \"tandem-proxy\"\n[dependencies]\ntandem-base.workspace = true\n";
        assert_eq!(errors(&format!("{manifest}tandem-transaction.workspace = true\n")), 0);
        assert_eq!(errors(&format!("{manifest}tandem-registrar.workspace = true\n")), 1);
        assert_eq!(errors(&format!("{manifest}[dev-dependencies]\ntandem-registrar.workspace = true\n")), 0);
    }

    #[test]
    fn nothing_that_ships_uses_the_simulator() {
        assert_eq!(errors("[package]\nname = \"tandem\"\n[dependencies]\ntandem-sim.workspace = true\n"), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_reported() {
        assert_eq!(errors("[package]\nname = \"tandem-surprise\"\n"), 1);
    }
}
