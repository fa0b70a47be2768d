//! `tandem ctl`: asks or tells a running node over its control socket.

mod bindings;
mod import;
mod node;
mod pool;
mod table;
mod users;

use crate::cli::{CtlArgs, CtlCommand};
use crate::control::client::{AskError, Client};
use crate::control::protocol::Request;
use crate::exit::{Refused, Unreachable};
use crate::files;
use std::path::PathBuf;

/// How answers are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Show {
    /// Tables and sentences for people.
    Text,
    /// JSON for scripts.
    Json,
}

/// Connects and does what was asked.
pub(crate) fn run(args: &CtlArgs) -> anyhow::Result<()> {
    let show = if args.json { Show::Json } else { Show::Text };
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => configured_socket(),
    };
    let mut client = Client::connect(&socket).map_err(Unreachable)?;
    let done = match &args.command {
        CtlCommand::Users(command) => users::run(&mut client, command, show),
        CtlCommand::Bindings(command) => bindings::run(&mut client, command, show),
        CtlCommand::Pool(command) => pool::run(&mut client, command, show),
        CtlCommand::Import(args) => import::run(&mut client, args, show),
        CtlCommand::Status => node::status(&mut client, show),
        CtlCommand::Reload => node::reload(&mut client, show),
        CtlCommand::Metrics => node::metrics(&mut client, show),
        CtlCommand::Drain => node::tell(&mut client, &Request::Drain {}, show),
        CtlCommand::Shutdown => node::tell(&mut client, &Request::Shutdown {}, show),
        CtlCommand::LogLevel { level } => node::log_level(&mut client, *level, show),
    };
    match done {
        Ok(()) => Ok(()),
        Err(CtlError::Ask(AskError::Refused(failure))) => {
            match show {
                Show::Json => println!("{}", serde_json::json!({ "error": failure })),
                Show::Text => eprintln!("tandem: {}", table::clean(&failure.message)),
            }
            Err(Refused.into())
        }
        Err(CtlError::Ask(AskError::Unreachable(error))) => Err(Unreachable(error).into()),
        Err(CtlError::Here(error)) => Err(error),
    }
}

/// The socket that a node started from here would have; a file with mistakes does not keep us from its default.
fn configured_socket() -> PathBuf {
    let config = files::find(None).and_then(|path| files::check(&path).ok()?.ok());
    config.map(|(config, _)| config).unwrap_or_default().admin.socket
}

/// Why a command could not be done.
#[derive(Debug)]
pub(crate) enum CtlError {
    /// The node refused or is not there.
    Ask(AskError),
    /// Something on this side: a file, the terminal.
    Here(anyhow::Error),
}

impl From<AskError> for CtlError {
    fn from(error: AskError) -> Self {
        Self::Ask(error)
    }
}

impl From<anyhow::Error> for CtlError {
    fn from(error: anyhow::Error) -> Self {
        Self::Here(error)
    }
}

impl From<std::io::Error> for CtlError {
    fn from(error: std::io::Error) -> Self {
        Self::Here(error.into())
    }
}
