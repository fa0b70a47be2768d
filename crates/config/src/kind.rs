//! What a key accepts: its kind with its bounds, and the reading of one TOML value against it.

use crate::nearest::nearest;
use crate::value::{
    Cores, Secret, Value, Wrong, quote, read_address, read_destination, read_domain, read_duration,
    read_host_port, read_listen, read_network, read_size, show_duration, show_size,
};
use core::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// A table of the file and its keys.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The table's name; empty for the keys before any table.
    pub name: &'static str,
    /// Whether the table repeats, as `[[listen]]`.
    pub repeated: bool,
    /// What the table is about.
    pub what: &'static str,
    /// Its keys, in the order in which they are shown.
    pub keys: &'static [Key],
}

/// One key: everything that the checker, the documents and the reload need to know of it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// Its default as TOML, or `none` where absence has a meaning of its own.
    pub default: &'static str,
    /// What a change of it takes.
    pub reload: Reload,
    /// What it does.
    pub what: &'static str,
    /// Why the default is what it is.
    pub reason: &'static str,
}

/// What a change of a key takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// A reload applies it.
    Live,
    /// It needs a restart.
    Restart,
}

/// One accepted word and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// What it means.
    pub what: &'static str,
}

/// What a key accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in these bounds.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A duration in these bounds.
    Duration {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// A number of octets in these bounds.
    Size {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Printable text of at most this many octets; empty is allowed.
    Text {
        /// The most octets.
        max: usize,
    },
    /// A host name or address.
    Domain,
    /// One of these words.
    OneOf(&'static [Word]),
    /// A path of at most this many octets.
    Path {
        /// The most octets.
        max: usize,
    },
    /// A listener, as `udp:127.0.0.1:5060`.
    Listen,
    /// A host and port.
    HostPort,
    /// A TCP address and port, or `off`.
    Address,
    /// A network in CIDR form.
    Network,
    /// A list of cores, or `true` or `false`.
    Cores,
    /// 64 hexadecimal digits.
    Secret,
    /// A table in braces, as `{ id = "a", address = "192.0.2.1:5060" }`.
    Destination,
    /// A list without repetitions.
    List {
        /// What each element is.
        of: &'static Self,
        /// The fewest elements.
        min: usize,
        /// The most elements.
        max: usize,
    },
}

impl Section {
    /// Whether the table need not be there at all: then there is none, and not one of defaults.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.repeated && self.name != "listen"
    }
}

impl Kind {
    /// What is accepted, in words for the documents.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Bool => "`true`, `false`".to_owned(),
            Self::Count { min, max } => format!("{min} to {max}"),
            Self::Duration { min, max } => {
                format!("\"{}\" to \"{}\"", show_duration(*min), show_duration(*max))
            }
            Self::Size { min, max } => format!("\"{}\" to \"{}\"", show_size(*min), show_size(*max)),
            Self::Text { max } => format!("text, up to {max} octets"),
            Self::Domain => "host name or address".to_owned(),
            Self::OneOf(words) => words
                .iter()
                .map(|word| format!("\"{}\": {}", word.word, word.what))
                .collect::<Vec<_>>()
                .join("; "),
            Self::Path { max } => format!("path, up to {max} octets"),
            Self::Listen => "\"udp:ADDRESS:PORT\"".to_owned(),
            Self::HostPort => "\"HOST:PORT\"".to_owned(),
            Self::Address => "\"ADDRESS:PORT\" or \"off\"".to_owned(),
            Self::Network => "\"ADDRESS/BITS\"".to_owned(),
            Self::Cores => "`true`, `false` or a list of cores".to_owned(),
            Self::Secret => "64 hexadecimal digits".to_owned(),
            Self::Destination => "`{ id = \"a\", address = \"HOST:PORT\" }`".to_owned(),
            Self::List { of, min, max } => format!("list of {min} to {max}: {}", of.describe()),
        }
    }

    /// Reads one value. What is wrong inside a list is reported at its element.
    pub(crate) fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        wrong: &mut dyn FnMut(usize, Wrong),
    ) -> Option<Value> {
        if let Self::List { of, min, max } = self {
            return read_list(of, *min, *max, value, wrong);
        }
        match self.read_one(value.get_ref()) {
            Ok(read) => Some(read),
            Err(found) => {
                wrong(value.span().start, found);
                None
            }
        }
    }

    fn read_one(&self, value: &DeValue<'_>) -> Result<Value, Wrong> {
        match (self, value) {
            (Self::Bool, DeValue::Boolean(value)) => Ok(Value::Bool(*value)),
            (Self::Cores, DeValue::Boolean(pin)) => {
                Ok(Value::Cores(if *pin { Cores::InOrder } else { Cores::Unpinned }))
            }
            (Self::Cores, DeValue::Array(cores)) => read_cores(cores.iter().map(Spanned::get_ref)),
            (Self::Count { min, max }, DeValue::Integer(_)) => {
                let number = integer(value).ok_or_else(|| {
                    (
                        format!("{} is out of range", shown(value)),
                        format!("write a number from {min} to {max}"),
                    )
                })?;
                within(number, *min, *max, |n| n.to_string(), "").map(Value::Count)
            }
            (Self::Duration { .. }, DeValue::Integer(_)) => Err((
                format!("{} has no unit", shown(value)),
                format!("write \"{0}ms\" or \"{0}s\"", shown(value)),
            )),
            (Self::Duration { min, max }, DeValue::String(text)) => {
                within(read_duration(text)?, *min, *max, |d| show_duration(*d), "\"").map(Value::Duration)
            }
            (Self::Size { .. }, DeValue::Integer(_)) => Err((
                format!("{} has no unit", shown(value)),
                format!("write \"{0}B\" or \"{0}KiB\"", shown(value)),
            )),
            (Self::Size { min, max }, DeValue::String(text)) => {
                within(read_size(text)?, *min, *max, |s| show_size(*s), "\"").map(Value::Size)
            }
            (Self::Text { max }, DeValue::String(text)) => read_text(text, *max).map(Value::Text),
            (Self::Path { max }, DeValue::String(text)) if !text.is_empty() => {
                read_text(text, *max).map(Value::Text)
            }
            (Self::Path { .. }, DeValue::String(_)) => {
                Err(("the path is empty".to_owned(), "write a path, or leave the key out".to_owned()))
            }
            (Self::Domain, DeValue::String(text)) => read_domain(text).map(Value::Text),
            (Self::OneOf(words), DeValue::String(text)) => read_word(words, text).map(Value::Word),
            (Self::Listen, DeValue::String(text)) => read_listen(text).map(Value::Listen),
            (Self::HostPort, DeValue::String(text)) => read_host_port(text).map(Value::HostPort),
            (Self::Address, DeValue::String(text)) => read_address(text).map(Value::Address),
            (Self::Network, DeValue::String(text)) => read_network(text).map(Value::Network),
            (Self::Secret, DeValue::String(text)) => {
                Secret::from_hex(text).map(Value::Secret).ok_or_else(|| {
                    (
                        format!(
                            "the secret has {} characters that are not 64 hexadecimal digits",
                            text.chars().count()
                        ),
                        "make one with `openssl rand -hex 32`".to_owned(),
                    )
                })
            }
            (Self::Destination, DeValue::Table(keys)) => read_destination(keys).map(Value::Destination),
            _ => Err(self.wrong_type(value)),
        }
    }

    fn wrong_type(&self, value: &DeValue<'_>) -> Wrong {
        let what = format!("{} is not what this key takes", type_name(value));
        let remedy = match (self, value) {
            (Self::Bool, DeValue::String(text)) if text == "true" || text == "false" => {
                format!("write {text} without quotes")
            }
            (Self::Count { .. }, DeValue::String(text)) if text.parse::<u64>().is_ok() => {
                format!("write {text} without quotes")
            }
            (Self::Bool, _) => "write true or false".to_owned(),
            (Self::Count { min, max }, _) => format!("write a number from {min} to {max}"),
            (Self::Cores, _) => "write true, false or a list of cores, as [0, 1]".to_owned(),
            (Self::OneOf(words), _) => format!("write one of {}", all_words(words)),
            _ => format!("write {} in double quotes", self.describe().replace('"', "")),
        };
        (what, remedy)
    }
}

