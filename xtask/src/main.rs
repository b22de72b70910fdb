//! Project automation: `cargo xtask check | test | bless | readme | bench`.
//!
//! # Where it sits
//! Beside the product: it depends on none of its crates, so that it still builds and can say
//! what is wrong when they do not.
//!
//! # Invariants
//! * No environment variable has to be set by hand.
//! * Whatever was started is stopped and whatever was made is removed, however the run ends
//!   (see [`guard`]).
//! * Exit code 0: all is well; 1: something failed; 2: something must be installed first, or the
//!   command line was wrong.
#![allow(clippy::print_stdout, reason = "a command line program prints to standard output")]

mod bench;
mod bless;
mod check;
mod clients;
mod deny;
mod embedded;
mod guard;
mod layers;
mod links;
mod names;
mod postgres;
mod provision;
mod readme;
mod run;
mod source;
mod test;
mod tidy;
mod timings;
mod types;
mod wording;

use std::process::ExitCode;

const HELP: &str = "\
Project automation for Wakeline

Usage: cargo xtask <command>

Commands:
  check [part]...      Checks formatting, lints, sizes, layers, links and generated files.
                       Parts: fmt clippy tidy layers deny links names wording types openapi
                       schema (default: all)
  test [--long] [--timings] [--pg MAJOR] [nextest arguments]
                       Starts a PostgreSQL, then runs the checks, all tests, the doc tests and
                       the README's commands. With nextest arguments (`-p wakeline-sqlite`, a
                       name, `-E ...`) it starts a PostgreSQL and runs only those tests
  bless [file]...      Generates openapi.json and the schema dumps again
  readme               Runs only the README's commands and example
  bench queue|wake|hints|flow|hook|soak [arguments]
                       Starts a PostgreSQL and runs a benchmark, in release mode

`cargo xtask <command> --help` describes a command in detail.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["check", rest @ ..] => check::main(rest),
        ["test", rest @ ..] => test::main(rest),
        ["bless", rest @ ..] => bless::main(rest),
        ["readme", rest @ ..] => readme::main(rest),
        ["bench", rest @ ..] => bench::main(rest),
        [guard::COMMAND] => guard::main(),
        [] | ["help" | "--help" | "-h", ..] => {
            print!("{HELP}");
            Ok(XtaskOutcome::Well)
        }
        [other, ..] => Ok(XtaskOutcome::misused(format!("there is no command {other:?}"))),
    };
    match outcome {
        Ok(XtaskOutcome::Well) => ExitCode::SUCCESS,
        Ok(XtaskOutcome::Failed) => ExitCode::from(1),
        Ok(XtaskOutcome::NotReady) => ExitCode::from(2),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// How a command ended. Its messages have already been printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum XtaskOutcome {
    /// It succeeded.
    Well,
    /// A check or a test failed.
    Failed,
    /// Something must be installed first, or the command line is wrong.
    NotReady,
}

impl XtaskOutcome {
    fn misused(what: String) -> Self {
        eprintln!("xtask: {what}; see `cargo xtask --help`");
        Self::NotReady
    }

    fn from_success(success: bool) -> Self {
        if success { Self::Well } else { Self::Failed }
    }
}
