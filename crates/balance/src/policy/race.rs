//! Weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005).
//!
//! For a key each item draws a number from hash(key, item), and its time is −ln(number) / weight; the earliest wins.
//! So each item wins exactly its weight's part of the keys, and when one comes or goes only its own keys move: from
//! all others, or to all others. The result depends on names alone, not on order or history, so that balancers agree
//! without talking; that is why it looks at every item (about a nanosecond each) instead of keeping a tree.

/// Numbers that are made at a time, for one comparison that mostly fails.
const BLOCK: usize = 4;

/// Items of one weight: among these the largest number is the earliest time, so that one logarithm serves all.
#[derive(Clone, Debug)]
struct Class<T> {
    weight: u64,
    names: Vec<Name>,
    items: Vec<T>,
}

/// An item's name, and the odd factor made of it.
#[derive(Clone, Copy, Debug)]
struct Name {
    name: u64,
    factor: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Race<T> {
    classes: Vec<Class<T>>,
}

impl<T: Copy> Class<T> {
    /// The largest number among all, and whose it is; the last of equal ones.
    fn largest(&self, key: u64) -> Option<(u64, T)> {
        let (mut most, mut block) = (0, 0);
        let (blocks, rest) = self.names.as_chunks::<BLOCK>();
        for (index, four) in blocks.iter().enumerate() {
            let [a, b, c, d] = four.map(|name| name.draw(key));
            let number = a.max(b).max(c.max(d));
            if number >= most {
                (most, block) = (number, index);
            }
        }
        // Which of the block it was is worked out once, at the end.
        let from = BLOCK * block;
        let ours = self.names.get(from..from + BLOCK).unwrap_or_default();
        let mut place = ours.iter().rposition(|name| name.draw(key) == most).map(|at| from + at);
        for (index, name) in rest.iter().enumerate() {
            let number = name.draw(key);
            if number >= most {
                (most, place) = (number, Some(BLOCK * blocks.len() + index));
            }
        }
        Some((most, *self.items.get(place?)?))
    }

    /// The same among those that `admit` lets run.
    fn largest_of(&self, key: u64, admit: impl Fn(T) -> bool) -> Option<(u64, T)> {
        let (mut most, mut found) = (0, None);
        for (name, &item) in self.names.iter().zip(&self.items) {
            let number = name.draw(key);
            if number >= most && admit(item) {
                (most, found) = (number, Some(item));
            }
        }
        Some((most, found?))
    }
}

impl Name {
    const fn new(name: u64) -> Self {
        Self { name, factor: name.rotate_left(32) | 1 }
    }

    /// An item's number for a key, both being good hashes already: one wide multiplication, folded.
    fn draw(self, key: u64) -> u64 {
        let wide = u128::from(key ^ self.name) * u128::from(self.factor);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
        let (low, high) = (wide as u64, (wide >> 64) as u64);
        low ^ high
    }
}

impl<T: Copy> Race<T> {
    /// A race of items with name and weight; weight 0 doesn't run.
    pub(super) fn new(runners: impl Iterator<Item = (T, u64, u64)>) -> Self {
        let mut classes: Vec<Class<T>> = Vec::new();
        let mut runners: Vec<_> = runners.filter(|(_, _, weight)| *weight > 0).collect();
        runners.sort_by_key(|(_, _, weight)| *weight);
        for (item, name, weight) in runners {
            match classes.last_mut() {
                Some(class) if class.weight == weight => {
                    class.names.push(Name::new(name));
                    class.items.push(item);
                }
                _ => classes.push(Class { weight, names: vec![Name::new(name)], items: vec![item] }),
            }
        }
        Self { classes }
    }

    /// Who wins `key` among those that `admit` lets run.
    pub(super) fn winner(&self, key: u64, admit: impl Fn(T) -> bool) -> Option<T> {
        // Almost always the winner of all is admitted, and asking only it is cheaper.
        let first = self.fastest(|class| class.largest(key))?;
        if admit(first) { Some(first) } else { self.fastest(|class| class.largest_of(key, &admit)) }
    }

    fn fastest(&self, largest: impl Fn(&Class<T>) -> Option<(u64, T)>) -> Option<T> {
        let only = self.classes.len() == 1;
        let mut best: Option<(f64, T)> = None;
        for class in &self.classes {
            let Some((number, item)) = largest(class) else { continue };
            if only {
                return Some(item);
            }
            // In (0, 1]: 53 bits and a half are exact in a double.
            let part = ((number >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            let time = -part.ln() / class.weight as f64;
            if best.is_none_or(|(earliest, _)| time < earliest) {
                best = Some((time, item));
            }
        }
        best.map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    /// One item after the other, each with a logarithm of its own.
    fn plainly(runners: &[(u16, u64, u64)], key: u64, admit: impl Fn(u16) -> bool) -> Option<u16> {
        let time = |&&(_, name, weight): &&(u16, u64, u64)| {
            let wide = u128::from(key ^ name) * u128::from(name.rotate_left(32) | 1);
            let half = |wide: u128| u64::try_from(wide & u128::from(u64::MAX)).unwrap();
            let number = half(wide) ^ half(wide >> 64);
            -(((number >> 11) as f64 + 0.5) / (1u64 << 53) as f64).ln() / weight as f64
        };
        let runs = |&&(item, _, weight): &&(u16, u64, u64)| weight > 0 && admit(item);
        let first = runners.iter().filter(runs).min_by(|a, b| time(a).total_cmp(&time(b)));
        first.map(|&(item, ..)| item)
    }

    proptest! {
        /// Balancers of any version agree on who wins: what is done four at a time and once a weight is what is said.
        #[test]
        fn the_winner_is_the_earliest_of_all_that_run(
            names in prop::collection::vec((any::<u64>(), 0u64..4), 0..70),
            keys in prop::collection::vec(any::<u64>(), 1..20),
            out in prop::collection::vec(0u16..70, 0..70),
        ) {
            let runners: Vec<_> = (0u16..).zip(&names).map(|(item, &(name, weight))| (item, name, weight)).collect();
            let race = Race::new(runners.iter().copied());
            for key in keys {
                prop_assert_eq!(race.winner(key, |_| true), plainly(&runners, key, |_| true));
                let admit = |item| !out.contains(&item);
                prop_assert_eq!(race.winner(key, admit), plainly(&runners, key, admit));
            }
        }
    }

    /// The numbers themselves must stay what they are: balancers of two versions share calls.
    #[test]
    fn numbers_are_what_they_were() {
        let race = Race::new(
            (0u16..1000).map(|item| (item, u64::from(item).wrapping_mul(0x9e37_79b9_7f4a_7c15), 1)),
        );
        let winners: Vec<_> = (0..8u64).map(|key| race.winner(key << 56 | key, |_| true)).collect();
        assert_eq!(
            winners,
            [Some(795), Some(751), Some(750), Some(675), Some(600), Some(579), Some(874), Some(154)]
        );
    }
}
