//! Dependencies point down only.
//!
//! # Where it sits
//! `cargo xtask check layers`: compares what `cargo metadata` says with the two tables below.
//!
//! # Invariants
//! * Every crate of the workspace is in the table and the other way round: a name that is
//!   misspelt here fails instead of allowing everything.
//! * Dev-dependencies are free: a test may look at its crate from any side.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::run;
use crate::source::Finding;

/// Which crates of the workspace a crate may depend on. cli -> http -> {queue, flow, hook} ->
/// {wake, store} -> core; postgres and sqlite -> store; only the binary, what Rust programs depend
/// on (the facade, the adapter) and the benchmarks name a concrete store.
const LAYERS: &[(&str, &[&str])] = &[
    ("wakeline-core", &[]),
    ("wakeline-wake", &["wakeline-core"]),
    ("wakeline-store", &["wakeline-core", "wakeline-encryption"]),
    ("wakeline-testkit", &["wakeline-core", "wakeline-encryption", "wakeline-store"]),
    ("wakeline-postgres", &["wakeline-core", "wakeline-encryption", "wakeline-store"]),
    ("wakeline-sqlite", &["wakeline-core", "wakeline-encryption", "wakeline-store"]),
    ("wakeline-queue", &["wakeline-core", "wakeline-store", "wakeline-wake"]),
    ("wakeline-flow", &["wakeline-core", "wakeline-store", "wakeline-wake"]),
    ("wakeline-encryption", &[]),
    ("wakeline-access", &["wakeline-core", "wakeline-store"]),
    ("wakeline-hook", &["wakeline-core", "wakeline-encryption", "wakeline-store", "wakeline-wake"]),
    (
        "wakeline-duroxide",
        // Its users depend on it alone, as users of the facade do: it opens the stores itself.
        &[
            "wakeline-core",
            "wakeline-store",
            "wakeline-wake",
            "wakeline-flow",
            "wakeline-postgres",
            "wakeline-sqlite",
        ],
    ),
    // Tests only.
    ("wakeline-duroxide-samples", &[]),
    (
        "wakeline",
        &[
            "wakeline-core",
            "wakeline-encryption",
            "wakeline-store",
            "wakeline-wake",
            "wakeline-flow",
            "wakeline-postgres",
            "wakeline-sqlite",
        ],
    ),
    (
        "wakeline-http",
        &[
            "wakeline-core",
            "wakeline-store",
            "wakeline-wake",
            "wakeline-queue",
            "wakeline-flow",
            "wakeline-hook",
            "wakeline-access",
            "wakeline-http-macros",
        ],
    ),
    ("wakeline-http-macros", &[]),
    (
        "wakeline-cli",
        &[
            "wakeline-access",
            "wakeline-core",
            "wakeline-store",
            "wakeline-wake",
            "wakeline-queue",
            "wakeline-flow",
            "wakeline-encryption",
            "wakeline-hook",
            "wakeline-http",
            "wakeline-postgres",
            "wakeline-sqlite",
        ],
    ),
    (
        "wakeline-bench",
        &["wakeline", "wakeline-core", "wakeline-store", "wakeline-postgres", "wakeline-sqlite"],
    ),
    ("xtask", &[]),
];

/// Crates from outside that belong to some layers only: no SQL above the stores, no HTTP below
/// the HTTP API but for calls to webhooks and for fetching key sets, no runtime in the core.
const RESERVED: &[(&str, &[&str])] = &[
    ("tokio-postgres", &["wakeline-postgres", "wakeline-testkit", "wakeline-bench"]),
    ("rusqlite", &["wakeline-sqlite", "wakeline-bench"]),
    ("duroxide", &["wakeline-duroxide"]),
    ("axum", &["wakeline-http"]),
    (
        "hyper",
        &["wakeline-http", "wakeline-hook", "wakeline-access", "wakeline-cli", "wakeline-bench"],
    ),
    ("jsonwebtoken", &["wakeline-access"]),
    ("clap", &["wakeline-cli", "wakeline-bench"]),
    // In wakeline-flow only to look into the errors of users' code.
    ("anyhow", &["wakeline-cli", "wakeline-bench", "wakeline-flow", "xtask"]),
    (
        "tokio",
        &[
            "wakeline-store",
            "wakeline-wake",
            "wakeline-flow",
            "wakeline-hook",
            "wakeline-access",
            "wakeline-duroxide",
            "wakeline",
            "wakeline-testkit",
            "wakeline-postgres",
            "wakeline-sqlite",
            "wakeline-queue",
            "wakeline-http",
            "wakeline-cli",
            "wakeline-bench",
        ],
    ),
];

/// A crate of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// The folder, from the root.
    pub(crate) folder: String,
    /// What it depends on to be built; tests aside.
    dependencies: Vec<String>,
}

/// Checks the workspace as cargo sees it.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    Ok(judge(&members(root)?, LAYERS, RESERVED))
}

/// The crates of the workspace.
pub(crate) fn members(root: &Path) -> Result<Vec<Crate>> {
    let json = run::output(run::cargo(root).args([
        "metadata",
        "--format-version=1",
        "--no-deps",
        "--locked",
    ]))?;
    parse(&json, root)
}

