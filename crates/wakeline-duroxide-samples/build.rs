//! Prepares the samples that duroxide publishes with its crate: the tests include what this writes.
//!
//! # Invariants
//! * The text comes from the version that `Cargo.lock` names. This repository has no copy of it.
//! * Every edit is found exactly as often as it is expected: a version with other samples fails the
//!   build instead of running something else.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// What is replaced in the samples, by what, and how often it occurs. Only what opens a store and
/// how long something waits: on a busy machine, a sample that is overtaken by its own deadline says
/// nothing about the store.
const EDITS: [(&str, &str, usize); 5] = [
    // The tests have a module of that name.
    ("mod common;\n", "", 1),
    // Two samples open the store of duroxide that lives in memory.
    (
        "let store = Arc::new(
        duroxide::providers::sqlite::SqliteProvider::new_in_memory()
            .await
            .unwrap(),
    );",
        "let (store, _kept) = common::create_sqlite_store_disk().await;",
        2,
    ),
    // Activities that shall lose a race against a timer or an event.
    ("sleep(std::time::Duration::from_millis(500))", "sleep(Duration::from_millis(60_000))", 1),
    ("sleep(std::time::Duration::from_millis(300))", "sleep(Duration::from_millis(60_000))", 1),
    // A child that shall be there when its parent is cancelled.
    (
        "tokio::time::sleep(std::time::Duration::from_millis(50)).await;",
        "assert!(common::wait_for_subscription(\
            store.clone(), \"inst-sample-cancel::sub::2\", \"Go\", 5_000).await);",
        1,
    ),
];

/// Where the package `duroxide` lies.
fn published() -> PathBuf {
    let variable = |name: &str| env::var(name).expect("cargo sets it");
    // Of other platforms, packages need not be there.
    let output = Command::new(variable("CARGO"))
        .args(["metadata", "--locked", "--format-version=1", "--filter-platform"])
        .arg(variable("TARGET"))
        .current_dir(variable("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let duroxide = packages.iter().find(|package| package["name"] == "duroxide");
    let manifest = duroxide.expect("the tests depend on it")["manifest_path"].as_str();
    Path::new(manifest.expect("a path")).parent().expect("a folder").to_owned()
}

fn main() {
    let samples = published().join("tests/e2e_samples.rs");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let text = fs::read_to_string(&samples).expect("duroxide publishes its samples");
    // The header does not belong inside a module.
    let is_inner = |line: &str| line.starts_with("#![") || line.starts_with("//!");
    let lines = text.lines().filter(|line| !is_inner(line));
    let mut text: String = lines.map(|line| format!("{line}\n")).collect();
    for (from, to, expected) in EDITS {
        assert_eq!(text.matches(from).count(), expected, "{from:?} in {}", samples.display());
        text = text.replace(from, to);
    }
    // The limits of waits: all that is written in seconds.
    let text = text.replace("Duration::from_secs(", "Duration::from_secs(6 * ");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(folder.join("e2e_samples.rs"), text).expect("the folder can be written");
}
