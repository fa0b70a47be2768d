//! What an operator sees: counters, the log, and the endpoint that serves metrics and health.
//!
//! A shard owns plain cells and adds to them without a locked instruction; the control thread sums them when it is
//! asked. Nothing here is on the path of a packet but [`Counter::add`] and [`Histogram::observe`].
//!
//! Left out: traces and exporters; `/metrics` is what is scraped, the log goes to standard error.

mod admin;
mod escape;
mod exposition;
mod health;
mod log;
mod metrics;
mod systemd;

pub use admin::serve;
pub use exposition::Exposition;
pub use health::Health;
pub use log::{LogFormat, LogHandle, LogOptions, start_log};
pub use metrics::{Counter, Gauge, Histogram, Registry};
pub use systemd::{
    notify_ready, notify_reloading, notify_status, notify_stopping, notify_watchdog, watchdog_interval,
};
pub use tracing::level_filters::LevelFilter;
