//! Brakes for password guessing that do not lock the owner out. No RFC; RFC 7616 §5.8 asks for something like it.
//!
//! Failures are counted for the source, for the address-of-record, and for the two together. After a few free ones
//! each further failure doubles a delay in which no more guesses are evaluated; with time they are forgiven one by
//! one. A source that lately succeeded for an address-of-record is exempt from the first two counts, which others
//! can drive up, and meets only the third, with a short delay: neither an attack on the user from elsewhere, nor a
//! guesser behind the same NAT with his eye on somebody else, keeps the owner from registering.
//!
//! Everything is a fixed array: 16 bytes for each failing key, 8 for each success remembered. When a place is
//! needed the most harmless neighbour gives way. Names that do not exist are counted like those that do.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use tandem_base::{HashKey, Instant};

use crate::Outcome;

const WAYS: usize = 4;
/// Times are kept in tenths of a second since [`Instant::ZERO`]: 13 years in 32 bits.
const UNIT_MS: u64 = 100;

/// How guesses are limited.
#[derive(Clone, Copy, Debug)]
pub struct GuessLimits {
    /// Failing sources, addresses and pairs remembered; 16 bytes each.
    pub failures_max: usize,
    /// Successes remembered; 8 bytes each.
    pub successes_max: usize,
    /// Failures of one source without delay.
    pub source_free: u16,
    /// Longest delay for a source.
    pub source_delay_max: Duration,
    /// Failures for one address-of-record without delay; above `source_free`, so that it takes several sources.
    pub aor_free: u16,
    /// Longest delay for an address-of-record.
    pub aor_delay_max: Duration,
    /// Longest delay for a source that lately succeeded for the same address-of-record.
    pub owner_delay_max: Duration,
    /// One failure is forgiven after each such time without another.
    pub forgiven_after: Duration,
    /// How long a success is remembered: above the longest registration.
    pub success_lasts: Duration,
}

impl Default for GuessLimits {
    /// 3 MiB; 5 free failures and up to 15 min for a source, 20 and 1 min for an address-of-record, 2 s for owners.
    fn default() -> Self {
        Self {
            failures_max: 65_536,
            successes_max: 262_144,
            source_free: 5,
            source_delay_max: Duration::from_secs(900),
            aor_free: 20,
            aor_delay_max: Duration::from_secs(60),
            owner_delay_max: Duration::from_secs(2),
            forgiven_after: Duration::from_secs(600),
            success_lasts: Duration::from_secs(7 * 86_400),
        }
    }
}

/// Whether a guess is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Check the credentials.
    Evaluate,
    /// Do not even check them, and do not say whether they were right; the time is that of a Retry-After.
    Wait(Duration),
}

/// What a source is counted by: an IPv4 address, or the 64-bit prefix of an IPv6 address, since a single host
/// commands a whole one.
#[must_use]
pub fn source_prefix(address: IpAddr) -> [u8; 9] {
    let ([a, b, c, d, e, f, g, h], family) = match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            ([a, b, c, d, 0, 0, 0, 0], 4)
        }
        IpAddr::V6(v6) => {
            let [a, b, c, d, e, f, g, h, ..] = v6.octets();
            ([a, b, c, d, e, f, g, h], 6)
        }
    };
    [family, a, b, c, d, e, f, g, h]
}

/// The counters of one shard; see the module.
pub struct Guesses {
    key: HashKey,
    limits: GuessLimits,
    failures: Box<[[Failure; WAYS]]>,
    successes: Box<[[Success; WAYS]]>,
}

#[derive(Clone, Copy, Default)]
struct Failure {
    /// Zero while empty.
    tag: u32,
    /// No guess before this time.
    until: u32,
    last: u32,
    count: u16,
}

#[derive(Clone, Copy, Default)]
struct Success {
    /// Zero while empty.
    tag: u32,
    at: u32,
}

#[derive(Clone, Copy)]
enum Count {
    Source,
    Aor,
    Owner,
}

impl Guesses {
    /// Counters at zero.
    #[must_use]
    pub fn new(key: &HashKey, limits: GuessLimits) -> Self {
        let sets = |entries: usize| (entries / WAYS).max(1).next_power_of_two();
        Self {
            key: key.derive(b"guesses"),
            limits,
            failures: vec![[Failure::default(); WAYS]; sets(limits.failures_max)].into(),
            successes: vec![[Success::default(); WAYS]; sets(limits.successes_max)].into(),
        }
    }

    /// Decides whether credentials from `source` ([`source_prefix`]) for `aor` (the key in [`crate::Users`]) are
    /// evaluated now.
    #[must_use]
    pub fn allow(&self, now: Instant, source: &[u8], aor: &[u8]) -> Verdict {
        let now = units(now);
        let until = if self.lately_succeeded(now, source, aor) {
            self.until(Count::Owner, source, aor)
        } else {
            self.until(Count::Source, source, aor).max(self.until(Count::Aor, source, aor))
        };
        match until.saturating_sub(now) {
            0 => Verdict::Evaluate,
            left => Verdict::Wait(Duration::from_millis(u64::from(left) * UNIT_MS)),
        }
    }

