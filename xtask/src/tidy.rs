//! Sizes of functions, parameter lists, files and traits, in Rust and in SQL.
//!
//! # Where it sits
//! `cargo xtask check tidy`. [`measure`] reads Rust files and [`sql`] the functions of PostgreSQL;
//! [`ratchet`] compares the sizes with the limits and with the exceptions in `xtask/tidy.json`.
//!
//! # Invariants
//! * A listed exception may shrink, never grow; once it is within the limit it must go.
//! * An exception that names nothing in the tree is an error.
//! * Most files are short, but no single file is split to satisfy a number: the limit of one file
//!   is far above the size that most of them have.

mod measure;
mod ratchet;
mod sql;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::{self, Finding};

const EXCEPTIONS: &str = "xtask/tidy.json";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Lines of a function, from its `fn` to its closing brace.
    Function,
    /// Lines of a file, without its `#[cfg(test)]` items.
    File,
    /// Lines of a file that are too wide.
    Line,
    /// Parameters of a function, without `self`. A tuple counts as its elements.
    Params,
    /// Lines of a function in SQL, from `CREATE` to the end of its body.
    SqlFunction,
    /// Parameters of a function in SQL.
    SqlParams,
    /// Methods of a trait of the store seam.
    Trait,
    /// Bare unwraps of a file, outside tests.
    Unwrap,
    /// Ignored tests.
    Ignore,
}

impl Rule {
    const ALL: [Self; 9] = [
        Self::Function,
        Self::File,
        Self::Line,
        Self::Params,
        Self::SqlFunction,
        Self::SqlParams,
        Self::Trait,
        Self::Unwrap,
        Self::Ignore,
    ];

    /// Columns that a line may have.
    pub(crate) const COLUMNS_MAX: usize = 100;

    fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::File => "file",
            Self::Line => "line",
            Self::Params => "params",
            Self::SqlFunction => "sql-function",
            Self::SqlParams => "sql-params",
            Self::Trait => "trait",
            Self::Unwrap => "unwrap",
            Self::Ignore => "ignore",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    fn limit(self) -> usize {
        match self {
            Self::Function | Self::SqlFunction => 70,
            Self::File => 600,
            Self::Params => 4,
            Self::SqlParams => 8,
            Self::Trait => 10,
            Self::Line | Self::Unwrap | Self::Ignore => 0,
        }
    }

    fn complaint(self, size: usize) -> String {
        match self {
            Self::Function | Self::SqlFunction => {
                format!("the function has {size} lines, 70 at most")
            }
            Self::File => format!("the file has {size} lines without its tests, 600 at most"),
            Self::Line => format!("lines wider than {} columns: {size}", Self::COLUMNS_MAX),
            Self::Params => format!(
                "{size} parameters, 4 at most, and a tuple counts as its elements: take a struct"
            ),
            Self::SqlParams => format!("{size} parameters, 8 at most"),
            Self::Trait => format!("a store trait of {size} methods, 10 at most"),
            Self::Unwrap => {
                format!("{size} bare unwraps; say why it cannot happen: expect(\"..\")")
            }
            Self::Ignore => "an ignored test proves nothing; run it or remove it".to_owned(),
        }
    }
}

/// The size of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) rule: Rule,
    /// The file, or the file and the path of the item in it.
    pub(crate) item: String,
    /// Where to look first.
    pub(crate) place: String,
    pub(crate) size: usize,
}

/// Most files have at most this many lines without their tests.
const USUAL_FILE_LINES: usize = 300;
/// One file in so many may have more.
const LONG_FILE_SHARE: usize = 7;

/// An error if too many files are long.
fn long_files(measures: &[Measure]) -> Option<Finding> {
    let files = measures.iter().filter(|measure| measure.rule == Rule::File);
    let (mut all, mut long) = (0, 0);
    for file in files {
        all += 1;
        long += usize::from(file.size > USUAL_FILE_LINES);
    }
    (long * LONG_FILE_SHARE > all).then(|| Finding {
        place: "the tree".to_owned(),
        rule: Rule::File.name(),
        text: format!(
            "{long} of {all} files have more than {USUAL_FILE_LINES} lines without their tests; \
             one in {LONG_FILE_SHARE} may: split the one that holds most unrelated things"
        ),
    })
}

/// Checks all Rust and SQL files of the tree.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut measures = Vec::new();
    let mut findings = Vec::new();
    for source in source::files(root, "sql")? {
        measures.extend(sql::file(&source));
    }
    for source in source::files(root, "rs")? {
        match measure::file(&source) {
            Ok(found) => measures.extend(found),
            Err(error) => findings.push(Finding {
                place: format!("{}:{}", source.path, error.span().start().line),
                rule: "tidy",
                text: format!("cannot be parsed: {error}"),
            }),
        }
    }
    let listed = fs::read_to_string(root.join(EXCEPTIONS))
        .with_context(|| format!("reading {EXCEPTIONS}"))?;
    let exceptions = ratchet::parse(&listed).with_context(|| format!("reading {EXCEPTIONS}"))?;
    findings.extend(ratchet::judge(&measures, &exceptions));
    findings.extend(long_files(&measures));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_long_files_are_no_reason_to_split_one() {
        let file = |size| Measure {
            rule: Rule::File,
            item: format!("{size}.rs"),
            place: format!("{size}.rs:1"),
            size,
        };
        let mut files: Vec<Measure> = vec![file(100); LONG_FILE_SHARE - 1];
        files.push(file(500));
        assert_eq!(long_files(&files), None);
        files.push(file(301));
        assert!(long_files(&files).expect("too many").text.contains("2 of 8 files"));
    }
}
