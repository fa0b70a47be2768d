//! The command line, with the text of `--help` and of the manual pages.

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  tandem serve                      start the newcomer's node, all on loopback
  tandem check tandem.toml          tell every mistake of a file
  tandem ctl status                 how the running node is
  tandem ctl users add alice        a user of the first domain; the password is asked for

Files:
  ./tandem.toml, /etc/tandem/tandem.toml   the configuration, the first that exists
  tandem.db                                users and bindings ([store] path)
  tandem.secret                            the key that signs nonces and routes ([auth] secret_file)
  tandem.sock                              the control socket ([admin] socket)

Exit codes:
  0 done   1 refused or failed   2 the command line makes no sense   3 no node answers";

const SERVE_AFTER: &str = "\
Signals:
  SIGHUP         read the configuration again; one with a mistake changes nothing
  SIGTERM, SIGINT  drain: no new calls, those in progress may finish until [admin] drain; then exit
  the second     exit now

Environment:
  NOTIFY_SOCKET, WATCHDOG_USEC   set by systemd: readiness, reload, stop and watchdog are told
  JOURNAL_STREAM                 set by systemd: the log has priorities instead of times

Examples:
  tandem serve                          all on loopback, domain localhost
  tandem serve --newcomer               the same, with users alice and bob
  tandem serve -c /etc/tandem/tandem.toml";

const CHECK_AFTER: &str = "\
Output:
  file:line:column: key: what is wrong; what to do

Exit codes:
  0 sound, warnings or not   1 mistakes, or the file can't be read";

const CTL_AFTER: &str = "\
The socket is the one of --socket, else of TANDEM_SOCKET, else [admin] socket of the configuration that `serve` would
read from here. Only the node's own user and root are heard.

Examples:
  tandem ctl status
  tandem ctl --json users list | jq -r .user
  tandem ctl users add alice@example.org < /dev/null    make a password and print it
  tandem ctl import kamailio.sql

Exit codes:
  0 done   1 the node refused   2 the command line makes no sense   3 no node answers";

const IMPORT_AFTER: &str = "\
An SQLite file and a dump (mysqldump, mariadb-dump, pg_dump, or `sqlite3 FILE .dump`) are told apart by their content.
Columns are found by name where the dump has them, else in Kamailio's order.

A user with a password in the clear gets both digests; one with ha1 only can use MD5 only, until the password is
changed. Bindings that have expired, or that are registered here already, are left out, and each row that is left out
is told with its reason.

Examples:
  mysqldump kamailio subscriber location > kamailio.sql && tandem ctl import kamailio.sql
  tandem ctl import --dry-run /var/lib/kamailio/kamailio.sqlite";

/// Keeps phone calls up: a SIP registrar and proxy in one binary.
#[derive(Parser, Debug)]
#[command(name = "tandem", version, after_help = AFTER, max_term_width = 110, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is to be done.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a node until it is told to stop.
    #[command(after_help = SERVE_AFTER)]
    Serve(ServeArgs),
    /// Tell every mistake of a configuration file.
    #[command(after_help = CHECK_AFTER)]
    Check(CheckArgs),
    /// Show configuration: in force, sample, reference; import other servers' pools.
    Config(ConfigArgs),
    /// Ask or tell a running node.
    #[command(after_help = CTL_AFTER)]
    Ctl(CtlArgs),
    /// Offer load and measure what comes back: calls, registrations, single ends, bars.
    #[command(after_help = crate::stone::AFTER)]
    Stone(Box<StoneArgs>),
    /// Do the papers' experiments on what ships, and say which of their claims hold.
    Lab(LabArgs),
    /// Print a shell's completion script.
    ///
    /// For bash: tandem completions bash > /usr/share/bash-completion/completions/tandem
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory.
    ///
    /// Example: tandem man /usr/local/share/man/man1
    Man(ManArgs),
}

/// Options of `tandem serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Make users alice and bob if there is no user yet, and print their passwords once, on standard output, with the
    /// lines for a first call. Without a configuration file, MD5 digests only are offered, which every phone knows.
    #[arg(long)]
    pub(crate) newcomer: bool,
}

/// Options of `tandem check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The file to check.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

