//! `cargo xtask check`: everything that can be said of the tree without running the product's
//! tests.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::guard::Guard;
use crate::source::{self, Finding};
use crate::{Ended, layers, links, names, run, tidy, wording};

const HELP: &str = "\
Checks the tree

Usage: cargo xtask check [part]...

Parts, all of them by default:
  fmt      formatting (cargo fmt)
  clippy   lints, warnings are errors
  tidy     sizes: function 70 lines, file 400 without its tests, line 100 columns, 4 parameters,
           store trait 10 methods; no bare unwrap outside tests, no ignored tests.
           Exceptions are listed in xtask/tidy.json; they may shrink, never grow
  layers   dependencies point down only
  links    documents name only what exists; the map of other designs names what is in its files
  names    settings, metrics and error codes are documented, and no others are
  wording  messages use plain words; log lines have the causes of their errors
  openapi  crates/wakeline-http/openapi.json is what the routes say
  schema   crates/wakeline-sqlite/sql/schema.txt is what the migrations make (PostgreSQL's is
           compared in `cargo xtask test`)
";

/// The crates and the tests that compare generated files with the committed ones.
const OPENAPI_TEST: [&str; 2] = ["wakeline-http", "the_openapi_document_is_the_one_in_the_tree"];
const SCHEMA_TEST: [&str; 2] = ["wakeline-sqlite", "the_schema_is_the_one_in_the_tree"];

/// One kind of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Fmt,
    Tidy,
    Layers,
    Links,
    Names,
    Wording,
    Clippy,
    Openapi,
    Schema,
}

impl Part {
    /// All of them, the quick ones first.
    pub(crate) const ALL: [Self; 9] = [
        Self::Fmt,
        Self::Tidy,
        Self::Layers,
        Self::Links,
        Self::Names,
        Self::Wording,
        Self::Clippy,
        Self::Openapi,
        Self::Schema,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Layers => "layers",
            Self::Links => "links",
            Self::Names => "names",
            Self::Wording => "wording",
            Self::Clippy => "clippy",
            Self::Openapi => "openapi",
            Self::Schema => "schema",
        }
    }

    /// True if all is well. What is not has been said by then.
    fn run(self, guard: &mut Guard, root: &Path) -> Result<bool> {
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
            Self::Links => Ok(report(&links::check(root)?)),
            Self::Names => Ok(report(&names::check(root)?)),
            Self::Wording => Ok(report(&wording::check(root)?)),
            Self::Openapi => test(guard, root, OPENAPI_TEST),
            Self::Schema => test(guard, root, SCHEMA_TEST),
        }
    }
}

/// The command.
pub(crate) fn main(args: &[&str]) -> Result<Ended> {
    if args.iter().any(|arg| matches!(*arg, "--help" | "-h")) {
        print!("{HELP}");
        return Ok(Ended::Well);
    }
    let mut parts = Vec::new();
    for arg in args {
        match Part::ALL.into_iter().find(|part| part.name() == *arg) {
            Some(part) => parts.push(part),
            None => return Ok(Ended::misused(format!("check has no part {arg:?}"))),
        }
    }
    if parts.is_empty() {
        parts.extend(Part::ALL);
    }
    let mut guard = Guard::start()?;
    Ok(Ended::from_success(run_parts(&mut guard, &parts)?))
}

/// Runs all parts, also after one failed, and tells which did.
pub(crate) fn run_parts(guard: &mut Guard, parts: &[Part]) -> Result<bool> {
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
        eprintln!("check failed: {}; run one alone: cargo xtask check <part>", failed.join(", "));
    }
    Ok(failed.is_empty())
}

fn report(findings: &[Finding]) -> bool {
    for finding in findings {
        eprintln!("{finding}");
    }
    findings.is_empty()
}

/// Runs one test of a crate. `WAKELINE_BLESS=1` makes it rewrite the file that it compares.
fn test(guard: &mut Guard, root: &Path, [package, name]: [&str; 2]) -> Result<bool> {
    let arguments = ["test", "--quiet", "--locked", "-p", package, "--tests", name];
    let printed = guard.output(run::cargo(root).args(arguments))?;
    ensure!(tests_passed(&printed) > 0, "{package} has no test {name}");
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
        for part in Part::ALL {
            let named = Part::ALL.iter().filter(|other| other.name() == part.name()).count();
            assert_eq!(named, 1, "{}", part.name());
        }
    }
}
