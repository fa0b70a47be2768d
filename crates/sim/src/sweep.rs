//! Many seeds of one scenario, on all cores.

use core::ops::Range;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::env;
use std::panic::{catch_unwind, resume_unwind};
use std::thread;

/// Runs `scenario` for every seed, each world in one thread and as many threads as cores.
///
/// `TANDEM_SEED=7` in the environment runs that seed alone, `SEEDS=10000` so many instead of `seeds`.
///
/// # Panics
///
/// As the first seed that fails does; its world has printed the seed and the path of its capture.
pub fn sweep(seeds: Range<u64>, scenario: impl Fn(u64) + Sync) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match (number("TANDEM_SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => seeds,
    };
    let name = thread::current().name().unwrap_or("scenario").to_owned();
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let work = || {
        while !failed.load(Relaxed) {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                break;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario(seed))) {
                failed.store(true, Relaxed);
                resume_unwind(panic);
            }
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores)
            .filter_map(|_| thread::Builder::new().name(name.clone()).spawn_scoped(scope, work).ok())
            .collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
}
