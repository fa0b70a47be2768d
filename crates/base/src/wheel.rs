//! Hierarchical timer wheel (Varghese and Lauck 1987, scheme 7): scheduling and cancelling cost the same with
//! ten timers and with a million.
//!
//! Level 0 has a slot a tick for the next 256 ticks; each level above has slots 256 times as wide, seven in all,
//! which covers every [`Instant`]. A timer goes to the level of its distance and moves down when time reaches its
//! slot: at 1 ms a tick, SIP's 32 s timers move once and an hour's registration twice. The level follows from the
//! distance and not from digits shared with the present, so no moment exists at which all timers move together.
//! Timers lie in pages of 4096 entries of 32 bytes (for a value of 8) and are linked both ways through their slot.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::Instant;

const BITS: u32 = 8;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 7;
const WORDS: usize = SLOTS / 64;
const PAGE_BITS: u32 = 12;
const PAGE: u32 = 1 << PAGE_BITS;
/// Links with this bit name the head of a list (level · 256 + slot) instead of an entry.
const HEAD: u32 = 1 << 31;
const NOTHING: u32 = HEAD - 1;

/// Names a scheduled timer; goes stale when the timer fires or is cancelled. 8 bytes, and so is its `Option`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    generation: NonZeroU32,
}

impl fmt::Debug for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timer {}v{}", self.index, self.generation)
    }
}

#[derive(Clone, Copy)]
struct Entry<T> {
    /// Tick at which it is due.
    due: u64,
    value: T,
    next: u32,
    /// The previous in the list; unused in a free entry, whose `next` links the free list.
    prev: u32,
    /// Odd while scheduled, even while free.
    generation: u32,
}

#[derive(Clone, Copy)]
struct Links {
    next: u32,
    prev: u32,
}

/// A timer wheel; see the module. The owner bounds it by bounding what timers are for.
///
/// Drive it with `while let Some(value) = wheel.pop_due(now) { .. }` at [`Wheel::next_deadline`] or later.
/// Timers fire in the order of their ticks, and within a tick in the order they were scheduled.
pub struct Wheel<T> {
    tick: u64,
    /// All earlier ticks are done; timers of this one may be waiting in its slot.
    current: u64,
    /// Earliest tick at which a slot has to be looked at; `u64::MAX` if all are empty.
    next: u64,
    heads: Box<[Links]>,
    occupied: [[u64; WORDS]; LEVELS],
    pages: Vec<Box<[Entry<T>]>>,
    free: u32,
    len: usize,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel with ticks of 1 ms.
    #[must_use]
    pub fn new() -> Self {
        Self::with_tick(Duration::from_millis(1))
    }

