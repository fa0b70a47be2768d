//! `tandem ctl import`: users and bindings of Kamailio.

use crate::cli::ImportArgs;
use crate::control::client::Client;
use crate::control::protocol::{Imported, ImportedTable, Request};
use crate::ctl::{CtlError, Show, table};
use anyhow::Context as _;
use std::io::Write as _;

/// Has the node read the file, and tells what it took and what it left, with the reasons.
pub(crate) fn run(client: &mut Client, args: &ImportArgs, show: Show) -> Result<(), CtlError> {
    // The node's working directory may be another one.
    let file = std::fs::canonicalize(&args.file).with_context(|| format!("{}", args.file.display()))?;
    let request = Request::Import {
        file,
        dry_run: args.dry_run,
        replace: args.replace,
        domain: args.domain.clone(),
        utc_offset_secs: args.utc_offset,
    };
    let mut out = std::io::stdout().lock();
    match show {
        Show::Json => writeln!(out, "{}", client.ask(&request)?)?,
        Show::Text => {
            let Imported { users, bindings } = client.ask_for(&request)?;
            let done = if args.dry_run { "would be taken" } else { "taken" };
            write(&mut out, "users", done, &users)?;
            write(&mut out, "bindings", done, &bindings)?;
        }
    }
    Ok(())
}

fn write(out: &mut impl std::io::Write, what: &str, done: &str, rows: &ImportedTable) -> std::io::Result<()> {
    writeln!(out, "{what}: {} {done}", rows.taken)?;
    for (why, count) in &rows.skipped {
        let first = rows.first_skipped.iter().find(|(_, reason)| reason == why);
        let first = first.map(|(line, _)| format!(" (the first in line {line})")).unwrap_or_default();
        writeln!(out, "  left out: {count} because {}{first}", table::clean(why))?;
    }
    Ok(())
}