fn parse(json: &str, root: &Path) -> Result<Vec<Crate>> {
    let metadata: Value = serde_json::from_str(json).context("reading cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("metadata without packages")?;
    packages.iter().map(|package| parse_package(package, root)).collect()
}

fn parse_package(package: &Value, root: &Path) -> Result<Crate> {
    let name = package["name"].as_str().context("package without a name")?.to_owned();
    let manifest = package["manifest_path"].as_str().context("package without a manifest")?;
    let manifest = Path::new(manifest);
    let inner = manifest.strip_prefix(root).unwrap_or(manifest);
    let folder = inner.parent().unwrap_or(inner).to_string_lossy().into_owned();
    let dependencies = package["dependencies"]
        .as_array()
        .with_context(|| format!("{name} without dependencies"))?
        .iter()
        .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
        .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
        .collect();
    Ok(Crate { name, folder, dependencies })
}

type LayerTable = [(&'static str, &'static [&'static str])];

fn judge(crates: &[Crate], layers: &LayerTable, reserved: &LayerTable) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in crates {
        let mut object = |text: String| {
            let place = format!("{}/Cargo.toml", member.folder);
            findings.push(Finding { place, rule: "layers", text });
        };
        let Some((_, allowed)) = layers.iter().find(|(name, _)| *name == member.name) else {
            object(format!("{} has no layer; give it one in xtask/src/layers.rs", member.name));
            continue;
        };
        for dependency in &member.dependencies {
            let inside = crates.iter().any(|known| known.name == *dependency);
            if inside && !allowed.contains(&dependency.as_str()) {
                object(format!("{} may not depend on {dependency}", member.name));
            }
            let owners = reserved.iter().find(|(name, _)| name == dependency);
            if owners.is_some_and(|(_, owners)| !owners.contains(&member.name.as_str())) {
                object(format!("{dependency} does not belong into {}", member.name));
            }
        }
    }
    findings.extend(unknown_names(crates, layers, reserved));
    findings
}

/// Names in the tables that mean nothing: misspelt, or of crates that are gone.
fn unknown_names(crates: &[Crate], layers: &LayerTable, reserved: &LayerTable) -> Vec<Finding> {
    let is_member = |name: &str| crates.iter().any(|known| known.name == name);
    let is_used =
        |name: &str| crates.iter().any(|known| known.dependencies.iter().any(|d| d == name));
    let members = layers.iter().flat_map(|(name, allowed)| std::iter::once(name).chain(*allowed));
    let owners = reserved.iter().flat_map(|(_, owners)| *owners);
    let mut names: Vec<&str> = members.chain(owners).copied().filter(|n| !is_member(n)).collect();
    names.extend(reserved.iter().map(|(name, _)| *name).filter(|name| !is_used(name)));
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| Finding {
            place: "xtask/src/layers.rs".to_owned(),
            rule: "layers",
            text: format!("{name} names no crate; misspelt or gone"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &LayerTable = &[("low", &[]), ("high", &["low"])];
    const OWNERS: &LayerTable = &[("driver", &["low"])];

    fn workspace(edit: impl FnOnce(&mut Vec<Crate>)) -> Vec<String> {
        let member = |name: &str, dependencies: &[&str]| Crate {
            name: name.to_owned(),
            folder: name.to_owned(),
            dependencies: dependencies.iter().map(|d| (*d).to_owned()).collect(),
        };
        let mut crates = vec![member("low", &["driver"]), member("high", &["low"])];
        edit(&mut crates);
        judge(&crates, TABLE, OWNERS).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_tree_that_points_down_passes() {
        assert_eq!(workspace(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_that_points_up_fails() {
        let findings = workspace(|crates| crates[0].dependencies.push("high".into()));
        assert_eq!(findings, ["low/Cargo.toml: [layers] low may not depend on high"]);
    }

    #[test]
    fn a_reserved_crate_in_the_wrong_layer_fails() {
        let findings = workspace(|crates| crates[1].dependencies.push("driver".into()));
        assert_eq!(findings, ["high/Cargo.toml: [layers] driver does not belong into high"]);
    }

    #[test]
    fn a_crate_without_a_layer_fails() {
        let findings = workspace(|crates| {
            let stray = Crate { name: "stray".into(), ..crates[0].clone() };
            crates.push(stray);
        });
        assert!(findings[0].contains("stray has no layer"), "{findings:?}");
    }

    #[test]
    fn a_misspelt_crate_name_fails() {
        let findings = workspace(|crates| crates[1].name = "hihg".into());
        assert!(findings.iter().any(|f| f.contains("high names no crate")), "{findings:?}");
        let findings = workspace(|crates| crates[0].dependencies.clear());
        assert!(findings.iter().any(|f| f.contains("driver names no crate")), "{findings:?}");
    }

    #[test]
    fn dev_dependencies_are_free_and_build_dependencies_are_not() {
        let json = r#"{"packages":[{"name":"a","manifest_path":"/r/crates/a/Cargo.toml",
            "dependencies":[{"name":"x","kind":null},{"name":"y","kind":"dev"},
            {"name":"z","kind":"build"}]}]}"#;
        let crates = parse(json, Path::new("/r")).expect("valid");
        assert_eq!(crates[0].folder, "crates/a");
        assert_eq!(crates[0].dependencies, ["x", "z"]);
    }
}
