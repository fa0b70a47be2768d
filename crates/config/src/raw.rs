//! What was typed: the values of a file with their places, each checked by its key's kind, before the rules between
//! keys are applied.

use crate::keys::{SECTIONS, Values};
use crate::kind::{Section, type_name};
use crate::mistake::Findings;
use crate::nearest::nearest;
use crate::value::{Value, quote};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The typed values of one file, by table. A mistyped value is absent here and has been reported.
#[derive(Clone, Default, Debug)]
pub struct RawConfig {
    tables: Vec<RawTable>,
}

/// One table as typed.
#[derive(Clone, Debug)]
pub(crate) struct RawTable {
    pub(crate) section: &'static Section,
    /// Its place among tables of its name.
    pub(crate) index: usize,
    /// The byte offset where it starts.
    pub(crate) at: usize,
    /// Each typed key's value and byte offset.
    pub(crate) values: BTreeMap<&'static str, (Value, usize)>,
    /// Keys that stood there, right or wrong.
    pub(crate) seen: Vec<&'static str>,
}

impl RawConfig {
    /// Reads `text` as far as it makes sense and reports the rest.
    pub(crate) fn read(text: &str, findings: &mut Findings<'_>) -> Self {
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            let (what, remedy) = syntax(text, at, error.message());
            findings.syntax(at, what, remedy);
        }
        let mut raw = Self::default();
        let mut top = RawTable::new(&SECTIONS_TOP, 0, 0);
        for (name, value) in root.get_ref() {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            match SECTIONS.iter().find(|section| section.name == name && !name.is_empty()) {
                Some(section) => raw.read_section(section, at, value, findings),
                None => top.read_key(name, at, value, findings),
            }
        }
        raw.tables.push(top);
        raw
    }

    fn read_section(
        &mut self,
        section: &'static Section,
        at: usize,
        value: &Spanned<DeValue<'_>>,
        findings: &mut Findings<'_>,
    ) {
        let name = section.name;
        match (value.get_ref(), section.repeated) {
            (DeValue::Table(keys), false) => self.read_table(section, 0, at, keys, findings),
            (DeValue::Array(tables), true) => {
                for (index, table) in tables.iter().enumerate() {
                    match table.get_ref().as_table() {
                        Some(keys) => self.read_table(section, index, table.span().start, keys, findings),
                        None => findings.mistake(
                            table.span().start,
                            &format!("{name}[{index}]"),
                            format!("{} is not a table", type_name(table.get_ref())),
                            format!("write [[{name}]] and its keys below"),
                        ),
                    }
                }
            }
            (DeValue::Table(_), true) => findings.mistake(
                at,
                name,
                "the table may repeat, so it takes double brackets",
                format!("write [[{name}]]"),
            ),
            (DeValue::Array(elements), false)
                if elements.iter().any(|element| matches!(element.get_ref(), DeValue::Table(_))) =>
            {
                findings.mistake(at, name, "the table stands once", format!("write [{name}]"));
            }
            (other, _) => findings.mistake(
                at,
                name,
                format!("{} is not a table", type_name(other)),
                format!("write {} and its keys below", heading(section)),
            ),
        }
    }

    fn read_table(
        &mut self,
        section: &'static Section,
        index: usize,
        at: usize,
        keys: &DeTable<'_>,
        findings: &mut Findings<'_>,
    ) {
        let mut table = RawTable::new(section, index, at);
        for (name, value) in keys {
            table.read_key(name.get_ref().as_ref(), name.span().start, value, findings);
        }
        self.tables.push(table);
    }

    /// The tables of `section`, in the order of the file.
    pub(crate) fn tables(&self, section: &str) -> impl Iterator<Item = &RawTable> {
        self.tables.iter().filter(move |table| table.section.name == section)
    }

    /// A typed value and its place.
    pub(crate) fn get(&self, section: &str, key: &str) -> Option<(&Value, usize)> {
        self.tables(section).find_map(|table| table.get(key))
    }

    /// How many keys were typed and read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.values.len()).sum()
    }

    /// Whether nothing was typed, so that all is at its default.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The keys before any table, which are the first section.
const SECTIONS_TOP: Section = crate::keys::Top::SECTION;

