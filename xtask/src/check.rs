//! `cargo xtask check`: everything that can be said of the tree without running the product's
//! tests.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::bless::{self, Generated};
use crate::guard::ProcessGuard;
use crate::source::{self, Finding};
use crate::{XtaskOutcome, deny, layers, links, names, run, tidy, types, wording};

const HELP: &str = "\
Checks the source tree

Usage: cargo xtask check [part]...

Parts (default: all):
  fmt      formatting (cargo fmt)
  clippy   lints, warnings are errors
  tidy     maximum sizes: 70 lines per function, 100 columns per line, 4 parameters (8 in SQL), 10
           methods per store trait, and 600 lines per file without its tests (300 for most files);
           no bare unwrap outside tests, no ignored tests. Exceptions are in xtask/tidy.json; they
           may shrink, never grow
  layers   crates depend only on crates of lower layers
  deny     deny.toml allows the licences, versions and sources of all dependencies
  links    files and items that documents and comments refer to exist
  names    all settings, metrics and error codes are documented, and all documented ones exist
  wording  names, comments, messages and documents use plain words; log lines contain the causes
           of errors
  types    no type name is defined twice in the workspace
  openapi  crates/wakeline-http/openapi.json matches the routes
  schema   crates/wakeline-sqlite/sql/schema.txt matches the migrations (PostgreSQL's is compared
           in `cargo xtask test`)
";

/// One kind of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckPart {
    Fmt,
    Tidy,
    Layers,
    Deny,
    Links,
    Names,
    Wording,
    Types,
    Clippy,
    Openapi,
    Schema,
}

impl CheckPart {
    /// All of them, the quick ones first.
    pub(crate) const ALL: [Self; 11] = [
        Self::Fmt,
        Self::Tidy,
        Self::Layers,
        Self::Deny,
        Self::Links,
        Self::Names,
        Self::Wording,
        Self::Types,
        Self::Clippy,
        Self::Openapi,
        Self::Schema,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Layers => "layers",
            Self::Deny => "deny",
            Self::Links => "links",
            Self::Names => "names",
            Self::Wording => "wording",
            Self::Types => "types",
            Self::Clippy => "clippy",
            Self::Openapi => "openapi",
            Self::Schema => "schema",
        }
    }

    /// True if nothing was found. Findings are printed.
    fn run(self, guard: &mut ProcessGuard, root: &Path) -> Result<bool> {
        let mut cargo = run::cargo(root);
        match self {
            Self::Fmt => guard.run(cargo.args(["fmt", "--all", "--check"])),
            Self::Clippy => guard.run(cargo.args([
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ])),
            Self::Tidy => Ok(report(&tidy::check(root)?)),
            Self::Layers => Ok(report(&layers::check(root)?)),
            Self::Deny => Ok(report(&deny::check(root)?)),
            Self::Links => Ok(report(&links::check(root)?)),
            Self::Names => Ok(report(&names::check(root)?)),
            Self::Wording => Ok(report(&wording::check(root)?)),
            Self::Types => Ok(report(&types::check(root)?)),
            Self::Openapi => compare(guard, &bless::OPENAPI),
            Self::Schema => compare(guard, &bless::SQLITE),
        }
    }
}

/// The command.
pub(crate) fn main(args: &[&str]) -> Result<XtaskOutcome> {
    if args.iter().any(|arg| matches!(*arg, "--help" | "-h")) {
        print!("{HELP}");
        return Ok(XtaskOutcome::Well);
    }
    let mut parts = Vec::new();
    for arg in args {
        match CheckPart::ALL.into_iter().find(|part| part.name() == *arg) {
            Some(part) => parts.push(part),
            None => return Ok(XtaskOutcome::misused(format!("there is no check {arg:?}"))),
        }
    }
    if parts.is_empty() {
        parts.extend(CheckPart::ALL);
    }
    let mut guard = ProcessGuard::start()?;
    Ok(XtaskOutcome::from_success(run_parts(&mut guard, &parts)?))
}

/// Runs all parts, also after one failed, and prints which ones failed.
pub(crate) fn run_parts(guard: &mut ProcessGuard, parts: &[CheckPart]) -> Result<bool> {
    let root = source::root();
    let mut failed = Vec::new();
    for part in parts {
        let start = Instant::now();
        let passed = part.run(guard, &root).unwrap_or_else(|error| {
            eprintln!("xtask: {error:#}");
            false
        });
        let verdict = if passed { "ok" } else { "FAILED" };
        let secs = start.elapsed().as_secs_f64();
        eprintln!("check {:8} {verdict} ({secs:.1} s)", part.name());
        if !passed {
            failed.push(part.name());
        }
    }
    if !failed.is_empty() {
        eprintln!(
            "check failed: {}; run a single part with: cargo xtask check <part>",
            failed.join(", ")
        );
    }
    Ok(failed.is_empty())
}

fn report(findings: &[Finding]) -> bool {
    for finding in findings {
        eprintln!("{finding}");
    }
    findings.is_empty()
}

/// Runs the test that compares a generated file with what the code makes.
fn compare(guard: &mut ProcessGuard, file: &Generated) -> Result<bool> {
    let printed = guard.output(&mut file.test())?;
    ensure!(tests_passed(&printed) > 0, "there is no test {}", file.test_name());
    Ok(true)
}

/// How many tests passed, by the output of `cargo test`: a filter that matches nothing succeeds.
fn tests_passed(output: &str) -> usize {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. ")?.split_once(" passed"))
        .filter_map(|(count, _)| count.parse::<usize>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_matches_nothing_is_seen() {
        let none = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 3 filtered out\n";
        assert_eq!(tests_passed(none), 0);
        let one = "running 1 test\n.\ntest result: ok. 1 passed; 0 failed; finished in 0.00s\n";
        assert_eq!(tests_passed(&format!("{none}{one}")), 1);
    }

    #[test]
    fn parts_have_names_of_their_own() {
        for part in CheckPart::ALL {
            let named = CheckPart::ALL.iter().filter(|other| other.name() == part.name()).count();
            assert_eq!(named, 1, "{}", part.name());
        }
    }
}
