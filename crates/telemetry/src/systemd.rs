//! What systemd is told by a `Type=notify` service (sd_notify(3)); nothing happens where `NOTIFY_SOCKET` is not set.

use core::time::Duration;
use sd_notify::NotifyState;

/// The node is ready, after its start or after a reload.
pub fn notify_ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The node reads its configuration anew; [`notify_ready`] follows.
pub fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// The node drains, and may take `deadline` for it.
pub fn notify_stopping(deadline: Duration) {
    let micros = u32::try_from(deadline.as_micros()).unwrap_or(u32::MAX);
    notify(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(micros)]);
}

/// A line for `systemctl status`.
pub fn notify_status(status: &str) {
    notify(&[NotifyState::Status(status)]);
}

/// The node lives; due within each [`watchdog_interval`].
pub fn notify_watchdog() {
    notify(&[NotifyState::Watchdog]);
}

/// Half of the time within which systemd wants [`notify_watchdog`]; `None` if it does not.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|timeout| timeout / 2)
}

/// A supervisor that cannot be told is no reason to stop serving.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}
