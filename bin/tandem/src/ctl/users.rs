//! `tandem ctl users`: who may register and call.

use crate::cli::UsersCommand;
use crate::control::client::Client;
use crate::control::protocol::{Request, UserEntry};
use crate::ctl::{CtlError, Show, table};
use crate::password::{Password, obtain};
use serde_json::{Value, json};
use std::io::Write as _;

/// Adds, changes, removes or lists.
pub(crate) fn run(client: &mut Client, command: &UsersCommand, show: Show) -> Result<(), CtlError> {
    match command {
        UsersCommand::Add(args) => {
            let password = obtain(&args.user, args.password_stdin)?;
            let text = password.text().to_owned();
            let answer = client.ask(&Request::UsersAdd { user: args.user.clone(), password: text })?;
            told(&answer, "added", Some(&password), show)
        }
        UsersCommand::Passwd(args) => {
            let password = obtain(&args.user, args.password_stdin)?;
            let text = password.text().to_owned();
            let answer = client.ask(&Request::UsersPasswd { user: args.user.clone(), password: text })?;
            told(&answer, "changed", Some(&password), show)
        }
        UsersCommand::Del { user } => {
            let answer = client.ask(&Request::UsersDel { user: user.clone() })?;
            told(&answer, "removed", None, show)
        }
        UsersCommand::List => list(client, show),
    }
}

/// Says what was done to whom; a password made here is shown this once.
fn told(answer: &Value, done: &str, password: Option<&Password>, show: Show) -> Result<(), CtlError> {
    let user = answer.get("user").and_then(Value::as_str).unwrap_or_default();
    let made = match password {
        Some(Password::Made(made)) => Some(made),
        Some(Password::Given(_)) | None => None,
    };
    let mut out = std::io::stdout().lock();
    match (show, made) {
        (Show::Json, Some(made)) => writeln!(out, "{}", json!({ "user": user, "password": made })),
        (Show::Json, None) => writeln!(out, "{}", json!({ "user": user })),
        (Show::Text, Some(made)) => writeln!(out, "{done} {}, password {made}", table::clean(user)),
        (Show::Text, None) => writeln!(out, "{done} {}", table::clean(user)),
    }?;
    Ok(())
}

fn list(client: &mut Client, show: Show) -> Result<(), CtlError> {
    let mut entries: Vec<UserEntry> = Vec::new();
    client.pages(|after| Request::UsersList { after }, |page| entries.extend(page))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match show {
        Show::Json => entries.iter().try_for_each(|entry| writeln!(out, "{}", json!(entry)))?,
        Show::Text => {
            let rows: Vec<_> =
                entries.into_iter().map(|UserEntry { user, digests }| [user, digests]).collect();
            table::write(&mut out, ["USER", "DIGESTS"], &rows)?;
        }
    }
    Ok(out.flush()?)
}