fn read_list(
    of: &Kind,
    min: usize,
    max: usize,
    value: &Spanned<DeValue<'_>>,
    wrong: &mut dyn FnMut(usize, Wrong),
) -> Option<Value> {
    let start = value.span().start;
    let DeValue::Array(elements) = value.get_ref() else {
        let remedy = format!("write a list, as [{}]", shown(value.get_ref()));
        wrong(start, (format!("{} is not what this key takes", type_name(value.get_ref())), remedy));
        return None;
    };
    if elements.len() < min || elements.len() > max {
        let remedy = match (elements.len() < min, max) {
            (true, _) => format!("write at least {min}"),
            (false, max) => format!("write at most {max}"),
        };
        wrong(start, (format!("the list has {} elements", elements.len()), remedy));
        return None;
    }
    let mut read: Vec<Value> = Vec::with_capacity(elements.len());
    let mut sound = true;
    for element in elements.iter() {
        match of.read(element, wrong) {
            Some(value) if read.contains(&value) => {
                wrong(element.span().start, (format!("{value} stands twice"), "remove one".to_owned()));
                sound = false;
            }
            Some(value) => read.push(value),
            None => sound = false,
        }
    }
    sound.then_some(Value::List(read))
}

fn read_cores<'v>(values: impl Iterator<Item = &'v DeValue<'v>>) -> Result<Value, Wrong> {
    let mut cores = Vec::new();
    for value in values {
        let core = integer(value).and_then(|core| u16::try_from(core).ok()).filter(|core| *core < 1_024);
        let Some(core) = core else {
            return Err((
                format!("{} is not a core", shown(value)),
                "write numbers from 0 to 1023".to_owned(),
            ));
        };
        if cores.contains(&core) {
            return Err((
                format!("core {core} stands twice"),
                "give each shard a core of its own".to_owned(),
            ));
        }
        cores.push(core);
    }
    if cores.is_empty() {
        return Err(("the list is empty".to_owned(), "write false to leave the shards unpinned".to_owned()));
    }
    Ok(Value::Cores(Cores::List(cores)))
}

