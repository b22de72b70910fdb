//! Dependencies have licences, versions and sources that `deny.toml` allows.
//!
//! # Where it sits
//! `cargo xtask check deny`: compares `deny.toml` with `Cargo.lock`, which has the dependencies of
//! all platforms, and with the licences of those that are built on this one. It downloads nothing
//! that a build does not need. The file is that of cargo-deny, which takes minutes to build; it can
//! be run beside this check, and also looks for known vulnerabilities.
//!
//! # Invariants
//! * A key of `deny.toml` that this check does not know is an error: nothing in it is ignored.
//! * An entry that names no crate of the tree is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};

use crate::run;
use crate::source::Finding;

const FILE: &str = "deny.toml";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Deny,
    wildcards: Deny,
    /// Crates of the workspace name each other without a version.
    allow_wildcard_paths: bool,
    deny: Vec<CrateRule>,
    skip: Vec<CrateRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Deny,
    unknown_git: Deny,
}

/// The only level that this check knows: whatever is not allowed fails.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Deny {
    Deny,
}

/// A crate, or one version of it, and why it is listed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CrateRule {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

/// A package of the dependency tree.
#[derive(Debug, Clone, Deserialize)]
struct ResolvedPackage {
    name: String,
    version: String,
    license: Option<String>,
    /// Absent for packages of the workspace.
    source: Option<String>,
    dependencies: Vec<Dependency>,
    /// Whether this platform needs it. The licences of others are not known.
    #[serde(skip, default = "yes")]
    is_built: bool,
}

fn yes() -> bool {
    true
}

/// `Cargo.lock`.
#[derive(Debug, Deserialize)]
struct LockFile {
    package: Vec<LockedPackage>,
}

#[derive(Debug, Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    source: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

impl ResolvedPackage {
    /// The version without build metadata.
    fn plain_version(&self) -> &str {
        self.version.split('+').next().unwrap_or_default()
    }

    fn spec(&self) -> String {
        format!("{}@{}", self.name, self.plain_version())
    }
}

/// Checks the dependency tree of the workspace.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("reading {FILE}"))?;
    let config: Config = toml::from_str(&text).with_context(|| format!("reading {FILE}"))?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("reading Cargo.lock")?;
    let host = run::output(Command::new("rustc").arg("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("`rustc -vV` names no host")?;
    let arguments = ["metadata", "--format-version=1", "--locked", "--filter-platform", host];
    let json = run::output(run::cargo(root).args(arguments))?;
    Ok(judge(&config, &parse(&json, &lock)?))
}

/// The packages of this platform, and then those that only other platforms need.
fn parse(json: &str, lock: &str) -> Result<Vec<ResolvedPackage>> {
    let mut metadata: Value = serde_json::from_str(json).context("reading cargo's metadata")?;
    let mut packages: Vec<ResolvedPackage> =
        serde_json::from_value(metadata["packages"].take()).context("reading cargo's packages")?;
    let lock: LockFile = toml::from_str(lock).context("reading Cargo.lock")?;
    for LockedPackage { name, version, source } in lock.package {
        if !packages.iter().any(|known| known.name == name && known.version == version) {
            packages.push(ResolvedPackage {
                name,
                version,
                license: None,
                source,
                dependencies: Vec::new(),
                is_built: false,
            });
        }
    }
    Ok(packages)
}

fn judge(config: &Config, packages: &[ResolvedPackage]) -> Vec<Finding> {
    let mut complaints = Vec::new();
    for package in packages {
        complaints.extend(license_complaint(&config.licenses.allow, package));
        complaints.extend(source_complaint(&config.sources, package));
        complaints.extend(wildcard_complaints(&config.bans, package));
        let banned = config.bans.deny.iter().find(|rule| rule.name == package.name);
        complaints.extend(banned.map(|rule| format!("{} is banned: {}", rule.name, rule.reason)));
    }
    complaints.extend(duplicates(&config.bans, packages));
    complaints.extend(unused_entries(config, packages));
    let finding = |text| Finding { place: FILE.to_owned(), rule: "deny", text };
    complaints.into_iter().map(finding).collect()
}

fn license_complaint(allowed: &[String], package: &ResolvedPackage) -> Option<String> {
    let spec = package.spec();
    if !package.is_built {
        return None;
    }
    let Some(license) = &package.license else {
        return Some(format!("{spec} names no licence"));
    };
    let is_allowed = |wanted: &LicenseReq| allowed.contains(&wanted.to_string());
    match Expression::parse_mode(license, ParseMode::LAX) {
        Ok(expression) if expression.evaluate(is_allowed) => None,
        Ok(_) => Some(format!(
            "{spec} has the licence {license}: add it to licenses.allow, or use another crate"
        )),
        Err(error) => Some(format!("the licence of {spec} cannot be read: {}", error.reason)),
    }
}

fn source_complaint(sources: &Sources, package: &ResolvedPackage) -> Option<String> {
    let Sources { unknown_registry: Deny::Deny, unknown_git: Deny::Deny } = sources;
    let source = package.source.as_deref().filter(|source| *source != REGISTRY)?;
    Some(format!("{} comes from {source}, which is not crates.io", package.spec()))
}

/// Complaints about dependencies of our own packages that any version would satisfy.
fn wildcard_complaints(bans: &Bans, package: &ResolvedPackage) -> Vec<String> {
    let Bans { wildcards: Deny::Deny, allow_wildcard_paths, .. } = bans;
    if package.source.is_some() {
        return Vec::new();
    }
    let is_wildcard = |dependency: &&Dependency| {
        dependency.req == "*" && !(*allow_wildcard_paths && dependency.path.is_some())
    };
    let complaint = |dependency: &Dependency| {
        format!("{} depends on any version of {}", package.name, dependency.name)
    };
    package.dependencies.iter().filter(is_wildcard).map(complaint).collect()
}

/// Crates of which more than one version is not listed in `bans.skip`.
fn duplicates(bans: &Bans, packages: &[ResolvedPackage]) -> Vec<String> {
    let Bans { multiple_versions: Deny::Deny, skip, .. } = bans;
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        if !skip.iter().any(|rule| rule.name == package.spec()) {
            versions.entry(&package.name).or_default().insert(package.plain_version());
        }
    }
    let complaint = |(name, versions): (&str, BTreeSet<&str>)| {
        let versions: Vec<&str> = versions.into_iter().collect();
        format!("{name} is there in several versions: {}", versions.join(", "))
    };
    versions.into_iter().filter(|(_, versions)| versions.len() > 1).map(complaint).collect()
}