impl RawTable {
    fn new(section: &'static Section, index: usize, at: usize) -> Self {
        Self { section, index, at, values: BTreeMap::new(), seen: Vec::new() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<(&Value, usize)> {
        self.values.get(key).map(|(value, at)| (value, *at))
    }

    /// The key's path, as `listen[0].uri` or `proxy.fork`.
    pub(crate) fn path(&self, key: &str) -> String {
        path(self.section, self.index, key)
    }

    /// The values of the table with those that were left out at their defaults.
    pub(crate) fn values(&self, defaults: &Values) -> Values {
        let mut values = defaults.clone();
        values.extend(self.values.iter().map(|(key, (value, _))| (*key, value.clone())));
        values
    }

    fn read_key(&mut self, name: &str, at: usize, value: &Spanned<DeValue<'_>>, findings: &mut Findings<'_>) {
        let path = self.path(name);
        let Some(key) = self.section.keys.iter().find(|key| key.name == name) else {
            let (what, remedy) = self.unknown(name, value.get_ref());
            return findings.mistake(at, &path, what, remedy);
        };
        self.seen.push(key.name);
        let read = key.kind.read(value, &mut |at, (what, remedy)| findings.mistake(at, &path, what, remedy));
        if let Some(value) = read {
            self.values.insert(key.name, (value, at));
        }
    }

    /// What an unknown key may have been: a typo, a key of another table, or a table's name.
    fn unknown(&self, name: &str, value: &DeValue<'_>) -> (String, String) {
        let is_table = value.is_table()
            || value
                .as_array()
                .is_some_and(|elements| elements.iter().any(|element| element.get_ref().is_table()));
        let what = if is_table { "there is no such table" } else { "there is no such key" };
        let here = self.section.keys.iter().map(|key| key.name);
        let at_top = self.section.name.is_empty();
        let tables = SECTIONS.iter().map(|section| section.name).filter(|name| at_top && !name.is_empty());
        let elsewhere = SECTIONS.iter().find(|section| section.keys.iter().any(|key| key.name == name));
        let remedy = if let Some(section) = elsewhere {
            match section.name {
                "" => "put it before the first table".to_owned(),
                _ => format!("put it under {}", heading(section)),
            }
        } else if let Some(near) = nearest(name, here.clone().chain(tables.clone())) {
            format!("did you mean {}?", quote(near).replace('"', "`"))
        } else {
            format!("known here: {}", here.chain(tables).collect::<Vec<_>>().join(", "))
        };
        (what.to_owned(), remedy)
    }
}

pub(crate) fn path(section: &Section, index: usize, key: &str) -> String {
    match (section.name, section.repeated) {
        ("", _) => key.to_owned(),
        (name, true) => format!("{name}[{index}].{key}"),
        (name, false) => format!("{name}.{key}"),
    }
}

pub(crate) fn heading(section: &Section) -> String {
    match (section.name, section.repeated) {
        ("", _) => "the top".to_owned(),
        (name, true) => format!("[[{name}]]"),
        (name, false) => format!("[{name}]"),
    }
}

/// The parser's words for a broken line, or better ones, and the remedy.
fn syntax(text: &str, at: usize, message: &str) -> (String, String) {
    let line = text.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
    let bare: String =
        text.get(at..).unwrap_or_default().chars().take_while(|c| c.is_alphanumeric()).collect();
    if line.trim_end().ends_with('=') && bare.chars().any(char::is_alphabetic) {
        let remedy = format!("put text in double quotes, as \"{bare}\"");
        return (format!("{bare} is not a value"), remedy);
    }
    let hint = if message.contains("duplicate key") {
        "remove one of the two"
    } else if message.contains("unquoted key") {
        "write `key = value`, the key in letters, digits and _"
    } else if message.contains("unclosed table") || message.contains("missing table close") {
        "close the table's name with ]"
    } else if message.contains("unclosed array") {
        "close the list with ]"
    } else if message.contains("string") {
        "close the text with a double quote"
    } else {
        "write `key = value`, with text in double quotes"
    };
    (message.lines().next().unwrap_or("this is not TOML").to_owned(), hint.to_owned())
}