    /// Counts what became of credentials that were evaluated. Stale ones and formal errors count for nothing.
    pub fn note(&mut self, now: Instant, source: &[u8], aor: &[u8], outcome: Outcome) {
        let now = units(now);
        if outcome == Outcome::Accepted {
            self.note_success(now, source, aor);
        } else if outcome.is_guess() {
            if self.lately_succeeded(now, source, aor) {
                self.note_failure(now, Count::Owner, source, aor);
            } else {
                self.note_failure(now, Count::Source, source, aor);
                self.note_failure(now, Count::Aor, source, aor);
            }
        }
    }

    fn lately_succeeded(&self, now: u32, source: &[u8], aor: &[u8]) -> bool {
        let (set, tag) = place(self.hash(Count::Owner, source, aor), self.successes.len());
        let lasts = span(self.limits.success_lasts);
        let lately = |entry: &Success| entry.tag == tag && now.saturating_sub(entry.at) < lasts;
        self.successes.get(set).is_some_and(|set| set.iter().any(lately))
    }

    fn note_success(&mut self, now: u32, source: &[u8], aor: &[u8]) {
        let hash = self.hash(Count::Owner, source, aor);
        let (set, tag) = place(hash, self.successes.len());
        if let Some(set) = self.successes.get_mut(set)
            && let Some(entry) = set.iter_mut().min_by_key(|entry| (entry.tag != tag, entry.at))
        {
            *entry = Success { tag, at: now };
        }
        let (set, tag) = place(hash, self.failures.len());
        if let Some(entry) = self.failures.get_mut(set).and_then(|set| set.iter_mut().find(|e| e.tag == tag))
        {
            *entry = Failure::default();
        }
    }

    fn until(&self, count: Count, source: &[u8], aor: &[u8]) -> u32 {
        let (set, tag) = place(self.hash(count, source, aor), self.failures.len());
        let entry = self.failures.get(set).and_then(|set| set.iter().find(|entry| entry.tag == tag));
        entry.map_or(0, |entry| entry.until)
    }

    fn note_failure(&mut self, now: u32, count: Count, source: &[u8], aor: &[u8]) {
        let forgiven_after = span(self.limits.forgiven_after).max(1);
        let (free, delay_max) = match count {
            Count::Source => (self.limits.source_free, self.limits.source_delay_max),
            Count::Aor => (self.limits.aor_free, self.limits.aor_delay_max),
            Count::Owner => (self.limits.source_free, self.limits.owner_delay_max),
        };
        let left = |entry: &Failure| {
            let forgiven = now.saturating_sub(entry.last) / forgiven_after;
            u32::from(entry.count).saturating_sub(forgiven)
        };
        let (set, tag) = place(self.hash(count, source, aor), self.failures.len());
        let Some(set) = self.failures.get_mut(set) else { return };
        let Some(entry) = set.iter_mut().min_by_key(|entry| (entry.tag != tag, left(entry), entry.last))
        else {
            return;
        };
        let before = if entry.tag == tag { left(entry) } else { 0 };
        let failures = u16::try_from(before + 1).unwrap_or(u16::MAX);
        let delay = match failures.checked_sub(free) {
            None | Some(0) => 0,
            // The first delay is one second, ten units.
            Some(over) => 10u32.saturating_mul(1 << (over - 1).min(20)).min(span(delay_max)),
        };
        *entry = Failure { tag, until: now.saturating_add(delay), last: now, count: failures };
    }

    fn hash(&self, count: Count, source: &[u8], aor: &[u8]) -> u64 {
        match count {
            Count::Source => self.key.hash64(&[b"source", source]),
            Count::Aor => self.key.hash64(&[b"aor", aor]),
            Count::Owner => self.key.hash64(&[b"owner", source, aor]),
        }
    }
}

impl fmt::Debug for Guesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guesses({:?})", self.limits)
    }
}

fn units(now: Instant) -> u32 {
    u32::try_from(now.as_millis() / UNIT_MS).unwrap_or(u32::MAX)
}

fn span(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis() / u128::from(UNIT_MS)).unwrap_or(u32::MAX)
}