/// Options of `tandem config`.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What of the configuration is shown.
#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// The values that a start would have in force, defaults included.
    Show {
        /// The configuration file.
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        config: Option<PathBuf>,
    },
    /// A commented file with every key at its default.
    Sample,
    /// The tables of docs/CONFIG.md, as Markdown.
    Reference,
    /// The destinations of a Kamailio or OpenSIPS as pool tables, to be put into a configuration.
    ///
    /// Reads Kamailio's dispatcher.list, and the tables dispatcher (Kamailio) and load_balancer (OpenSIPS) in a dump or
    /// an SQLite file. What has no counterpart stands in comments.
    ///
    /// Example: tandem config import /etc/kamailio/dispatcher.list >> tandem.toml
    Import {
        /// The file.
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// Options of `tandem ctl`.
#[derive(Args, Debug)]
pub(crate) struct CtlArgs {
    /// The node's control socket.
    #[arg(long, global = true, value_name = "PATH", env = "TANDEM_SOCKET", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON instead of tables; of a list, one object a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

/// What the node is asked.
#[derive(Subcommand, Debug)]
pub(crate) enum CtlCommand {
    /// How the node is: state, users, bindings, load.
    Status,
    /// Users who may register and call.
    #[command(subcommand)]
    Users(UsersCommand),
    /// Where users can be reached now.
    #[command(subcommand)]
    Bindings(BindingsCommand),
    /// The balancer's pools: list, drain, change, and why a call went where it went.
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Check the configuration file as a whole and apply what changed.
    Reload,
    /// Take no new calls; those in progress go on, and the node stays.
    Drain,
    /// Drain, then exit.
    Shutdown,
    /// The text of /metrics.
    Metrics,
    /// Change what is logged, until the next reload or restart.
    LogLevel {
        /// The level.
        #[arg(value_enum)]
        level: Level,
    },
    /// Take over users and bindings of Kamailio.
    #[command(after_help = IMPORT_AFTER)]
    Import(ImportArgs),
}

/// Levels of the log.
#[derive(Clone, Copy, ValueEnum, Debug)]
pub(crate) enum Level {
    /// What needs an operator now.
    Error,
    /// What may need one soon.
    Warn,
    /// Changes an operator acts on.
    Info,
    /// Addresses and names too.
    Debug,
    /// Every message.
    Trace,
}

/// What is done with users. A USER without @ is one of the node's first domain.
#[derive(Subcommand, Debug)]
pub(crate) enum UsersCommand {
    /// Add a user.
    Add(PasswordArgs),
    /// Change a user's password.
    Passwd(PasswordArgs),
    /// Remove a user and the user's bindings.
    Del {
        /// As alice or alice@example.org.
        user: String,
    },
    /// List the users, without their passwords, which the node does not know.
    List,
}

/// A user and the source of a password.
#[derive(Args, Debug)]
pub(crate) struct PasswordArgs {
    /// As alice or alice@example.org.
    pub(crate) user: String,
    /// Read the password from the first line of standard input. Else it is asked for on the terminal; without a
    /// terminal one is made and printed.
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

/// What is done with bindings.
#[derive(Subcommand, Debug)]
pub(crate) enum BindingsCommand {
    /// List bindings, of all users or of one.
    List {
        /// As alice or alice@example.org.
        user: Option<String>,
    },
    /// Remove a user's bindings, or one of them. The phone may register again.
    Remove {
        /// As alice or alice@example.org.
        user: String,
        /// The contact's URI as it is listed; without it, all.
        #[arg(long, value_name = "URI")]
        contact: Option<String>,
    },
}

/// What is done with pools. A DESTINATION is an id, or POOL/ID where there are several pools. What `weight`, `add` and
/// `remove` change holds until the next reload, when the file rules again.
#[derive(Subcommand, Debug)]
pub(crate) enum PoolCommand {
    /// List the destinations with their state and live load.
    List {
        /// One pool only.
        pool: Option<String>,
    },
    /// Give a destination no new calls; those that it has go on.
    Drain {
        /// ID or POOL/ID.
        destination: String,
    },
    /// Let a drained or disabled destination take calls again.
    Resume {
        /// ID or POOL/ID.
        destination: String,
    },
    /// As drain, and stop probing it.
    Disable {
        /// ID or POOL/ID.
        destination: String,
    },
    /// Change a destination's share of new calls.
    Weight {
        /// ID or POOL/ID.
        destination: String,
        /// Relative to the others' weights; 0 for no new calls.
        weight: u16,
    },
    /// Add a destination.
    Add {
        /// ID or POOL/ID.
        destination: String,
        /// Its address and port.
        #[arg(value_name = "HOST:PORT")]
        address: String,
        /// Its share of new calls, relative to the others' weights.
        #[arg(long, default_value_t = 1)]
        weight: u16,
        /// What divides its load.
        #[arg(long)]
        capacity: Option<u32>,
        /// Used only while all of lower numbers are out.
        #[arg(long, default_value_t = 0)]
        priority: u8,
        /// The cluster it is a member of.
        #[arg(long)]
        cluster: Option<String>,
    },
    /// Remove a destination; its calls go on.
    Remove {
        /// ID or POOL/ID.
        destination: String,
    },
    /// Tell where a call is, and why.
    Why {
        /// The call's Call-ID.
        #[arg(value_name = "CALL-ID")]
        call_id: String,
    },
}

/// What is imported.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// An SQL dump or an SQLite file with Kamailio's `subscriber`, `location` or both. The node reads it.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Only say what would be taken.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace the passwords of users who are here already; else they keep theirs.
    #[arg(long)]
    pub(crate) replace: bool,
    /// The domain of rows without one; by default the node's first.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// How far Kamailio's local time was ahead of UTC, in seconds; it stores local times without saying which.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) utc_offset: i64,
}

/// Options of `tandem stone`.
#[derive(Args, Debug)]
pub(crate) struct StoneArgs {
    #[command(subcommand)]
    pub(crate) stone: tandem_stone::cli::Stone,
}

/// Options of `tandem lab`.
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) lab: tandem_lab::cli::Lab,
}

/// Options of `tandem completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// Options of `tandem man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The directory, made if it is not there.
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_password_is_never_an_argument() {
        assert!(Cli::try_parse_from(["tandem", "ctl", "users", "add", "alice", "secret"]).is_err());
        assert!(
            Cli::try_parse_from(["tandem", "ctl", "users", "add", "alice", "--password", "secret"]).is_err()
        );
    }
}
