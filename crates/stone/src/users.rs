//! Who calls whom: the users of a load and the choice among them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::dice::Dice;
use crate::error::StoneError;

/// One user of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// User part of the address-of-record.
    pub name: Box<str>,
    /// Digest password, where the server asks.
    pub password: Box<str>,
}

/// The users of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Users(Vec<User>);

impl Users {
    /// Reads what `--users` says: `PREFIX000..PREFIX099` (a range of fixed width), `@FILE` (CSV: user, password), a
    /// comma-separated list, or a plain number of users, which are then called `u000000` upwards.
    ///
    /// # Errors
    ///
    /// [`StoneError::Plan`] for an empty or reversed range, an empty list or a file that cannot be read.
    pub fn parse(text: &str, password: &str) -> Result<Self, StoneError> {
        let users: Vec<User> = if let Some(file) = text.strip_prefix('@') {
            Self::read_csv(Path::new(file), password)?
        } else if let Ok(count) = text.parse::<u32>() {
            (0..count).map(|number| User::new(&format!("u{number:06}"), password)).collect()
        } else if let Some((first, last)) = text.split_once("..") {
            Self::range(first, last)?.into_iter().map(|name| User::new(&name, password)).collect()
        } else {
            text.split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(|name| User::new(name, password))
                .collect()
        };
        if users.is_empty() {
            return Err(StoneError::plan(
                "users",
                text,
                "no user in it; give e.g. `u0000..u0099`, `alice,bob` or `@users.csv`",
            ));
        }
        if let Some(bad) = users.iter().find(|user| !user.name.bytes().all(is_user_byte)) {
            return Err(StoneError::plan(
                "users",
                &bad.name,
                "a user part may hold letters, digits and -_.!~*'()&=+$,;?/% only",
            ));
        }
        Ok(Self(users))
    }

    fn range(first: &str, last: &str) -> Result<Vec<String>, StoneError> {
        let wrong = |why| StoneError::plan("users", &format!("{first}..{last}"), why);
        let digits = |text: &str| text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (prefix, low) = first.split_at(first.len() - digits(first));
        let (other, high) = last.split_at(last.len() - digits(last));
        if !other.is_empty() && other != prefix {
            return Err(wrong("both ends of a range need the same prefix"));
        }
        let width = low.len();
        match (low.parse::<u32>(), high.parse::<u32>()) {
            (Ok(low), Ok(high)) if low <= high && high - low < 10_000_000 => {
                Ok((low..=high).map(|number| format!("{prefix}{number:0width$}")).collect())
            }
            _ => Err(wrong(
                "a range is `u000..u099`: the same prefix, then digits, low to high, at most 10,000,000",
            )),
        }
    }

    fn read_csv(path: &Path, password: &str) -> Result<Vec<User>, StoneError> {
        let text = std::fs::read_to_string(path).map_err(|error| StoneError::file(path, &error))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(lines
            .filter(|line| !matches!(*line, "SEQUENTIAL" | "RANDOM" | "USERS")) // the first line of SIPp's files
            .map(|line| {
                let mut fields = line.split([',', ';']).map(str::trim);
                let name = fields.next().unwrap_or_default();
                User::new(name, fields.next().unwrap_or(password))
            })
            .collect())
    }

    /// How many there are; at least one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never true of parsed users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The user at a place.
    #[must_use]
    pub fn get(&self, place: u32) -> Option<&User> {
        self.0.get(place as usize)
    }

    /// Every `of`-th user from `part` on: the disjoint share of one handler, or all if there are too few to share.
    #[must_use]
    pub fn share(&self, part: usize, of: usize) -> Self {
        let shared: Vec<User> = self.0.iter().skip(part).step_by(of.max(1)).cloned().collect();
        if shared.is_empty() { self.clone() } else { Self(shared) }
    }
}

impl User {
    fn new(name: &str, password: &str) -> Self {
        Self { name: name.into(), password: password.into() }
    }
}

/// RFC 3261 §25.1 `user`, with what stands for escapes.
fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/%".contains(&byte)
}

/// How a user is picked.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// All alike.
    #[default]
    Uniform,
    /// The k-th most wanted user in proportion to 1/k.
    Zipf,
    /// 60 % of the load to 40 % of the users.
    #[serde(rename = "60:40")]
    SixtyForty,
}

impl core::str::FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uniform" => Ok(Self::Uniform),
            "zipf" => Ok(Self::Zipf),
            "60:40" => Ok(Self::SixtyForty),
            _ => Err("one of uniform, zipf, 60:40".to_owned()),
        }
    }
}

/// Picks places in a table of a given length.
#[derive(Debug)]
pub(crate) struct Picker {
    choice: Choice,
    count: u32,
    /// Zipf only: the running sum of 1/k, scaled to end at 1.
    sums: Vec<f64>,
}

impl Picker {
    #[expect(clippy::cast_precision_loss, reason = "ten million users fit a double")]
    pub(crate) fn new(choice: Choice, count: usize) -> Self {
        let mut sums = Vec::new();
        if choice == Choice::Zipf {
            let mut sum = 0.0;
            sums.extend((1..=count).map(|k| {
                sum += 1.0 / k as f64;
                sum
            }));
            sums.iter_mut().for_each(|part| *part /= sum);
        }
        Self { choice, count: u32::try_from(count).unwrap_or(u32::MAX), sums }
    }

    pub(crate) fn pick(&self, dice: &mut Dice) -> u32 {
        match self.choice {
            Choice::Uniform => dice.below(self.count),
            Choice::Zipf => {
                let x = dice.unit();
                u32::try_from(self.sums.partition_point(|&sum| sum <= x))
                    .unwrap_or_default()
                    .min(self.count - 1)
            }
            Choice::SixtyForty => {
                let wanted = (self.count * 2).div_ceil(5).min(self.count);
                if dice.unit() < 0.6 || wanted == self.count {
                    dice.below(wanted)
                } else {
                    wanted + dice.below(self.count - wanted)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        Users::parse(text, "").unwrap().0.iter().map(|user| user.name.to_string()).collect()
    }

    #[test]
    fn users_come_from_a_number_a_range_or_a_list() {
        assert_eq!(names("2"), ["u000000", "u000001"]);
        assert_eq!(names("a08..a11"), ["a08", "a09", "a10", "a11"]);
        assert_eq!(names("alice, bob"), ["alice", "bob"]);
        for bad in ["", "0", "a9..a1", "a1..b2", "a<b", "@/nowhere"] {
            assert!(Users::parse(bad, "").is_err(), "{bad:?}");
        }
    }

    /// Shares: 60 % to the first 40 of 100; Zipf over 100 gives the first 1/H(100) = 19.3 %.
    #[test]
    fn skewed_choices_have_their_skew() {
        let mut dice = Dice::new(1);
        let mut share = |choice, first: u32| {
            let picker = Picker::new(choice, 100);
            (0..20_000).filter(|_| picker.pick(&mut dice) < first).count() as f64 / 20_000.0
        };
        assert!((share(Choice::SixtyForty, 40) - 0.6).abs() < 0.02);
        assert!((share(Choice::Zipf, 1) - 0.193).abs() < 0.02);
        assert!((share(Choice::Uniform, 40) - 0.4).abs() < 0.02);
    }
}
