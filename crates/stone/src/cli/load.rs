//! Runs one load and prints what came of it.

use std::sync::OnceLock;

use super::args::LoadArgs;
use super::{Done, stop};
use crate::drive::Control;
use crate::follow::Progress;
use crate::load::Workload;
use crate::report::write_folder;
use crate::run::Roles;

/// What the signal thread and the run share.
pub(super) fn control() -> &'static Control {
    static CONTROL: OnceLock<Control> = OnceLock::new();
    CONTROL.get_or_init(Control::default)
}

pub(super) fn run(args: &LoadArgs, workload: Option<Workload>, roles: Roles) -> Done {
    let run = args.to_run(workload, roles)?;
    let prepared = run.prepare()?;
    let control = control();
    let limit = if roles == Roles::Callee { args.length } else { None };
    stop::on_signal(&control.stop, limit);
    if roles == Roles::Callee && !args.quiet {
        let addresses: Vec<String> = prepared.callees().map(|addr| addr.to_string()).collect();
        eprintln!("answering at {}", addresses.join(", "));
    }
    let quiet = args.quiet;
    let report = prepared.run(control, &mut |progress| {
        if !quiet {
            line(progress);
        }
    })?;
    if let Some(folder) = &args.out {
        write_folder(folder, std::slice::from_ref(&report))?;
    }
    if args.json {
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
    Ok(report.stands())
}

/// One line a second.
pub(super) fn line(progress: &Progress) {
    let Progress { second, happened, open, cpu } = progress;
    let over = happened.succeeded + happened.failed;
    #[expect(clippy::cast_precision_loss, reason = "counts of one second fit a double")]
    let success = if over == 0 { 100.0 } else { happened.succeeded as f64 * 100.0 / over as f64 };
    eprintln!(
        "{second:>5} s {:>7}/s  ok {success:>7.3} %  open {open:>7}  p50 {:>8.3} ms  p99 {:>8.3} ms  cpu {:>5.1} %",
        happened.started,
        happened.setup.at_us(0.5) / 1e3,
        happened.setup.at_us(0.99) / 1e3,
        cpu * 100.0
    );
}
