//! The log: one line an event on standard error, as text or JSON, its level changeable while the node runs.
//!
//! Levels: ERROR needs an operator now, WARN may need one soon, INFO is a change an operator acts on, DEBUG may name
//! addresses and users, TRACE has every message. Libraries are heard at WARN and above only, whatever the level.
//!
//! Left out: files and rotation, which the journal or a supervisor does better.

use crate::escape::Escaping;
use core::fmt;
use std::io;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry, fmt as lines, reload};

/// How a line is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the log starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// The level of Tandem's own events.
    pub level: LevelFilter,
    /// How a line is written.
    pub format: LogFormat,
    /// Whether journald reads it: then it gets priorities, and stamps the time itself.
    pub journald: bool,
}

/// Changes the level while the log runs.
#[derive(Clone)]
pub struct LogHandle(reload::Handle<Targets, Registry>);

impl LogHandle {
    /// Logs from `level` on.
    ///
    /// # Errors
    ///
    /// Only when the log itself is gone, at the end of the process.
    pub fn set_level(&self, level: LevelFilter) -> io::Result<()> {
        self.0.reload(targets(level)).map_err(io::Error::other)
    }
}

impl fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogHandle")
    }
}

/// Starts the process' log on standard error.
///
/// # Errors
///
/// If a log was started before.
pub fn start_log(options: LogOptions) -> io::Result<LogHandle> {
    let (subscriber, handle) = subscriber(options, io::stderr);
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)?;
    Ok(handle)
}

/// A target is heard if it starts with `tandem`, as all of our crates do.
fn targets(level: LevelFilter) -> Targets {
    Targets::new().with_target("tandem", level).with_default(level.min(LevelFilter::WARN))
}

fn subscriber<W>(options: LogOptions, writer: W) -> (impl Subscriber + Send + Sync, LogHandle)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let LogOptions { level, format, journald } = options;
    let json = format == LogFormat::Json;
    let writer = Escaping { inner: writer, json, priorities: journald };
    let base = lines::layer().with_ansi(false).with_writer(writer);
    let layer: Box<dyn Layer<_> + Send + Sync> = match (format, journald) {
        (LogFormat::Text, false) => base.boxed(),
        (LogFormat::Text, true) => base.without_time().boxed(),
        (LogFormat::Json, false) => base.json().flatten_event(true).boxed(),
        (LogFormat::Json, true) => base.json().flatten_event(true).without_time().boxed(),
    };
    let (filter, handle) = reload::Layer::new(targets(level));
    let subscriber = Registry::default().with(filter).with(layer);
    (subscriber, LogHandle(handle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, journald: bool, log: impl FnOnce(&LogHandle)) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let options = LogOptions { level: LevelFilter::INFO, format, journald };
        let (subscriber, handle) = subscriber(options, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || log(&handle));
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// What a phone may put into a User-Agent to erase the operator's screen or to forge a line (THREATS 29).
    const HOSTILE: &str = "a\x1b[2J\r\nERROR forged\u{7f}\u{9b}31m\u{202e}txt\u{2028}end\0";

    #[test]
    fn text_from_a_peer_stays_one_line_without_control_characters() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(format, false, |_| {
                tracing::warn!(agent = HOSTILE, debug = ?HOSTILE, "agent {HOSTILE}");
            });
            assert_eq!(text.matches('\n').count(), 1, "{text:?}");
            let line = text.trim_end_matches('\n');
            assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}' || c == '\u{2028}'), "{text:?}");
            assert!(line.contains("forged") && line.contains("end"), "{text:?}");
        }
    }

    #[test]
    fn a_json_line_stays_json_with_what_was_logged() {
        let text =
            logged(LogFormat::Json, false, |_| tracing::info!(agent = HOSTILE, shard = 3, "quoted \"é\""));
        assert!(text.starts_with('{') && text.ends_with("}\n"), "{text:?}");
        assert!(text.contains(r#""shard":3"#) && text.contains(r#""quoted \"é\"""#), "{text:?}");
        assert!(
            text.contains(r"a\u001b[2J\r\nERROR forged\u007f\u009b31m\u202etxt\u2028end\u0000"),
            "{text:?}"
        );
    }

    #[test]
    fn the_level_changes_while_the_log_runs_and_libraries_stay_quiet() {
        let text = logged(LogFormat::Text, false, |handle| {
            tracing::debug!("before");
            handle.set_level(LevelFilter::DEBUG).unwrap();
            tracing::debug!("after");
            tracing::info!(target: "sqlx::query", "library at info");
            tracing::warn!(target: "sqlx::query", "library at warn");
            handle.set_level(LevelFilter::ERROR).unwrap();
            tracing::warn!("quiet again");
            tracing::warn!(target: "sqlx::query", "library quiet too");
        });
        let told: Vec<&str> = text.lines().filter_map(|line| line.split(": ").last()).collect();
        assert_eq!(told, ["after", "library at warn"], "{text}");
    }

    #[test]
    fn journald_gets_a_priority_and_no_second_time_stamp() {
        let text = logged(LogFormat::Text, true, |_| {
            tracing::error!("one");
            tracing::info!("two");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("<3>ERROR ") && lines[1].starts_with("<6> INFO "), "{text}");
    }
}