/// Entries that allow or skip what is not in the tree.
fn unused_entries(config: &Config, packages: &[ResolvedPackage]) -> Vec<String> {
    let is_named = |license: &str| {
        packages
            .iter()
            .filter_map(|package| package.license.as_deref())
            .any(|text| text.split([' ', '/', '(', ')']).any(|word| word == license))
    };
    let licenses = config.licenses.allow.iter().filter(|license| !is_named(license));
    let mut complaints: Vec<String> = licenses
        .map(|license| format!("licenses.allow has {license}, which no crate needs"))
        .collect();
    for rule in &config.bans.skip {
        let Some((name, _)) = rule.name.split_once('@') else {
            complaints.push(format!("bans.skip: write a version, {}@1.2.3", rule.name));
            continue;
        };
        let exists = packages.iter().any(|package| package.spec() == rule.name);
        let versions: BTreeSet<&str> = packages
            .iter()
            .filter(|package| package.name == name)
            .map(ResolvedPackage::plain_version)
            .collect();
        if !exists || versions.len() < 2 {
            let spec = &rule.name;
            complaints.push(format!("bans.skip has {spec}, which is no second version of a crate"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        [licenses]
        allow = ["MIT"]
        [bans]
        multiple-versions = "deny"
        wildcards = "deny"
        allow-wildcard-paths = true
        deny = [{ crate = "openssl", reason = "we use rustls" }]
        skip = [{ crate = "syn@1.0.0", reason = "old macros" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn package(spec: &str) -> ResolvedPackage {
        let (name, version) = spec.split_once('@').expect("a version");
        ResolvedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some("MIT OR Apache-2.0".to_owned()),
            source: Some(REGISTRY.to_owned()),
            dependencies: Vec::new(),
            is_built: true,
        }
    }

    fn complaints(edit: impl FnOnce(&mut Vec<ResolvedPackage>)) -> Vec<String> {
        let mut packages = vec![package("syn@1.0.0"), package("syn@2.0.0")];
        edit(&mut packages);
        let config = toml::from_str(CONFIG).expect("valid");
        judge(&config, &packages).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn what_is_allowed_passes() {
        assert_eq!(complaints(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn a_licence_that_is_not_allowed_is_found() {
        for license in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "Unlicense/BSL-1.0"] {
            let found = complaints(|packages| packages[0].license = Some(license.to_owned()));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(license), "{found:?}");
        }
        let found = complaints(|packages| packages[0].license = None);
        assert_eq!(found, ["syn@1.0.0 names no licence"]);
        assert!(
            complaints(|packages| packages[0].license = Some("MIT/X".into()))[0].contains("read")
        );
    }

    #[test]
    fn a_second_version_and_a_banned_crate_are_found() {
        let found = complaints(|packages| packages.push(package("syn@3.0.0+build")));
        assert_eq!(found, ["syn is there in several versions: 2.0.0, 3.0.0"]);
        let found = complaints(|packages| packages.push(package("openssl@0.10.0")));
        assert_eq!(found, ["openssl is banned: we use rustls"]);
    }

    #[test]
    fn entries_that_name_nothing_are_found() {
        let found = complaints(|packages| drop(packages.remove(0)));
        assert_eq!(found, ["bans.skip has syn@1.0.0, which is no second version of a crate"]);
        let found = complaints(|packages| {
            packages.iter_mut().for_each(|package| package.license = Some("ISC".into()));
        });
        assert!(found.iter().any(|text| text.contains("which no crate needs")), "{found:?}");
    }

    #[test]
    fn other_sources_and_any_version_are_found() {
        let git = "git+https://example.com/x".to_owned();
        let found = complaints(|packages| packages[1].source = Some(git));
        assert_eq!(found.len(), 1, "{found:?}");
        let found = complaints(|packages| {
            packages[1].source = None;
            let any = |path| Dependency { name: "x".into(), req: "*".into(), path };
            packages[1].dependencies = vec![any(None), any(Some("../x".into()))];
        });
        assert_eq!(found, ["syn depends on any version of x"]);
    }

    #[test]
    fn packages_of_other_platforms_come_from_the_lock_file() {
        let json = r#"{"packages": [{"name": "a", "version": "1.0.0", "license": "MIT",
            "source": null, "dependencies": []}]}"#;
        let package = |name: &str| format!("[[package]]\nname = {name:?}\nversion = \"1.0.0\"\n");
        let packages = parse(json, &(package("a") + &package("b"))).expect("valid");
        let found: Vec<_> = packages.iter().map(|one| (one.spec(), one.is_built)).collect();
        assert_eq!(found, [("a@1.0.0".to_owned(), true), ("b@1.0.0".to_owned(), false)]);
        assert_eq!(license_complaint(&[], &packages[1]), None);
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(toml::from_str::<Config>(&format!("{CONFIG}\n[graph]")).is_err());
    }
}
