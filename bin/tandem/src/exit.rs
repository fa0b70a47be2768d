//! How a command ends: what is told, and the exit code that scripts branch on.

use std::fmt;
use std::process::ExitCode;

/// The node, or the file, said no; what there is to say has been said.
#[derive(Debug)]
pub(crate) struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

/// No node answers on the control socket.
#[derive(Debug)]
pub(crate) struct Unreachable(
    /// What was tried.
    pub(crate) anyhow::Error,
);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Unreachable {}

/// Tells an error in one line on standard error and gives its code: 1 refused or failed, 3 no node; 2 is clap's, for
/// a command line that makes no sense.
pub(crate) fn report(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<Refused>() {
        return ExitCode::from(1);
    }
    // A reader that went away, as in `tandem config sample | head`, wants no more.
    if error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    eprintln!("tandem: {error:#}");
    ExitCode::from(if error.is::<Unreachable>() { 3 } else { 1 })
}
