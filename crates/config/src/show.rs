//! The key table as text: the commented sample, the values in force, and the reference of `docs/CONFIG.md`.

use crate::check::Config;
use crate::keys::SECTIONS;
use crate::kind::{Key, Reload, Section};
use crate::raw::{heading, path};
use core::fmt::Write as _;

/// A commented file with every key at its default, which reads back as the default configuration.
#[must_use]
pub fn sample() -> String {
    let mut text = String::from(
        "# Tandem: every key, at its default. `tandem check FILE` tells every mistake at once.\n",
    );
    for section in SECTIONS {
        let _ = writeln!(text);
        comment(&mut text, section.what.trim());
        if !section.name.is_empty() {
            let off = if section.is_optional() { "# " } else { "" };
            let _ = writeln!(text, "{off}{}", heading(section));
        }
        for key in section.keys {
            let _ = writeln!(text);
            comment(&mut text, key.what);
            comment(&mut text, &format!("Why: {}", key.reason));
            comment(&mut text, &format!("Takes: {}. {}", key.kind.describe().replace('`', ""), reload(key)));
            // A key whose absence has a meaning of its own is shown, but stays off.
            match key.default {
                "none" => writeln!(text, "# {} = ...", key.name),
                default if section.is_optional() => writeln!(text, "# {} = {default}", key.name),
                default => writeln!(text, "{} = {default}", key.name),
            }
            .unwrap_or_default();
        }
    }
    text
}

fn reload(key: &Key) -> &'static str {
    match key.reload {
        Reload::Live => "A reload applies it.",
        Reload::Restart => "Needs a restart.",
    }
}

fn comment(text: &mut String, words: &str) {
    const WIDTH: usize = 100;
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "#{line}");
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "#{line}");
}

/// The tables of `docs/CONFIG.md`: every key, what it takes, its default and why.
#[must_use]
pub fn reference() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let title =
            if section.name.is_empty() { "Top".to_owned() } else { format!("`{}`", heading(section)) };
        let what = section.what.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(text, "### {title}\n\n{what}\n\n");
        text.push_str("| key | default | takes | what it does | why this default | change |\n");
        text.push_str("|---|---|---|---|---|---|\n");
        for key in section.keys {
            let change = match key.reload {
                Reload::Live => "reload",
                Reload::Restart => "restart",
            };
            let default =
                if key.default == "none" { "none".to_owned() } else { format!("`{}`", key.default) };
            let takes = key.kind.describe().replace('|', "\\|");
            let Key { name, what, reason, .. } = key;
            let _ = writeln!(text, "| `{name}` | {default} | {takes} | {what} | {reason} | {change} |");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len() + 1);
    text
}

impl Config {
    /// The values in force as TOML, without comments. A secret is shown as `(hidden)`.
    #[must_use]
    pub fn show(&self) -> String {
        let mut text = String::new();
        for section in SECTIONS {
            let repeats = match (section.repeated, section.is_optional()) {
                (false, _) => 1,
                (true, false) => self.listen.len(),
                (true, true) => self.pools.len(),
            };
            for index in 0..repeats {
                self.show_table(&mut text, section, index);
            }
        }
        text
    }

    fn show_table(&self, text: &mut String, section: &Section, index: usize) {
        if !section.name.is_empty() {
            let _ = writeln!(text, "\n{}", heading(section));
        }
        for key in section.keys {
            if let Some(value) = self.values.get(&path(section, index, key.name)) {
                let _ = writeln!(text, "{} = {value}", key.name);
            }
        }
    }
}
