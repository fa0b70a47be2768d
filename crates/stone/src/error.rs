//! What stops a run before it starts, each as one line that says what to change.

use std::path::Path;

/// Why a run cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum StoneError {
    /// A value of the plan or the command line makes no sense.
    #[error("{key} = `{value}`: {remedy}")]
    Plan {
        /// The option or plan key.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        remedy: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// The system's words.
        why: String,
    },
    /// A socket cannot be opened or used.
    #[error("{what}: {why}")]
    Socket {
        /// The address and what was tried.
        what: String,
        /// The system's words, and the remedy where we know one.
        why: String,
    },
    /// A scenario uses what is not supported, or is wrong.
    #[error("{file}:{line}: {why}")]
    Scenario {
        /// The scenario file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The target did not let the load begin.
    #[error("{0}")]
    Target(String),
}

impl StoneError {
    pub(crate) fn plan(key: &str, value: &str, remedy: &str) -> Self {
        Self::Plan { key: key.to_owned(), value: value.to_owned(), remedy: remedy.to_owned() }
    }

    pub(crate) fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::File { path: path.display().to_string(), why: error.to_string() }
    }

    pub(crate) fn socket(what: impl Into<String>, error: &std::io::Error) -> Self {
        // EACCES, EMFILE, EADDRINUSE, EADDRNOTAVAIL
        let remedy = match error.raw_os_error() {
            Some(13) => "; ports below 1024 need CAP_NET_BIND_SERVICE",
            Some(24) => "; raise the limit of open files (`ulimit -n`)",
            Some(98) => "; choose another port or stop who holds it (`ss -ulpn`)",
            Some(99) => "; no interface has this address",
            _ => "",
        };
        Self::Socket { what: what.into(), why: format!("{error}{remedy}") }
    }
}
