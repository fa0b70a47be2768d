//! `tandem ctl status | reload | drain | shutdown | metrics | log-level`: the node as a whole.

use crate::cli::Level;
use crate::control::client::Client;
use crate::control::protocol::{Reloaded, Request, Status};
use crate::ctl::{CtlError, Show, table};
use std::io::Write as _;

/// How the node is.
pub(crate) fn status(client: &mut Client, show: Show) -> Result<(), CtlError> {
    if show == Show::Json {
        return tell(client, &Request::Status {}, show);
    }
    let status: Status = client.ask_for(&Request::Status {})?;
    Ok(write_status(&mut std::io::stdout().lock(), &status)?)
}

/// Has the configuration read again, and tells what changed.
pub(crate) fn reload(client: &mut Client, show: Show) -> Result<(), CtlError> {
    if show == Show::Json {
        return tell(client, &Request::Reload {}, show);
    }
    let reloaded: Reloaded = client.ask_for(&Request::Reload {})?;
    Ok(write_reloaded(&mut std::io::stdout().lock(), &reloaded)?)
}

/// The text of `/metrics`; with `--json` as one JSON string.
pub(crate) fn metrics(client: &mut Client, show: Show) -> Result<(), CtlError> {
    if show == Show::Json {
        return tell(client, &Request::Metrics {}, show);
    }
    let text: String = client.ask_for(&Request::Metrics {})?;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Changes what is logged.
pub(crate) fn log_level(client: &mut Client, level: Level, show: Show) -> Result<(), CtlError> {
    tell(client, &Request::LogLevel { level: level_word(level).to_owned() }, show)
}

/// Tells the node something that has no answer but that it was done.
pub(crate) fn tell(client: &mut Client, request: &Request, show: Show) -> Result<(), CtlError> {
    let answer = client.ask(request)?;
    let mut out = std::io::stdout().lock();
    match show {
        Show::Json => writeln!(out, "{answer}")?,
        Show::Text => writeln!(out, "{}: done", request.name())?,
    }
    Ok(())
}

const fn level_word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

fn write_status(out: &mut impl std::io::Write, status: &Status) -> std::io::Result<()> {
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut row = |name: &str, value: String| rows.push([name.to_owned(), value]);
    row("state", status.state.clone());
    status.reasons.iter().for_each(|reason| row("  because", reason.clone()));
    row("version", status.version.clone());
    row("process", status.pid.to_string());
    row("up", table::duration(status.uptime_secs));
    row("configuration", status.config.clone().unwrap_or_else(|| "none: defaults".to_owned()));
    status.restart_pending.iter().for_each(|key| row("  needs a restart", key.clone()));
    row("domains", status.domains.join(", "));
    row("listeners", status.listen.join(", "));
    row("shards", status.shards.to_string());
    row("users", status.users.to_string());
    row("bindings", format!("{} of {} users", status.bindings, status.aors));
    row("in progress", status.in_progress.to_string());
    row("transactions", status.transactions.to_string());
    table::write(out, ["node", &table::clean(&status.node)], &rows)
}

fn write_reloaded(out: &mut impl std::io::Write, reloaded: &Reloaded) -> std::io::Result<()> {
    for warning in &reloaded.warnings {
        writeln!(out, "{}", table::clean(warning))?;
    }
    if reloaded.applied.is_empty() && reloaded.restart.is_empty() {
        writeln!(out, "nothing changed")?;
    }
    for change in &reloaded.applied {
        writeln!(out, "applied: {}", table::clean(change))?;
    }
    for change in &reloaded.restart {
        writeln!(out, "needs a restart: {}", table::clean(change))?;
    }
    Ok(())
}
