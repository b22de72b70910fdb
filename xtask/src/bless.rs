//! `cargo xtask bless`: writes the generated files of the tree again.
//!
//! # Where it sits
//! Each generated file belongs to a test that compares it with what the code makes. With
//! `WAKELINE_BLESS` set, that test writes the file first; this command runs those tests so.

use std::process::Command;

use anyhow::Result;

use crate::guard::ProcessGuard;
use crate::postgres::{Durability, Postgres, Programs};
use crate::provision::{self, Need};
use crate::{XtaskOutcome, run, source};

const HELP: &str = "\
Generates files again. Review the difference, and commit it with the change that caused it

Usage: cargo xtask bless [file]...

Files (default: all):
  openapi   crates/wakeline-http/openapi.json, after a change of a route, its parameters or its
            responses
  sqlite    crates/wakeline-sqlite/sql/schema.txt, after a migration
  postgres  crates/wakeline-postgres/sql/schema.txt, after a migration; starts a PostgreSQL
";

/// A generated file, and the test that compares it.
#[derive(Debug)]
pub(crate) struct Generated {
    name: &'static str,
    path: &'static str,
    package: &'static str,
    test: &'static str,
}

pub(crate) const OPENAPI: Generated = Generated {
    name: "openapi",
    path: "crates/wakeline-http/openapi.json",
    package: "wakeline-http",
    test: "the_openapi_document_is_the_one_in_the_tree",
};
pub(crate) const SQLITE: Generated = Generated {
    name: "sqlite",
    path: "crates/wakeline-sqlite/sql/schema.txt",
    package: "wakeline-sqlite",
    test: "the_schema_is_the_one_in_the_tree",
};
const POSTGRES: Generated = Generated {
    name: "postgres",
    path: "crates/wakeline-postgres/sql/schema.txt",
    package: "wakeline-postgres",
    test: "the_committed_dump_shows_the_migrated_schema",
};
const ALL: [&Generated; 3] = [&OPENAPI, &SQLITE, &POSTGRES];

impl Generated {
    /// The command that runs the test of this file.
    pub(crate) fn test(&self) -> Command {
        let mut cargo = run::cargo(&source::root());
        cargo.args(["test", "--quiet", "--locked", "-p", self.package, "--tests", self.test]);
        cargo
    }

    /// The name of the test, for messages.
    pub(crate) fn test_name(&self) -> String {
        format!("{} of {}", self.test, self.package)
    }
}

/// The command.
pub(crate) fn main(args: &[&str]) -> Result<XtaskOutcome> {
    if args.iter().any(|arg| matches!(*arg, "--help" | "-h")) {
        print!("{HELP}");
        return Ok(XtaskOutcome::Well);
    }
    let mut files = Vec::new();
    for arg in args {
        match ALL.into_iter().find(|file| file.name == *arg) {
            Some(file) => files.push(file),
            None => {
                return Ok(XtaskOutcome::misused(format!("there is no generated file {arg:?}")));
            }
        }
    }
    if files.is_empty() {
        files.extend(ALL);
    }
    let mut guard = ProcessGuard::start()?;
    let mut server = None;
    if files.iter().any(|file| file.name == POSTGRES.name) {
        let Some(installed) = provision::ensure(&mut guard, Need::Postgres)? else {
            return Ok(XtaskOutcome::NotReady);
        };
        let programs = Programs { installed, package: None };
        server = Some(Postgres::start(&mut guard, programs, Durability::Off)?);
    }
    for file in files {
        let before = std::fs::read(source::root().join(file.path)).unwrap_or_default();
        let mut test = file.test();
        test.env("WAKELINE_BLESS", "1");
        if let Some(server) = &server {
            server.lend(&mut test);
        }
        guard.output(&mut test)?;
        let after = std::fs::read(source::root().join(file.path))?;
        let outcome = if before == after { "unchanged" } else { "written" };
        println!("{outcome}: {}", file.path);
    }
    Ok(XtaskOutcome::Well)
}
