//! What is wrong in a file and where, in the form that editors and `grep` know: `file:line:column: key: what; remedy`.

use core::fmt;

/// One mistake: the file cannot be used until it is mended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The file's name as it was given.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The path of the key, as `listen[0].uri`; empty where the text is no TOML.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// Something that works but is probably not meant; the file is used as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning(
    /// Its place, key, what it means and the remedy.
    pub Mistake,
);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_at(f, self, "")
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_at(f, &self.0, "warning: ")
    }
}

fn write_at(f: &mut fmt::Formatter<'_>, mistake: &Mistake, severity: &str) -> fmt::Result {
    let Mistake { file, line, column, key, what, remedy } = mistake;
    write!(f, "{file}:{line}:{column}: {severity}")?;
    if !key.is_empty() {
        write!(f, "{key}: ")?;
    }
    write!(f, "{what}; {remedy}")
}

/// The text being checked, which turns byte offsets into lines and collects what is found.
pub(crate) struct Findings<'t> {
    file: &'t str,
    text: &'t str,
    pub(crate) mistakes: Vec<Mistake>,
    pub(crate) warnings: Vec<Warning>,
}

impl<'t> Findings<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        Self { file, text, mistakes: Vec::new(), warnings: Vec::new() }
    }

    /// Notes what is no TOML; one broken line is told once.
    pub(crate) fn syntax(&mut self, at: usize, what: String, remedy: String) {
        let mistake = self.found(at, "", what, remedy);
        if self.mistakes.iter().all(|earlier| earlier.line != mistake.line) {
            self.mistakes.push(mistake);
        }
    }

    pub(crate) fn mistake(
        &mut self,
        at: usize,
        key: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let mistake = self.found(at, key, what.into(), remedy.into());
        self.mistakes.push(mistake);
    }

    pub(crate) fn warning(
        &mut self,
        at: usize,
        key: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let warning = Warning(self.found(at, key, what.into(), remedy.into()));
        self.warnings.push(warning);
    }

    /// Text from the file is shown with its control characters escaped, since the message goes to a terminal.
    fn found(&self, at: usize, key: &str, what: String, remedy: String) -> Mistake {
        let (line, column) = place(self.text, at);
        Mistake {
            file: self.file.to_owned(),
            line,
            column,
            key: printable(key),
            what: printable(&what),
            remedy: printable(&remedy),
        }
    }
}

fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    (line, before.get(line_start..).unwrap_or_default().chars().count() + 1)
}
