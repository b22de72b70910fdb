//! Prepares the samples that duroxide publishes with its crate; the tests include the result.
//!
//! # Invariants
//! * The text comes from the version in `Cargo.lock`. This repository has no copy of it.
//! * Every edit is applied exactly as often as expected: a version with other samples fails the
//!   build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// The replacements in the samples: the old text, the new text, and the number of occurrences. They
/// change only how a store is opened and how long something waits, because a sample that misses its
/// own deadline on a busy machine proves nothing about the store.
const EDITS: [(&str, &str, usize); 5] = [
    // The tests have a module with this name.
    ("mod common;\n", "", 1),
    // Two samples open duroxide's store in memory.
    (
        "let store = Arc::new(
        duroxide::providers::sqlite::SqliteProvider::new_in_memory()
            .await
            .unwrap(),
    );",
        "let (store, _kept) = common::create_sqlite_store_disk().await;",
        2,
    ),
    // Activities that must lose a race against a timer or an event.
    ("sleep(std::time::Duration::from_millis(500))", "sleep(Duration::from_millis(60_000))", 1),
    ("sleep(std::time::Duration::from_millis(300))", "sleep(Duration::from_millis(60_000))", 1),
    // A child that must exist when its parent is cancelled.
    (
        "tokio::time::sleep(std::time::Duration::from_millis(50)).await;",
        "assert!(common::wait_for_subscription(\
            store.clone(), \"inst-sample-cancel::sub::2\", \"Go\", 5_000).await);",
        1,
    ),
];

/// Returns the folder of the package `duroxide`.
fn published() -> PathBuf {
    let variable = |name: &str| env::var(name).expect("cargo sets it");
    // Packages of other platforms need not be present.
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
    // The header is not allowed inside a module.
    let is_inner = |line: &str| line.starts_with("#![") || line.starts_with("//!");
    let lines = text.lines().filter(|line| !is_inner(line));
    let mut text: String = lines.map(|line| format!("{line}\n")).collect();
    for (from, to, expected) in EDITS {
        assert_eq!(text.matches(from).count(), expected, "{from:?} in {}", samples.display());
        text = text.replace(from, to);
    }
    // Extends the limits of waits, which are all durations in seconds.
    let text = text.replace("Duration::from_secs(", "Duration::from_secs(6 * ");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(folder.join("e2e_samples.rs"), text).expect("the folder can be written");
}
