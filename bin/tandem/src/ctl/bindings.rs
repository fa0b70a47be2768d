//! `tandem ctl bindings`: where users can be reached now.

use crate::cli::BindingsCommand;
use crate::control::client::Client;
use crate::control::protocol::{BindingEntry, Request};
use crate::ctl::{CtlError, Show, table};
use serde_json::{Value, json};
use std::io::Write as _;

/// Lists or removes.
pub(crate) fn run(client: &mut Client, command: &BindingsCommand, show: Show) -> Result<(), CtlError> {
    match command {
        BindingsCommand::List { user } => list(client, user.as_deref(), show),
        BindingsCommand::Remove { user, contact } => {
            let request = Request::BindingsRemove { user: user.clone(), contact: contact.clone() };
            let answer = client.ask(&request)?;
            let removed = answer.get("removed").and_then(Value::as_u64).unwrap_or_default();
            let mut out = std::io::stdout().lock();
            match show {
                Show::Json => writeln!(out, "{answer}")?,
                Show::Text => writeln!(out, "removed {removed}")?,
            }
            Ok(())
        }
    }
}

fn list(client: &mut Client, user: Option<&str>, show: Show) -> Result<(), CtlError> {
    let mut entries: Vec<BindingEntry> = Vec::new();
    let request = |after| Request::BindingsList { user: user.map(ToOwned::to_owned), after };
    client.pages(request, |page| entries.extend(page))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match show {
        Show::Json => entries.iter().try_for_each(|entry| writeln!(out, "{}", json!(entry)))?,
        Show::Text => {
            let rows: Vec<_> = entries.into_iter().map(row).collect();
            table::write(&mut out, ["USER", "CONTACT", "EXPIRES", "Q", "RECEIVED", "AGENT"], &rows)?;
        }
    }
    Ok(out.flush()?)
}

fn row(entry: BindingEntry) -> [String; 6] {
    let BindingEntry { user, contact, expires_in_secs, q, received, user_agent, path: _ } = entry;
    let q = format!("{}.{:03}", q / 1_000, q % 1_000);
    [user, contact, table::duration(expires_in_secs), q, received.unwrap_or_default(), user_agent]
}
