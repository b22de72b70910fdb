//! The size rules of the house, as a ratchet.
//!
//! # Where it sits
//! `cargo xtask check tidy`. [`measure`] reads the sources, [`ratchet`] compares with the limits
//! and with the exceptions listed in `xtask/tidy.json`.
//!
//! # Invariants
//! * A listed exception may shrink, never grow; once it is within the limit it must go.
//! * An exception that names nothing in the tree is an error.

mod measure;
mod ratchet;

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
    /// Parameters of a function, `self` not counted.
    Params,
    /// Methods of a trait of the store seam.
    Trait,
    /// Bare unwraps of a file, outside tests.
    Unwrap,
    /// Ignored tests.
    Ignore,
}

impl Rule {
    const ALL: [Self; 7] = [
        Self::Function,
        Self::File,
        Self::Line,
        Self::Params,
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
            Self::Function => 70,
            Self::File => 400,
            Self::Params => 4,
            Self::Trait => 10,
            Self::Line | Self::Unwrap | Self::Ignore => 0,
        }
    }

    fn complaint(self, size: usize) -> String {
        match self {
            Self::Function => format!("the function has {size} lines, 70 at most"),
            Self::File => format!("the file has {size} lines without its tests, 400 at most"),
            Self::Line => format!("lines wider than {} columns: {size}", Self::COLUMNS_MAX),
            Self::Params => format!("{size} parameters, 4 at most; take a struct"),
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

/// Checks all Rust files of the tree.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut measures = Vec::new();
    let mut findings = Vec::new();
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
    Ok(findings)
}
