//! The project's own chores.
//!
//! `cargo run -p xtask -- tidy` checks what neither rustc nor clippy looks at; `make check` calls it.

mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
            let report = tidy::run(root);
            for warning in &report.warnings {
                eprintln!("warning: {warning}");
            }
            for error in &report.errors {
                eprintln!("error: {error}");
            }
            println!("tidy: {} errors, {} warnings", report.errors.len(), report.warnings.len());
            if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy");
            ExitCode::FAILURE
        }
    }
}