    /// An empty wheel with ticks of the given length, at least 1 µs.
    #[must_use]
    pub fn with_tick(tick: Duration) -> Self {
        let heads = (HEAD..).take(LEVELS * SLOTS).map(|head| Links { next: head, prev: head }).collect();
        Self {
            tick: u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1_000),
            current: 0,
            next: u64::MAX,
            heads,
            occupied: [[0; WORDS]; LEVELS],
            pages: Vec::new(),
            free: NOTHING,
            len: 0,
        }
    }

    /// Lets `value` come out of [`Wheel::pop_due`] at `at` or up to one tick later, never before.
    ///
    /// A moment already past comes out at the next call.
    pub fn schedule(&mut self, at: Instant, value: T) -> TimerId {
        let due = at.as_nanos().div_ceil(self.tick).max(self.current);
        if self.free == NOTHING {
            self.grow(value);
        }
        let index = self.free;
        let mut generation = NonZeroU32::MIN;
        if let Some(entry) = self.entry_mut(index) {
            entry.generation |= 1;
            generation = NonZeroU32::new(entry.generation).unwrap_or(generation);
            (entry.due, entry.value) = (due, value);
            self.free = entry.next;
        }
        self.len += 1;
        let (level, slot) = self.place(due);
        self.link_before(head(level, slot), index);
        self.mark(level, slot);
        TimerId { index, generation }
    }

    /// Takes a timer back; false if it fired or was cancelled before.
    pub fn cancel(&mut self, id: TimerId) -> bool {
        if !self.is_scheduled(id) {
            return false;
        }
        self.unlink(id.index);
        self.release(id.index);
        true
    }

    /// True until the timer fires or is cancelled.
    #[must_use]
    pub fn is_scheduled(&self, id: TimerId) -> bool {
        self.entry(id.index).is_some_and(|entry| entry.generation == id.generation.get())
    }

    /// When to call [`Wheel::pop_due`] next; `None` without timers.
    ///
    /// The tick of the next timer if that was scheduled at most 255 ticks ahead; else possibly earlier (never
    /// later), and each call of `pop_due` at the moment given brings the answer nearer.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.len > 0).then(|| Instant::from_nanos(self.next.saturating_mul(self.tick)))
    }

    /// The next timer due at `now`; `None` when there is no more. `now` must not go back.
    pub fn pop_due(&mut self, now: Instant) -> Option<T> {
        let now = now.as_nanos() / self.tick;
        while self.next <= now {
            if self.next > self.current {
                self.current = self.next;
                self.move_down();
            }
            let head = head(0, digit(self.current, 0));
            let first = self.links(head).next;
            if first & HEAD == 0 {
                let value = self.entry(first).map(|entry| entry.value);
                self.unlink(first);
                self.release(first);
                return value;
            }
            self.next = self.find_next();
        }
        self.current = self.current.max(now);
        None
    }

    /// Number of timers scheduled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without timers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Level by distance, slot by the due tick's digit at that level.
    fn place(&self, due: u64) -> (usize, usize) {
        let distance = due.saturating_sub(self.current);
        let level = ((64 - (distance | 1).leading_zeros() - 1) / BITS) as usize;
        (level, digit(due, level))
    }

    /// Empties the slots that begin at the current tick into lower levels.
    ///
    /// Timers of one tick that lie at different levels were scheduled earlier the higher they lie. Going from low
    /// to high and from back to front, each put first in its new slot, keeps them in the order of scheduling.
    fn move_down(&mut self) {
        for level in 1..LEVELS {
            if self.current.trailing_zeros() < BITS * u32::try_from(level).unwrap_or(0) {
                return;
            }
            let head_here = head(level, digit(self.current, level));
            loop {
                let last = self.links(head_here).prev;
                if last & HEAD != 0 {
                    break;
                }
                self.unlink(last);
                let due = self.entry(last).map_or(self.current, |entry| entry.due);
                let (level, slot) = self.place(due);
                self.link_before(self.links(head(level, slot)).next, last);
                self.mark(level, slot);
            }
        }
    }

    /// Notes that a slot holds something, and when it must be looked at.
    fn mark(&mut self, level: usize, slot: usize) {
        if let Some(word) = self.occupied.get_mut(level).and_then(|words| words.get_mut(slot / 64)) {
            *word |= 1 << (slot % 64);
        }
        self.next = self.next.min(self.slot_start(level, slot));
    }

    /// The tick, from the current one on, at which the slot's time begins.
    fn slot_start(&self, level: usize, slot: usize) -> u64 {
        let ahead = slot.wrapping_sub(digit(self.current, level)) % SLOTS;
        // Above level 0 the slot of the present was emptied on entry: what is in it belongs to the next round.
        let ahead = if ahead == 0 && level > 0 { SLOTS } else { ahead };
        let shift = BITS * u32::try_from(level).unwrap_or(0);
        ((self.current >> shift) + ahead as u64) << shift
    }

    fn find_next(&self) -> u64 {
        let mut next = u64::MAX;
        for (level, words) in self.occupied.iter().enumerate() {
            if words.iter().all(|&word| word == 0) {
                continue;
            }
            let from = if level == 0 { 0 } else { 1 };
            let start = (digit(self.current, level) + from) % SLOTS;
            if let Some(slot) = first_from(words, start) {
                next = next.min(self.slot_start(level, slot));
            }
        }
        next
    }

    fn entry(&self, index: u32) -> Option<&Entry<T>> {
        self.pages.get((index >> PAGE_BITS) as usize)?.get((index % PAGE) as usize)
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut Entry<T>> {
        self.pages.get_mut((index >> PAGE_BITS) as usize)?.get_mut((index % PAGE) as usize)
    }

    fn links(&self, at: u32) -> Links {
        let nothing = Links { next: HEAD, prev: HEAD };
        if at & HEAD != 0 {
            self.heads.get((at & !HEAD) as usize).copied().unwrap_or(nothing)
        } else {
            self.entry(at).map_or(nothing, |entry| Links { next: entry.next, prev: entry.prev })
        }
    }

    fn set_next(&mut self, at: u32, next: u32) {
        if at & HEAD != 0 {
            if let Some(head) = self.heads.get_mut((at & !HEAD) as usize) {
                head.next = next;
            }
        } else if let Some(entry) = self.entry_mut(at) {
            entry.next = next;
        }
    }

    fn set_prev(&mut self, at: u32, prev: u32) {
        if at & HEAD != 0 {
            if let Some(head) = self.heads.get_mut((at & !HEAD) as usize) {
                head.prev = prev;
            }
        } else if let Some(entry) = self.entry_mut(at) {
            entry.prev = prev;
        }
    }

    fn link_before(&mut self, after: u32, index: u32) {
        let before = self.links(after).prev;
        if let Some(entry) = self.entry_mut(index) {
            (entry.next, entry.prev) = (after, before);
        }
        self.set_next(before, index);
        self.set_prev(after, index);
    }

    fn unlink(&mut self, index: u32) {
        let Links { next, prev } = self.links(index);
        self.set_next(prev, next);
        self.set_prev(next, prev);
        if next & HEAD != 0 && next == prev {
            self.clear((next & !HEAD) as usize);
        }
    }

    /// Notes that a slot became empty.
    fn clear(&mut self, place: usize) {
        let (level, slot) = (place / SLOTS, place % SLOTS);
        if let Some(word) = self.occupied.get_mut(level).and_then(|words| words.get_mut(slot / 64)) {
            *word &= !(1 << (slot % 64));
        }
        if self.slot_start(level, slot) == self.next {
            self.next = self.find_next();
        }
    }

    fn release(&mut self, index: u32) {
        let free = self.free;
        if let Some(entry) = self.entry_mut(index) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.next = free;
        }
        self.free = index;
        self.len -= 1;
    }

    /// Adds a page of free entries; `filler` stands in their values until they are used.
    fn grow(&mut self, filler: T) {
        let first = u32::try_from(self.pages.len()).map_or(NOTHING, |pages| pages.saturating_mul(PAGE));
        // 2^31 entries of 32 bytes do not fit the memory of any machine we run on.
        assert!(first < NOTHING - PAGE, "timer wheel out of indices");
        let last = first + (PAGE - 1);
        let free = self.free;
        let page = (first..=last).map(|index| {
            let next = if index == last { free } else { index + 1 };
            Entry { due: 0, value: filler, next, prev: NOTHING, generation: 0 }
        });
        self.pages.push(page.collect());
        self.free = first;
    }
}

