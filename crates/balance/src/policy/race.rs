//! Weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005).
//!
//! For a key each item draws a number from hash(key, item), and its time is −ln(number) / weight; the earliest wins.
//! So each item wins exactly its weight's part of the keys, and when one comes or goes only its own keys move: from
//! all others, or to all others. The result depends on names alone, not on order or history, so that balancers agree
//! without talking; that is why it looks at every item (about a nanosecond each) instead of keeping a tree.

/// Items of one weight: among these the largest number is the earliest time, so that one logarithm serves all.
#[derive(Clone, Debug)]
struct Class<T> {
    weight: u64,
    names: Vec<u64>,
    items: Vec<T>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Race<T> {
    classes: Vec<Class<T>>,
}

impl<T: Copy> Class<T> {
    /// The largest number, and whose it is.
    fn largest(&self, key: u64, admit: impl Fn(T) -> bool) -> Option<(u64, T)> {
        let (mut most, mut place) = (0, usize::MAX);
        for (index, (&name, &item)) in self.names.iter().zip(&self.items).enumerate() {
            let number = draw(key, name);
            if number >= most && admit(item) {
                (most, place) = (number, index);
            }
        }
        Some((most, *self.items.get(place)?))
    }
}

/// An item's number for a key, both being good hashes already: one wide multiplication, folded.
fn draw(key: u64, name: u64) -> u64 {
    let wide = u128::from(key ^ name) * u128::from(name.rotate_left(32) | 1);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is asked for")]
    let (low, high) = (wide as u64, (wide >> 64) as u64);
    low ^ high
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
                    class.names.push(name);
                    class.items.push(item);
                }
                _ => classes.push(Class { weight, names: vec![name], items: vec![item] }),
            }
        }
        Self { classes }
    }

    /// Who wins `key` among those that `admit` lets run.
    pub(super) fn winner(&self, key: u64, admit: impl Fn(T) -> bool) -> Option<T> {
        // Almost always the winner of all is admitted, and asking only it is cheaper.
        let first = self.fastest(key, |_| true)?;
        if admit(first) { Some(first) } else { self.fastest(key, admit) }
    }

    fn fastest(&self, key: u64, admit: impl Fn(T) -> bool) -> Option<T> {
        let only = self.classes.len() == 1;
        let mut best: Option<(f64, T)> = None;
        for class in &self.classes {
            let Some((number, item)) = class.largest(key, &admit) else { continue };
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
