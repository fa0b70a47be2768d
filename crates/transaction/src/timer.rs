//! Timers by their letters: RFC 3261 table 4, with L and M of RFC 6026.
//!
//! Left out: C, which is the proxy's (§16.6 step 11). A transaction runs at most two timers at a time, one that
//! repeats a message and one that ends a state.

use core::time::Duration;

use tandem_base::{Instant, Key, TimerId, Wheel};

use crate::Config;

/// A timer of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Timer {
    /// Repeats an INVITE: T1, doubling (§17.1.1.2).
    A,
    /// Gives up an unanswered INVITE: 64·T1 (§17.1.1.2).
    B,
    /// Keeps the ACK at hand for repeated failures: 64·T1, at least 32 s (§17.1.1.2).
    D,
    /// Repeats a non-INVITE request: T1, doubling up to T2 (§17.1.2.2).
    E,
    /// Gives up an unanswered non-INVITE request: 64·T1 (§17.1.2.2).
    F,
    /// Repeats an INVITE's failure: T1, doubling up to T2 (§17.2.1).
    G,
    /// Gives up waiting for the ACK: 64·T1 (§17.2.1).
    H,
    /// Absorbs further ACKs: T4 (§17.2.1).
    I,
    /// Absorbs further non-INVITE requests: 64·T1 (§17.2.2).
    J,
    /// Absorbs further responses: T4 (§17.1.2.2).
    K,
    /// Absorbs further INVITEs after a 2xx: 64·T1 (RFC 6026 §7.1).
    L,
    /// Passes on further 2xx: 64·T1 (RFC 6026 §7.2).
    M,
    /// Gives up a cancelled INVITE that no final response ends: 64·T1 (§9.1, where it has no letter).
    Cancelled,
}

impl Timer {
    /// How long it runs when it has been started `repeats` times before.
    pub(crate) fn wait(self, config: &Config, repeats: u8) -> Duration {
        let doubled = config.t1.saturating_mul(1_u32.checked_shl(repeats.into()).unwrap_or(u32::MAX));
        let longest = config.t1.saturating_mul(64);
        match self {
            Self::A => doubled,
            Self::E | Self::G => doubled.min(config.t2),
            Self::B | Self::F | Self::H | Self::J | Self::L | Self::M | Self::Cancelled => longest,
            // The server may use a longer T1 than we do, hence the floor.
            Self::D => longest.max(Duration::from_secs(32)),
            Self::I | Self::K => config.t4,
        }
    }

    const fn repeats(self) -> bool {
        matches!(self, Self::A | Self::E | Self::G)
    }

    pub(crate) const fn is_of_server(self) -> bool {
        matches!(self, Self::G | Self::H | Self::I | Self::J | Self::L)
    }
}

/// What lies in the wheel: whose timer, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    pub(crate) key: Key,
    pub(crate) timer: Timer,
}

/// The running timers of one transaction.
#[derive(Default, Debug)]
pub(crate) struct Timers {
    repeat: Option<TimerId>,
    end: Option<TimerId>,
    repeats: u8,
}

impl Timers {
    /// Starts `timer`; one of its kind (repeating or ending) that still ran is stopped.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        timer: Timer,
        key: Key,
        config: &Config,
        wheel: &mut Wheel<Alarm>,
    ) {
        let at = now + timer.wait(config, self.repeats);
        let slot = if timer.repeats() { &mut self.repeat } else { &mut self.end };
        if let Some(old) = slot.replace(wheel.schedule(at, Alarm { key, timer })) {
            wheel.cancel(old);
        }
        if timer.repeats() {
            self.repeats = self.repeats.saturating_add(1);
        }
    }

    /// Lets the next wait of E be T2 (§17.1.2.2, Proceeding).
    pub(crate) fn slow_down(&mut self) {
        self.repeats = u8::MAX;
    }

    /// Stops the timer that repeats.
    pub(crate) fn stop_repeating(&mut self, wheel: &mut Wheel<Alarm>) {
        if let Some(id) = self.repeat.take() {
            wheel.cancel(id);
        }
    }

    /// Stops both.
    pub(crate) fn stop(&mut self, wheel: &mut Wheel<Alarm>) {
        self.stop_repeating(wheel);
        if let Some(id) = self.end.take() {
            wheel.cancel(id);
        }
        self.repeats = 0;
    }
}
