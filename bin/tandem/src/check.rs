//! `tandem check`: every mistake of a file at once.

use crate::cli::CheckArgs;
use crate::exit::Refused;
use crate::files;

/// Prints each mistake and warning on a line; a file without mistakes is said to be sound.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let file = args.file.display();
    match files::check(&args.file)? {
        Ok((_, warnings)) => {
            for warning in &warnings {
                println!("{warning}");
            }
            println!("{file}: sound, {} warnings", warnings.len());
            Ok(())
        }
        Err(mistakes) => {
            for mistake in &mistakes {
                println!("{mistake}");
            }
            eprintln!("{file}: {} mistakes; a start or reload with this file is refused", mistakes.len());
            Err(Refused.into())
        }
    }
}
