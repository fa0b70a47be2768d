//! SIGINT and SIGTERM end a run in order, so that its result is still printed.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

/// Sets `stop` on SIGINT or SIGTERM, or after `limit`, from a thread of its own. A second signal ends the process.
pub(super) fn on_signal(stop: &'static AtomicBool, limit: Option<Duration>) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return }; // signals keep their default: they end the process
        runtime.block_on(async {
            let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            else {
                return;
            };
            let limit = async {
                match limit {
                    Some(limit) => tokio::time::sleep(limit).await,
                    None => core::future::pending().await,
                }
            };
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
                () = limit => {}
            }
            stop.store(true, Ordering::Relaxed);
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
            std::process::exit(130);
        });
    });
}
