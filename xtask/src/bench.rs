//! `cargo xtask bench`: the benchmarks, with a PostgreSQL of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::guard::ProcessGuard;
use crate::postgres::{Durability, Postgres, Programs};
use crate::provision::{self, Need};
use crate::{XtaskOutcome, run, source};

const HELP: &str = "\
Runs a benchmark in release mode, with a PostgreSQL of its own

Usage: cargo xtask bench queue|wake|hints|flow|hook|soak [arguments]

  queue    push, and pop with ack, over HTTP on both stores, compared in the same run with
           minimal handlers that call the store directly
  wake     pick-up latency compared with a hand-written loop; then for each wake mode the idle
           statements, claims per event, latency, capacity and behaviour under stress, compared
           with what its design predicts
  hints    how much slower pushes are because other nodes are notified of them
  flow     orchestrations per second, latencies and commits on both stores, compared with
           duroxide-pg and duroxide-pg-opt in the same run
  hook     webhook deliveries per second, latencies and statements on both stores, and the effect
           of slow endpoints on others
  soak     the size and the dead rows of both stores under a steady load with retention

The arguments are passed to the benchmark; `cargo xtask bench queue --help` lists those of `queue`.
";

/// The command.
pub(crate) fn main(args: &[&str]) -> Result<XtaskOutcome> {
    match args {
        ["queue" | "wake" | "hints" | "flow" | "hook" | "soak", ..] => (),
        [] | ["--help" | "-h", ..] => {
            print!("{HELP}");
            return Ok(XtaskOutcome::Well);
        }
        [other, ..] => {
            return Ok(XtaskOutcome::misused(format!("there is no benchmark {other:?}")));
        }
    }
    let root = source::root();
    let mut guard = ProcessGuard::start()?;
    let Some(bin) = provision::ensure(&mut guard, Need::Postgres)? else {
        return Ok(XtaskOutcome::NotReady);
    };
    let build = ["build", "--release", "--locked", "-p", "wakeline-cli", "-p", "wakeline-bench"];
    if !guard.run(run::cargo(&root).args(build))? {
        return Ok(XtaskOutcome::Failed);
    }
    let target = target_folder(&root)?;
    if args[0] == "flow" && !guard.run(&mut build_peers(&root, &target))? {
        return Ok(XtaskOutcome::Failed);
    }
    let programs = Programs { installed: bin, package: None };
    let postgres = Postgres::start(&mut guard, programs, Durability::On)?;
    let output = target.join("release");
    let mut bench = Command::new(output.join("wakeline-bench"));
    postgres.lend(&mut bench).args(args).env("WAKELINE_BENCH_SERVER", output.join("wakeline"));
    bench.env("WAKELINE_BENCH_PEERS", target.join("peers/release/wakeline-bench-peers"));
    Ok(XtaskOutcome::from_success(guard.run(&mut bench)?))
}

/// Builds what drives the peers of the flow benchmark: a workspace of its own, into a folder of its
/// own.
fn build_peers(root: &Path, target: &Path) -> Command {
    let mut cargo = run::cargo(root);
    cargo.args(["build", "--release", "--locked", "--manifest-path", "bench/peers/Cargo.toml"]);
    cargo.arg("--target-dir").arg(target.join("peers"));
    cargo
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let arguments = ["metadata", "--format-version=1", "--no-deps", "--locked"];
    let json = run::output(run::cargo(root).args(arguments))?;
    let metadata: Value = serde_json::from_str(&json).context("reading cargo's metadata")?;
    let folder = metadata["target_directory"].as_str().context("metadata without a target")?;
    Ok(folder.into())
}
