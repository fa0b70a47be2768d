//! SIGINT and SIGTERM: what was started is ended first.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use super::RealError;

/// Whether a signal asked us to end.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens from now on, in a thread of its own.
    pub(super) fn on_signal() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let stop = Self(Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stop.0);
        std::thread::spawn(move || {
            // Without a runtime signals keep their default: they end the process.
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                let (Ok(mut int), Ok(mut term)) =
                    (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
                else {
                    return;
                };
                loop {
                    tokio::select! {
                        _ = int.recv() => {}
                        _ = term.recv() => {}
                    }
                    flag.store(true, Ordering::Relaxed);
                }
            });
        });
        stop
    }

    /// # Errors
    ///
    /// [`RealError::Interrupted`] once a signal came.
    pub(super) fn check(&self) -> Result<(), RealError> {
        if self.0.load(Ordering::Relaxed) { Err(RealError::Interrupted) } else { Ok(()) }
    }

    /// Waits, but not beyond a signal.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub(super) fn sleep(&self, time: Duration) -> Result<(), RealError> {
        const TURN: Duration = Duration::from_millis(20);
        let mut left = time;
        while !left.is_zero() {
            self.check()?;
            std::thread::sleep(left.min(TURN));
            left = left.saturating_sub(TURN);
        }
        self.check()
    }
}