impl<T: Copy> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wheel({} timers at tick {})", self.len, self.current)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only the low eight bits are kept")]
fn digit(tick: u64, level: usize) -> usize {
    (tick >> (BITS as usize * level)) as usize % SLOTS
}

#[expect(clippy::cast_possible_truncation, reason = "below 7 · 256")]
fn head(level: usize, slot: usize) -> u32 {
    HEAD | (level * SLOTS + slot) as u32
}

/// The first set bit from `start` on, around the end.
fn first_from(words: &[u64; WORDS], start: usize) -> Option<usize> {
    let (first, offset) = (start / 64, start % 64);
    (0..=WORDS).find_map(|step| {
        let number = (first + step) % WORDS;
        let mut word = words.get(number).copied().unwrap_or(0);
        if step == 0 {
            word &= !0 << offset;
        }
        (word != 0).then(|| number * 64 + word.trailing_zeros() as usize)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn drain(wheel: &mut Wheel<u32>, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| wheel.pop_due(now)).collect()
    }

    #[test]
    fn a_timer_fires_at_its_tick_and_not_before() {
        let mut wheel = Wheel::new();
        wheel.schedule(Instant::from_nanos(1_500_000), 1);
        assert_eq!(wheel.next_deadline(), Some(ms(2)));
        assert_eq!(drain(&mut wheel, Instant::from_nanos(1_999_999)), []);
        assert_eq!(drain(&mut wheel, ms(2)), [1]);
        assert_eq!(wheel.next_deadline(), None);
        wheel.schedule(Instant::ZERO, 2);
        assert_eq!(drain(&mut wheel, ms(2)), [2], "a moment already past comes out at once");
    }

    #[test]
    fn timers_of_one_tick_fire_in_the_order_scheduled_whatever_level_they_came_from() {
        let mut wheel = Wheel::new();
        let at = ms(70_000);
        wheel.schedule(at, 1);
        wheel.schedule(at, 2);
        for (now, value) in [(10_000, 3), (65_700, 4), (69_800, 5), (69_999, 6)] {
            assert_eq!(drain(&mut wheel, ms(now)), []);
            wheel.schedule(at, value);
        }
        assert_eq!(drain(&mut wheel, at), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_stale_id_cancels_nothing() {
        let mut wheel = Wheel::new();
        let first = wheel.schedule(ms(5), 1);
        assert!(wheel.is_scheduled(first) && wheel.cancel(first) && !wheel.cancel(first));
        let second = wheel.schedule(ms(5), 2);
        assert!(!wheel.cancel(first) && wheel.is_scheduled(second));
        assert_eq!(drain(&mut wheel, ms(5)), [2]);
        assert!(!wheel.cancel(second) && wheel.is_empty());
    }

    /// Waking at `next_deadline` alone reaches any timer, with at most one wake-up a level.
    #[test]
    fn sleeping_from_deadline_to_deadline_never_stalls() {
        for due in [0, 1, 255, 256, 257, 65_535, 65_536, 86_400_000, 40_000_000_000, (u64::MAX / 1_000_000)] {
            let mut wheel = Wheel::new();
            wheel.pop_due(ms(77));
            wheel.schedule(ms(due), 9);
            let mut wakes = 0;
            loop {
                let now = wheel.next_deadline().unwrap();
                assert!(now <= ms(due.max(77)));
                wakes += 1;
                assert!(wakes <= LEVELS + 1, "stalled before {due} ms");
                if wheel.pop_due(now).is_some() {
                    assert_eq!(now, ms(due.max(77)));
                    break;
                }
            }
        }
    }

    #[test]
    fn a_timer_costs_32_bytes() {
        assert_eq!((size_of::<Entry<u64>>(), size_of::<Option<TimerId>>()), (32, 8));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Schedule(u64),
        Cancel(prop::sample::Index),
        Advance(u64),
        Pop(u64),
        Sleep,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Distances of every size in nanoseconds, with the weight on what SIP uses.
        let distance = prop_oneof![
            4 => 0..2_000_000_000u64,
            4 => 0..40_000_000_000u64,
            2 => 0..90_000_000_000_000u64,
            1 => any::<u64>(),
        ];
        let gap = prop_oneof![6 => 0..3_000_000u64, 4 => 0..700_000_000u64, 1 => 0..70_000_000_000_000u64];
        prop_oneof![
            6 => distance.prop_map(Step::Schedule),
            2 => any::<prop::sample::Index>().prop_map(Step::Cancel),
            3 => gap.clone().prop_map(Step::Advance),
            1 => gap.prop_map(Step::Pop),
            1 => Just(Step::Sleep),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        /// The wheel and a sorted map of (tick, order of scheduling) give the same timers at the same moments.
        #[test]
        fn wheel_agrees_with_a_sorted_map(steps in prop::collection::vec(step(), 1..400), start in 0..1u64 << 45) {
            const TICK: u64 = 1_000_000;
            let mut wheel = Wheel::new();
            let mut oracle = BTreeMap::new();
            let mut ids = Vec::new();
            let mut now = start;
            // The oldest tick at which something may still come out.
            let mut floor = 0;
            for (order, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Schedule(distance) => {
                        let at = now.saturating_add(distance);
                        let key = (at.div_ceil(TICK).max(floor), order);
                        ids.push((wheel.schedule(Instant::from_nanos(at), order), key));
                        oracle.insert(key, order);
                    }
                    Step::Cancel(pick) if !ids.is_empty() => {
                        let (id, key) = ids[pick.index(ids.len())];
                        prop_assert_eq!(wheel.cancel(id), oracle.remove(&key).is_some());
                    }
                    Step::Cancel(_) => {}
                    Step::Advance(gap) => {
                        now = now.saturating_add(gap);
                        while let Some(value) = wheel.pop_due(Instant::from_nanos(now)) {
                            let (key, expected) = oracle.pop_first().unwrap();
                            prop_assert_eq!(value, expected);
                            prop_assert!(key.0 <= now / TICK, "fired early");
                        }
                        floor = floor.max(now / TICK);
                        if let Some((key, _)) = oracle.first_key_value() {
                            prop_assert!(key.0 > now / TICK, "not fired although due");
                        }
                    }
                    // One timer taken, the others left waiting: what is scheduled meanwhile sorts among them.
                    Step::Pop(gap) => {
                        now = now.saturating_add(gap);
                        let value = wheel.pop_due(Instant::from_nanos(now));
                        let due = oracle.first_key_value().is_some_and(|(key, _)| key.0 <= now / TICK);
                        prop_assert_eq!(value.is_some(), due);
                        if due {
                            let (key, expected) = oracle.pop_first().unwrap();
                            prop_assert_eq!(value, Some(expected));
                            floor = floor.max(key.0);
                        } else {
                            floor = floor.max(now / TICK);
                        }
                    }
                    Step::Sleep => {
                        let Some(deadline) = wheel.next_deadline() else { continue };
                        let first = oracle.first_key_value().unwrap().0.0;
                        prop_assert!(deadline.as_nanos() <= first.saturating_mul(TICK), "would sleep past a timer");
                    }
                }
                prop_assert_eq!(wheel.len(), oracle.len());
            }
        }
    }
}
