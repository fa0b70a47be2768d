//! What a reload changes, and which of it needs a restart.

use crate::check::Config;
use crate::keys::SECTIONS;
use crate::kind::Reload;
use crate::value::Value;
use core::fmt;

/// One key whose value differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The key's path, as `log.level`.
    pub key: String,
    /// The old value as TOML, `none` where it was absent.
    pub old: String,
    /// The new value as TOML, `none` where it is absent.
    pub new: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.key, self.old, self.new)
    }
}

/// The difference between two configurations.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Diff {
    /// What a reload applies.
    pub live: Vec<Change>,
    /// What stays as it was until a restart.
    pub restart: Vec<Change>,
}

impl Diff {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.restart.is_empty()
    }
}

impl Config {
    /// What changes from `old` to `new`. A changed secret is told without its value.
    #[must_use]
    pub fn diff(old: &Self, new: &Self) -> Diff {
        let mut diff = Diff::default();
        let mut keys: Vec<&String> = old.values.keys().chain(new.values.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let (before, after) = (old.values.get(key), new.values.get(key));
            if before == after {
                continue;
            }
            let show = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), Value::to_string);
            let change = Change { key: key.clone(), old: show(before), new: show(after) };
            match reload(key) {
                Reload::Live => diff.live.push(change),
                Reload::Restart => diff.restart.push(change),
            }
        }
        diff
    }
}

/// What a change of the key at `path` takes.
pub(crate) fn reload(path: &str) -> Reload {
    let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
    let table = table.split('[').next().unwrap_or_default();
    SECTIONS
        .iter()
        .filter(|section| section.name == table)
        .flat_map(|section| section.keys)
        .find(|candidate| candidate.name == key)
        .map_or(Reload::Restart, |key| key.reload)
}
