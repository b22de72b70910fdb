//! The page that maps other designs to this one: every row of its tables leads to code, a test, a
//! decision or a measurement, and what it names there exists.
//!
//! # Invariants
//! * In the column "Where" a name in code font belongs to the link before it, and occurs in that
//!   file as a whole word; in Rust not only in comments.
//! * No row is without a link.

use std::path::Path;

use super::{finding, resolve};
use crate::source::{Finding, Source};

/// The page.
pub(super) const PAGE: &str = "docs/reference/designs.md";

const COLUMN: &str = "Where";

/// Checks the tables of the page. `read` is the text of a file, `None` if it is not one; that links
/// lead somewhere is checked with those of all documents.
pub(super) fn check(source: &Source, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut column = None;
    for (line, number) in source.text.lines().zip(1..) {
        let Some(cells) = cells(line) else {
            column = None;
            continue;
        };
        let Some(column) = column else {
            column = cells.iter().position(|cell| *cell == COLUMN);
            if column.is_none() {
                let text = format!("a table has no column {COLUMN:?}");
                findings.push(finding(&source.path, number, text));
            }
            continue;
        };
        if cells.iter().all(|cell| cell.chars().all(|c| c == '-')) {
            continue;
        }
        let cell = cells.get(column).copied().unwrap_or_default();
        let problems = problems(&source.path, cell, read);
        findings.extend(problems.into_iter().map(|text| finding(&source.path, number, text)));
    }
    findings
}

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

fn problems(page: &str, cell: &str, read: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut parts = cell.split("](");
    let mut problems = Vec::new();
    let before = parts.next().unwrap_or_default();
    if before == cell {
        return vec!["the row has no link".to_owned()];
    }
    problems.extend(names(before).map(|name| format!("`{name}` is in front of its link")));
    for part in parts {
        let (target, after) = part.split_once(')').unwrap_or((part, ""));
        let text = resolve(page, target).and_then(|path| read(&path));
        for name in names(after) {
            match &text {
                Some(text) if text.lines().any(|line| has_word(code(target, line), name)) => (),
                Some(_) => problems.push(format!("`{name}` does not occur in {target}")),
                None => problems.push(format!("`{name}` cannot be looked up: {target} is no file")),
            }
        }
    }
    problems
}

/// What is in code font, without the label of the link that may follow.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let end = text.rfind('[').unwrap_or(text.len());
    text[..end].split('`').skip(1).step_by(2)
}

/// A line of a file; of Rust without its comment.
fn code<'a>(target: &str, line: &'a str) -> &'a str {
    match line.split_once("//") {
        Some((code, _)) if target.ends_with(".rs") && !code.ends_with(':') => code,
        _ => line,
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !before.ends_with(inside) && !after.starts_with(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(cell: &str) -> Vec<String> {
        let text = format!("| In it | Where |\n|---|---|\n| x | {cell} |\n\ntext\n");
        let source = Source { path: PAGE.into(), text };
        let read = |path: &Path| {
            let a = path == Path::new("crates/a.rs");
            a.then(|| "fn wakes_one() {} // or wakes_all\nstruct Hub;\n".to_owned())
        };
        check(&source, &read).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn names_that_occur_in_their_file_pass() {
        for cell in [
            "[a.rs](../../crates/a.rs)",
            "[a.rs](../../crates/a.rs) `Hub`, `wakes_one`",
            "[`a.rs`](../../crates/a.rs) `Hub`; [the folder](../../crates)",
        ] {
            assert_eq!(problems_of(cell), Vec::<String>::new(), "{cell}");
        }
    }

    #[test]
    fn names_that_occur_nowhere_and_rows_without_links_fail() {
        for (cell, problem) in [
            ("[a](../../crates/a.rs) `wakes`", "`wakes` does not occur in ../../crates/a.rs"),
            (
                "[a](../../crates/a.rs) `wakes_all`",
                "`wakes_all` does not occur in ../../crates/a.rs",
            ),
            ("[a](../../crates) `Hub`", "`Hub` cannot be looked up: ../../crates is no file"),
            ("`Hub`", "the row has no link"),
            ("`Hub` [a](../../crates/a.rs)", "`Hub` is in front of its link"),
        ] {
            assert_eq!(problems_of(cell), [problem], "{cell}");
        }
    }

    #[test]
    fn a_table_without_the_column_fails() {
        let source = Source { path: PAGE.into(), text: "| a | b |\n|---|---|\n".into() };
        let findings = check(&source, &|_| None);
        assert_eq!(findings[0].text, "a table has no column \"Where\"");
    }
}
