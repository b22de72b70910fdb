//! `cargo xtask test`: sets up what the tests need, then runs everything.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::check::{self, Part};
use crate::guard::Guard;
use crate::postgres::Postgres;
use crate::provision::{self, Need};
use crate::{Ended, clients, readme, run, source};

const HELP: &str = "\
Sets up what the tests need and runs them

Usage: cargo xtask test [--long] [nextest arguments]

Starts a PostgreSQL of its own (found on the PATH or below /usr/lib/postgresql, or installed by
apt-get if this runs as root), installs the published clients below `target`, then runs the
checks, all tests, the doc tests and the README's commands. PostgreSQL is stopped and all its
files are removed afterwards, also on Ctrl-C.

  --long    Also the long tests: 10,000 parked polls, 50 kills, five idle minutes, ...

Anything else goes to `cargo nextest run`, and then only that runs:

  cargo xtask test -p wakeline-postgres
  cargo xtask test expired_lease_cannot_ack
";

#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    long: bool,
    filter: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a str]) -> Self {
        let filter = args.iter().copied().filter(|arg| *arg != "--long").collect();
        Self { long: args.contains(&"--long"), filter }
    }

    /// Arguments of the test run. A named package takes the place of the whole workspace.
    fn nextest(&self) -> Vec<&'a str> {
        let mut arguments = vec!["nextest", "run", "--locked"];
        if self.long {
            arguments.extend(["--profile", "long"]);
        }
        let names_package =
            |arg: &&str| matches!(*arg, "-p" | "--package") || arg.starts_with("--package=");
        if !self.filter.iter().any(names_package) {
            arguments.push("--workspace");
        }
        arguments.extend(&self.filter);
        arguments
    }
}

/// The command.
pub(crate) fn main(args: &[&str]) -> Result<Ended> {
    if args.first().is_some_and(|arg| matches!(*arg, "--help" | "-h")) {
        print!("{HELP}");
        return Ok(Ended::Well);
    }
    let options = Options::parse(args);
    let mut guard = Guard::start()?;
    let start = Instant::now();
    let Some(bin) = provision::ensure(&mut guard, Need::PostgresAndNextest)? else {
        return Ok(Ended::NotReady);
    };
    let clients = clients::ensure(&mut guard)?;
    let postgres = Postgres::start(&mut guard, bin)?;
    eprintln!("PostgreSQL at {}", postgres.url());
    let mut phases = Phases::default();
    phases.add("set-up", true, start.elapsed());

    if options.filter.is_empty() {
        // Both stores' schema dumps are compared by the tests below.
        let parts = Part::ALL.into_iter().filter(|part| *part != Part::Schema);
        phases.run("check", || check::run_parts(&mut guard, &parts.collect::<Vec<_>>()));
    }
    phases.run("tests", || {
        let mut cargo = run::cargo(&source::root());
        let cargo = clients.lend(postgres.lend(&mut cargo));
        if options.long {
            cargo.env("WAKELINE_LONG", "1");
        }
        guard.run(cargo.args(options.nextest()))
    });
    if options.filter.is_empty() {
        phases.run("doc tests", || {
            let mut cargo = run::cargo(&source::root());
            let cargo = postgres.lend(&mut cargo);
            guard.run(cargo.args(["test", "--quiet", "--doc", "--workspace", "--locked"]))
        });
        phases.run("readme", || readme::prove(&mut guard));
    }
    phases.run("clean-up", || {
        drop(guard);
        Ok(true)
    });
    println!("{}", phases.summary());
    Ok(Ended::from_success(phases.passed()))
}

/// What ran, how it ended and how long it took.
#[derive(Debug, Default)]
struct Phases(Vec<(&'static str, bool, Duration)>);

impl Phases {
    fn run(&mut self, name: &'static str, phase: impl FnOnce() -> Result<bool>) {
        eprintln!("== {name}");
        let start = Instant::now();
        let passed = phase().unwrap_or_else(|error| {
            eprintln!("xtask: {name}: {error:#}");
            false
        });
        self.add(name, passed, start.elapsed());
    }

    fn add(&mut self, name: &'static str, passed: bool, took: Duration) {
        self.0.push((name, passed, took));
    }

    fn passed(&self) -> bool {
        self.0.iter().all(|(_, passed, _)| *passed)
    }

    fn summary(&self) -> String {
        let total: Duration = self.0.iter().map(|(_, _, took)| *took).sum();
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        let mut text = format!("{verdict} in {} s:", total.as_secs());
        for (name, passed, took) in &self.0 {
            let mark = if *passed { "" } else { " FAILED" };
            write!(text, " {name} {} s{mark},", took.as_secs()).expect("strings take all");
        }
        text.pop();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_run_covers_the_workspace() {
        assert_eq!(Options::parse(&[]).nextest(), ["nextest", "run", "--locked", "--workspace"]);
    }

    #[test]
    fn long_is_ours_and_the_rest_is_passed_on() {
        let options = Options::parse(&["-p", "wakeline-sqlite", "--long", "some_law"]);
        assert!(options.long);
        let expected = "nextest run --locked --profile long -p wakeline-sqlite some_law";
        assert_eq!(options.nextest().join(" "), expected);
    }

    #[test]
    fn one_failure_fails_the_run() {
        let mut phases = Phases::default();
        phases.run("one", || Ok(true));
        assert!(phases.passed());
        assert_eq!(phases.summary(), "passed in 0 s: one 0 s");
        phases.run("two", || anyhow::bail!("no"));
        phases.run("three", || Ok(true));
        assert!(!phases.passed());
        assert_eq!(phases.summary(), "FAILED in 0 s: one 0 s, two 0 s FAILED, three 0 s");
    }
}
