//! The two clocks, read together: where stored times and the machines' times meet.
//!
//! The machines know monotonic time only. A row keeps Unix seconds, so that it means something after a restart. The
//! conversion happens here and nowhere else, when a row is written and when it is read; a step of the wall clock in
//! between moves no binding that is in memory.

use std::sync::Arc;

use tandem_base::Instant;

/// Both clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Monotonic.
    pub now: Instant,
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub unix: i64,
}

/// Reads both clocks; the shell's clock behind it.
pub type Clock = Arc<dyn Fn() -> Times + Send + Sync>;

impl Times {
    /// The wall-clock second of a monotonic time, rounded up.
    #[must_use]
    pub fn unix_of(&self, at: Instant) -> i64 {
        let ahead = at.as_nanos().div_ceil(1_000_000_000);
        let now = self.now.as_secs();
        self.unix.saturating_add(signed(ahead)).saturating_sub(signed(now))
    }

    /// The monotonic time of a wall-clock second; the epoch for one before it.
    #[must_use]
    pub fn instant_of(&self, unix: i64) -> Instant {
        let secs = signed(self.now.as_secs()).saturating_add(unix).saturating_sub(self.unix);
        Instant::from_secs(u64::try_from(secs).unwrap_or_default())
    }

    /// How long a row that was written at `written` and ends at `expires` still lives, in seconds; zero if it ended.
    ///
    /// A row from the future means that the clock was set back since; its binding gets no more than what was left
    /// when it was written, and is not held for as long as the clock jumped.
    #[must_use]
    pub fn left(&self, written: i64, expires: i64) -> i64 {
        expires.saturating_sub(self.unix).min(expires.saturating_sub(written)).max(0)
    }
}

fn signed(secs: u64) -> i64 {
    i64::try_from(secs).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_the_way_to_the_disk_and_back_into_a_later_process() {
        let writer = Times { now: Instant::from_secs(5000), unix: 1_800_000_000 };
        let kept = writer.unix_of(Instant::from_secs(5060));
        assert_eq!(kept, 1_800_000_060);
        let reader = Times { now: Instant::from_secs(2), unix: 1_800_000_020 };
        assert_eq!(reader.instant_of(kept), Instant::from_secs(42));
        assert_eq!(reader.instant_of(0), Instant::ZERO);
    }

    /// THREATS 31. The clock went back an hour after a row with 60 s left was written.
    #[test]
    fn a_clock_set_back_does_not_stretch_a_binding() {
        let now = Times { now: Instant::ZERO, unix: 10_000 };
        assert_eq!(now.left(13_600, 13_660), 60);
        assert_eq!(now.left(9_990, 10_050), 50);
        assert_eq!(now.left(9_000, 9_060), 0);
    }
}