fn read_word(words: &'static [Word], text: &str) -> Result<&'static str, Wrong> {
    if let Some(word) = words.iter().find(|word| word.word == text) {
        return Ok(word.word);
    }
    let all = all_words(words);
    let remedy = match nearest(text, words.iter().map(|word| word.word)) {
        Some(word) => format!("did you mean \"{word}\"? known: {all}"),
        None => format!("write one of {all}"),
    };
    Err((format!("{} is not known", quote(text)), remedy))
}

fn all_words(words: &[Word]) -> String {
    words.iter().map(|word| quote(word.word)).collect::<Vec<_>>().join(", ")
}

fn read_text(text: &str, max: usize) -> Result<String, Wrong> {
    if text.len() > max {
        return Err((format!("{} octets are too many", text.len()), format!("write at most {max}")));
    }
    if text.chars().any(char::is_control) {
        return Err((
            "the text has control characters".to_owned(),
            "write printable characters only".to_owned(),
        ));
    }
    Ok(text.to_owned())
}

fn within<T: PartialOrd>(
    value: T,
    min: T,
    max: T,
    show: impl Fn(&T) -> String,
    quotes: &str,
) -> Result<T, Wrong> {
    let (side, bound) = match () {
        () if value < min => ("below the least", &min),
        () if value > max => ("above the most", &max),
        () => return Ok(value),
    };
    let (min, max) = (show(&min), show(&max));
    Err((
        format!("{quotes}{}{quotes} is {side}, {quotes}{}{quotes}", show(&value), show(bound)),
        format!("write a value from {quotes}{min}{quotes} to {quotes}{max}{quotes}"),
    ))
}

pub(crate) fn integer(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        DeValue::String(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => None,
    }
}

/// A scalar as it could be typed; `...` for the rest.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quote(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(value) => value.to_string(),
        DeValue::Array(_) | DeValue::Table(_) => "...".to_owned(),
    }
}

pub(crate) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
