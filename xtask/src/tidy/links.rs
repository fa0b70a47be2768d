//! Links in Markdown: to a file of this repository, and to a heading in it.

use std::path::{Component, Path, PathBuf};

use super::{Files, Report};

/// Checks every link of one document that does not leave the repository.
pub(super) fn check(path: &Path, text: &str, files: &Files, report: &mut Report) {
    for (number, line) in prose(text) {
        for target in targets(line) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let aim = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
            if !files.holds(&aim) {
                report.error(path, format!("line {number}: link to `{target}`: no such file"));
            } else if !heading.is_empty()
                && let Some(there) = files.get(&aim)
                && !headings(there).any(|known| known == heading)
            {
                report.error(path, format!("line {number}: link to `{target}`: no such heading"));
            }
        }
    }
}

/// The lines outside code blocks, with their numbers.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !fence && !in_block
    })
}

/// What `](...)` points at within the repository.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', ' ']).next().unwrap_or_default();
        (!target.contains("://") && !target.starts_with("mailto:")).then_some(target)
    })
}

fn resolve(from: &Path, link: &str) -> PathBuf {
    let mut path = from.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::RootDir => path.clear(),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// The anchors of a document's headings, as forges make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|(_, line)| {
        let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        Some(kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let files = Files::of(&[("README.md", "# Tandem\n\n## First call\n"), ("docs/A.md", text)]);
        let mut report = Report::default();
        check(Path::new("docs/A.md"), text, &files, &mut report);
        report.errors
    }

    #[test]
    fn links_to_files_folders_and_headings_resolve() {
        let text = "# A b\n[x](../README.md) [y](../README.md#first-call) [z](../docs) [w](#a-b) [v](https://a/b#c)\n";
        assert_eq!(errors(text), Vec::<String>::new());
    }

    #[test]
    fn a_link_to_nothing_is_reported_outside_code() {
        assert_eq!(errors("[x](../READNOT.md)\n[y](../README.md#last-call)\n").len(), 2);
        assert!(errors("```text\n[x](../READNOT.md)\n```\n").is_empty());
    }
}
