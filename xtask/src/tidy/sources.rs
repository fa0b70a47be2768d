//! Rust sources: nothing left undone, no clock or socket in the core, `unsafe` in one crate, files of a size to read.

use std::path::Path;

use super::Report;

/// Crates without sockets, clock, threads, global state.
const CORE: &[&str] =
    &["base", "sip", "auth", "transaction", "proxy", "registrar", "ua", "node", "sim", "balance"];
/// What a core crate may not name outside its tests, and what to do in its place.
const OUTSIDE: &[(&str, &str)] = &[
    ("std::time::Instant", "time comes in as `now`"),
    ("SystemTime", "time comes in as `now`"),
    ("std::thread", "a machine has no threads"),
    ("thread::spawn", "a machine has no threads"),
    ("thread_local!", "a machine has no state outside itself"),
    ("UdpSocket", "bytes leave by the `Outbox`"),
    ("TcpStream", "bytes leave by the `Outbox`"),
    ("TcpListener", "bytes leave by the `Outbox`"),
    ("UnixStream", "bytes leave by the `Outbox`"),
    ("tokio::", "a machine is not async"),
    ("std::fs", "a machine has no files"),
    ("std::env", "a machine is configured by its caller"),
];
/// More lines than this in one file are worth a look.
const LINES: usize = 700;

// Split, so that this file is not its own finding.
const UNDONE: &[(&str, &str)] = &[
    (concat!("to", "do!("), "left undone"),
    (concat!("unimple", "mented!("), "left undone"),
    (concat!("FIX", "ME"), "left undone"),
    (concat!("#[", "ignore"), "a test that does not run proves nothing"),
];

/// Checks one file.
pub(super) fn check(path: &Path, text: &str, report: &mut Report) {
    let lines = text.lines().count();
    if lines > LINES {
        report.warning(path, format!("{lines} lines; a file of one idea seldom needs more than 400"));
    }
    let core = is_core(path);
    let may_be_unsafe = path.starts_with("crates/net");
    let mut in_tests = path.components().any(|part| part.as_os_str() == "tests");
    for (number, line) in (1..).zip(text.lines()) {
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        let code = line.split("//").next().unwrap_or_default();
        let at = |what: &dyn std::fmt::Display| format!("line {number}: {what}");
        for (word, why) in UNDONE {
            if line.contains(word) {
                report.error(path, at(&format!("`{word}`: {why}")));
            }
        }
        if core && !in_tests {
            for (word, why) in OUTSIDE {
                if code.contains(word) {
                    report.error(path, at(&format!("`{word}` in a core crate: {why}")));
                }
            }
        }
        if !may_be_unsafe && has_unsafe(code) {
            report.error(path, at(&"unsafe code lives in crates/net"));
        }
    }
}

/// What runs the simulator's worlds, many at a time and as the environment says, is no machine itself.
const HARNESS: &str = "crates/sim/src/sweep.rs";

fn is_core(path: &Path) -> bool {
    path != Path::new(HARNESS)
        && CORE.iter().any(|name| path.starts_with(Path::new("crates").join(name).join("src")))
}

fn has_unsafe(code: &str) -> bool {
    let keyword = concat!("un", "safe");
    [" {", " fn", " impl", " extern", " trait"]
        .iter()
        .any(|after| code.contains(&format!("{keyword}{after}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(path: &str, text: &str) -> usize {
        let mut report = Report::default();
        check(Path::new(path), text, &mut report);
        report.errors.len()
    }

    #[test]
    fn a_core_crate_reads_no_clock_outside_its_tests() {
        let line = "let now = std::time::Instant::now();\n";
        assert_eq!(errors("crates/proxy/src/lib.rs", line), 1);
        assert_eq!(errors("crates/proxy/src/lib.rs", &format!("#[cfg(test)]\nmod tests {{\n{line}")), 0);
        assert_eq!(errors("crates/shard/src/lib.rs", line), 0);
        assert_eq!(errors("crates/proxy/src/lib.rs", &format!("// {line}")), 0);
    }

    #[test]
    fn unsafe_code_lives_in_one_crate() {
        let line = concat!("    un", "safe { read(fd) }\n");
        assert_eq!(errors("crates/shard/src/lib.rs", line), 1);
        assert_eq!(errors("crates/net/src/sys.rs", line), 0);
    }

    #[test]
    fn what_is_left_undone_is_reported() {
        assert_eq!(errors("crates/net/src/lib.rs", concat!("to", "do!()\n#[", "ignore]\n")), 2);
    }

    #[test]
    fn a_long_file_is_a_warning_and_no_error() {
        let mut report = Report::default();
        check(Path::new("crates/net/src/lib.rs"), &"\n".repeat(LINES + 1), &mut report);
        assert_eq!((report.errors.len(), report.warnings.len()), (0, 1));
    }
}
