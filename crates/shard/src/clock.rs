//! The one place that reads clocks.

use core::time::Duration;
use std::time::{Instant as StdInstant, SystemTime, UNIX_EPOCH};

use tandem_base::Instant;

/// The process's monotonic clock. Copies agree, so that all shards and the control thread speak of the same instants.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: StdInstant,
}

impl Clock {
    /// A clock that shows zero now.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        clippy::new_without_default,
        reason = "this is the place that may, and a default would hide it"
    )]
    pub fn new() -> Self {
        Self { origin: StdInstant::now() }
    }

    /// The time since the clock was made.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the place that may")]
    pub fn now(&self) -> Instant {
        let passed = StdInstant::now().saturating_duration_since(self.origin);
        Instant::ZERO + passed
    }

    /// What the wall clock shows at `instant`, as the time since 1970. Follows the wall clock when that is set.
    #[must_use]
    pub fn unix(&self, instant: Instant) -> Duration {
        let (now, wall) = (self.now(), unix_now());
        (wall + instant.saturating_since(now)).saturating_sub(now.saturating_since(instant))
    }

    /// The instant at which the wall clock shows `unix`; zero if that was before the clock was made.
    #[must_use]
    pub fn at_unix(&self, unix: Duration) -> Instant {
        let (now, wall) = (self.now(), unix_now());
        let ahead = now + unix.saturating_sub(wall);
        let behind = wall.saturating_sub(unix);
        Instant::ZERO + ahead.saturating_since(Instant::ZERO).saturating_sub(behind)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the place that may")]
fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_and_instant_convert_there_and_back() {
        let clock = Clock::new();
        let instant = clock.now() + Duration::from_secs(3600);
        let again = clock.at_unix(clock.unix(instant));
        let error = again.saturating_since(instant) + instant.saturating_since(again);
        assert!(error < Duration::from_secs(60), "{error:?}");
        assert_eq!(clock.at_unix(Duration::from_secs(1)), Instant::ZERO);
    }
}