/// The set of a power of two that `hash` belongs to, and its tag there.
#[expect(clippy::cast_possible_truncation, reason = "two halves of the hash")]
fn place(hash: u64, sets: usize) -> (usize, u32) {
    (hash as usize & (sets - 1), ((hash >> 32) as u32).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;

    const WRONG: Outcome = Outcome::Failed(Refusal::WrongResponse);
    const AOR: &[u8] = b"alice@example.com";

    fn guesses() -> Guesses {
        Guesses::new(&HashKey::from_bytes([5; 16]), GuessLimits::default())
    }

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn source(n: u32) -> [u8; 9] {
        source_prefix(IpAddr::V4(n.into()))
    }

    /// `count` wrong guesses, one each ms, the n-th from `from(n)`; returns how many were evaluated.
    fn attack(guesses: &mut Guesses, count: u32, from: impl Fn(u32) -> [u8; 9], outcome: Outcome) -> u32 {
        (0..count)
            .filter(|&n| {
                let now = ms(u64::from(n));
                let allowed = guesses.allow(now, &from(n), AOR) == Verdict::Evaluate;
                if allowed {
                    guesses.note(now, &from(n), AOR, outcome);
                }
                allowed
            })
            .count()
            .try_into()
            .unwrap()
    }

    /// 100,000 guesses in 100 s from one source: 6 at once, then after 1, 2, 4 .. 64 s make 12.
    #[test]
    fn one_guesser_gets_a_dozen_guesses_and_the_owner_registers_from_elsewhere() {
        for outcome in [WRONG, Outcome::Unknown] {
            let mut guesses = guesses();
            assert_eq!(attack(&mut guesses, 100_000, |_| source(1), outcome), 12);
            assert!(matches!(guesses.allow(ms(100_000), &source(1), AOR), Verdict::Wait(_)));
            assert_eq!(guesses.allow(ms(100_000), &source(2), AOR), Verdict::Evaluate);
        }
    }

    /// 100,000 guesses in 100 s from as many sources: 21 at once, then after 1, 2, 4 .. 32 s make 27.
    #[test]
    fn many_guessers_share_one_brake_that_does_not_stop_the_owner() {
        let mut guesses = guesses();
        guesses.note(ms(0), &source(9), AOR, Outcome::Accepted);
        assert_eq!(attack(&mut guesses, 100_000, |n| source(1_000 + n), WRONG), 27);
        assert!(matches!(guesses.allow(ms(90_000), &source(8), AOR), Verdict::Wait(_)));
        assert_eq!(guesses.allow(ms(90_000), &source(9), AOR), Verdict::Evaluate);
    }

    #[test]
    fn an_owner_behind_the_guessers_nat_is_not_locked_out() {
        let mut guesses = guesses();
        guesses.note(ms(0), &source(1), b"bob@example.com", Outcome::Accepted);
        attack(&mut guesses, 100_000, |_| source(1), WRONG);
        assert_eq!(guesses.allow(ms(100_000), &source(1), b"bob@example.com"), Verdict::Evaluate);
        assert!(matches!(guesses.allow(ms(100_000), &source(1), b"carol@example.com"), Verdict::Wait(_)));
    }

    /// The owner's own counter: 6 guesses at once, after 1 s, then each 2 s.
    #[test]
    fn a_success_does_not_open_the_door_to_guesses_from_the_same_source() {
        let mut guesses = guesses();
        guesses.note(ms(0), &source(1), AOR, Outcome::Accepted);
        assert_eq!(attack(&mut guesses, 20_000, |_| source(1), WRONG), 6 + 1 + 9);
        let wait = guesses.allow(ms(19_500), &source(1), AOR);
        assert!(matches!(wait, Verdict::Wait(left) if left <= Duration::from_secs(2)), "{wait:?}");
        guesses.note(ms(25_000), &source(1), AOR, Outcome::Accepted);
        assert_eq!(guesses.allow(ms(25_000), &source(1), AOR), Verdict::Evaluate);
    }

    #[test]
    fn stale_and_malformed_credentials_count_for_nothing_and_failures_are_forgiven() {
        let mut guesses = guesses();
        for _ in 0..100 {
            guesses.note(ms(0), &source(1), AOR, Outcome::Stale(crate::Staleness::Expired));
            guesses.note(ms(0), &source(1), AOR, Outcome::Failed(Refusal::OtherUri));
        }
        for _ in 0..5 {
            assert_eq!(guesses.allow(ms(0), &source(1), AOR), Verdict::Evaluate);
            guesses.note(ms(0), &source(1), AOR, WRONG);
        }
        // An hour forgives all five: the next five are free again.
        for _ in 0..5 {
            assert_eq!(guesses.allow(ms(3_600_000), &source(1), AOR), Verdict::Evaluate);
            guesses.note(ms(3_600_000), &source(1), AOR, WRONG);
        }
        guesses.note(ms(3_600_000), &source(1), AOR, WRONG);
        assert_eq!(guesses.allow(ms(3_600_000), &source(1), AOR), Verdict::Wait(Duration::from_secs(1)));
    }

    #[test]
    fn hosts_of_one_ipv6_prefix_are_one_source() {
        let prefix = |text: &str| source_prefix(text.parse().unwrap());
        assert_eq!(prefix("2001:db8::1"), prefix("2001:db8::ffff:2"));
        assert_ne!(prefix("2001:db8::1"), prefix("2001:db8:0:1::1"));
        assert_eq!(prefix("::ffff:192.0.2.1"), prefix("192.0.2.1"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.2.2"));
    }
}
