//! What neither rustc nor clippy looks at: the arrows between crates, what core crates may touch, links and cited
//! tests in documents, and things left undone.

mod arrows;
mod cited;
mod links;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Each fails the check.
    pub(crate) errors: Vec<String>,
    /// Worth a look.
    pub(crate) warnings: Vec<String>,
}

impl Report {
    fn error(&mut self, place: &Path, what: impl std::fmt::Display) {
        self.errors.push(format!("{}: {what}", place.display()));
    }

    fn warning(&mut self, place: &Path, what: impl std::fmt::Display) {
        self.warnings.push(format!("{}: {what}", place.display()));
    }
}

/// Checks the repository at `root`.
pub(crate) fn run(root: &Path) -> Report {
    let mut report = Report::default();
    let files = Files::under(root);
    for (path, text) in files.named("Cargo.toml") {
        arrows::check(path, text, &mut report);
    }
    for (path, text) in files.ending(".rs") {
        sources::check(path, text, &mut report);
    }
    for (path, text) in files.ending(".md") {
        links::check(path, text, &files, &mut report);
    }
    for (path, text) in files.ending(".md") {
        let cites = ["docs/CONFORMANCE.md", "docs/CHECKLIST.md"].iter().any(|cites| Path::new(cites) == path);
        if cites {
            cited::check(path, text, &files, &mut report);
        }
    }
    report
}

/// Every text file of the repository, by its path from the root.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Vec<(PathBuf, String)>,
}

impl Files {
    /// Reads all files below `root` that are kept in the repository.
    fn under(root: &Path) -> Self {
        let mut files = Self::default();
        files.read(root, Path::new(""));
        files.files.sort();
        files
    }

    fn read(&mut self, root: &Path, below: &Path) {
        let Ok(entries) = fs::read_dir(root.join(below)) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let skipped = name.to_str().is_none_or(|name| {
                name == ".git"
                    || name == "out"
                    || name == "corpus"
                    || name == "target"
                    || name.starts_with("target-")
            });
            let path = below.join(&name);
            if skipped {
                continue;
            }
            if entry.path().is_dir() {
                self.read(root, &path);
            } else {
                // What is not text is kept by name only, so that links to it resolve.
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                self.files.push((path, text));
            }
        }
    }

    fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a Path, &'a str)> {
        self.iter().filter(move |(path, _)| path.to_string_lossy().ends_with(suffix))
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Path, &'a str)> {
        self.iter().filter(move |(path, _)| path.file_name().is_some_and(|file| file == name))
    }

    fn iter(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().map(|(path, text)| (path.as_path(), text.as_str()))
    }

    /// The text of a file, if it is there.
    fn get(&self, path: &Path) -> Option<&str> {
        self.iter().find(|(known, _)| *known == path).map(|(_, text)| text)
    }

    /// True if `path` is a file or a folder that holds one.
    fn holds(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.iter().any(|(known, _)| known.starts_with(path))
    }
}

#[cfg(test)]
impl Files {
    fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect() }
    }
}
