//! The clocks of the load tool: one that never jumps, and the CPU time of this thread and process.

use core::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tandem_base::Instant;

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let nanos = u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or_default();
    Duration::from_nanos(nanos)
}

/// Now, since the system's start; the same for all processes of a host.
#[must_use]
pub fn now() -> Instant {
    Instant::ZERO + read(ClockId::Monotonic)
}

/// CPU time that this thread has used, user and system.
pub(crate) fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// CPU time that this process has used, user and system.
pub(crate) fn process_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// Seconds since 1970, for reports and to tell runs apart.
pub(crate) fn wall() -> Duration {
    read(ClockId::Realtime)
}
