//! Tests cited as proof: `crate::path::test_name`, `path/file.rs::test_name` or `path/file.rs`, in backticks.

use std::path::Path;

use super::links::prose;
use super::{Files, Report};

/// Checks that what one document cites is there.
pub(super) fn check(path: &Path, text: &str, files: &Files, report: &mut Report) {
    for (number, line) in prose(text) {
        for cited in line.split('`').skip(1).step_by(2) {
            if let Some(missing) = missing(cited, files) {
                report.error(path, format!("line {number}: `{cited}` is cited: {missing}"));
            }
        }
    }
}

/// What is wrong with a citation; `None` if nothing is, or if it is none.
fn missing(cited: &str, files: &Files) -> Option<String> {
    if !cited.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-:/.".contains(&b)) {
        return None;
    }
    if let Some((file, rest)) = cited.split_once(".rs") {
        let file = format!("{file}.rs");
        let test = rest.rsplit("::").next().unwrap_or_default();
        return match files.get(Path::new(&file)) {
            None if file.contains('/') => Some(format!("there is no file {file}")),
            Some(text) if !test.is_empty() && !has_fn(text, test) => {
                Some(format!("{file} has no `fn {test}`"))
            }
            _ => None,
        };
    }
    let (first, _) = cited.split_once("::")?;
    let name = first.strip_prefix("tandem_").unwrap_or(first).replace('_', "-");
    let folder =
        ["crates", "lab", "bin"].iter().map(|part| Path::new(part).join(&name)).find(|at| files.holds(at))?;
    let last = cited.rsplit("::").next().unwrap_or_default();
    if !last.starts_with(|c: char| c.is_ascii_lowercase()) {
        return None; // a type, not a test
    }
    let found = files.iter().filter(|(path, _)| path.starts_with(&folder)).any(|(path, text)| {
        path.extension().is_some_and(|ext| ext == "rs")
            && (has_fn(text, last) || path.file_stem().is_some_and(|stem| stem == last))
    });
    (!found).then(|| format!("{} has no test or module of that name", folder.display()))
}

fn has_fn(text: &str, name: &str) -> bool {
    text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> usize {
        let files = Files::of(&[("crates/sip/src/via.rs", "#[test]\nfn rport_is_filled_in() {}\n")]);
        let mut report = Report::default();
        check(Path::new("docs/CONFORMANCE.md"), text, &files, &mut report);
        report.errors.len()
    }

    #[test]
    fn a_cited_test_or_file_that_exists_passes() {
        let text = "`sip::via::rport_is_filled_in` `crates/sip/src/via.rs` `crates/sip/src/via.rs::rport_is_filled_in` \
                    `sip:bob@a` `Via` `serve -c`\n";
        assert_eq!(errors(text), 0);
    }

    #[test]
    fn a_cited_test_or_file_that_is_not_there_is_reported() {
        assert_eq!(errors("`sip::via::nobody` `crates/sip/src/no.rs` `crates/sip/src/via.rs::nobody`\n"), 3);
    }
}
