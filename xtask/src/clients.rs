//! Installs the published clients that the tests drive the server with.
//!
//! # Where it sits
//! Part of the set-up of `cargo xtask test`; the tests find the clients by the environment
//! that [`Clients::lend`] gives them.
//!
//! # Invariants
//! * All versions are fixed: here, in `requirements.txt` and in `package-lock.json`.
//! * A client is installed again only if its versions have changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::guard::ProcessGuard;
use crate::source;

/// The Queen client on PyPI: the line whose wire shape the server speaks, and the newest one.
const QUEEN: [&str; 2] = ["queen-mq==0.15.0", "queen-mq==2.6.0"];

/// Where the versions of the Svix and Standard Webhooks packages are written.
const PINS: &str = "crates/wakeline-cli/tests/clients";
const NODE_FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Makes requests of the OpenAPI document, for the long tests.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The clients that are installed.
#[derive(Debug)]
pub(crate) struct Clients {
    /// A program, if the long tests want it.
    schemathesis: Option<PathBuf>,
    /// Interpreters, joined by colons.
    queen: String,
    /// An interpreter.
    svix_python: PathBuf,
    /// A folder of Node packages.
    svix_node: PathBuf,
}

impl Clients {
    /// Sets the variables by which the tests find the clients.
    pub(crate) fn lend<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .envs(self.schemathesis.iter().map(|path| ("WAKELINE_TEST_SCHEMATHESIS", path)))
            .env("WAKELINE_TEST_QUEEN", &self.queen)
            .env("WAKELINE_TEST_SVIX_PYTHON", &self.svix_python)
            .env("WAKELINE_TEST_SVIX_NODE", &self.svix_node)
    }
}

/// Installs the clients, each into a folder of its own below `target`, unless they are there.
pub(crate) fn ensure(guard: &mut ProcessGuard, long: bool) -> Result<Clients> {
    let folder = source::root().join("target/clients");
    let pins = source::root().join(PINS);
    let mut queen = Vec::new();
    for package in QUEEN {
        let home = folder.join(package.replace("==", "-"));
        once(&home, package, || install_python(guard, &home, &[package]))?;
        queen.push(python(&home).display().to_string());
    }

    let home = folder.join("svix-python");
    let list = pins.join("requirements.txt");
    let versions = read(&list)?;
    let list = list.display().to_string();
    once(&home, &versions, || install_python(guard, &home, &["-r", &list]))?;
    let svix_python = python(&home);

    let home = folder.join("svix-node");
    let versions = NODE_FILES.map(|name| read(&pins.join(name)));
    let versions = versions.into_iter().collect::<Result<String>>()?;
    once(&home, &versions, || install_node(guard, &home, &pins))?;
    let svix_node = home.join("node_modules");

    let home = folder.join("schemathesis");
    if long {
        once(&home, SCHEMATHESIS, || install_python(guard, &home, &[SCHEMATHESIS]))?;
    }
    let schemathesis = long.then(|| home.join("bin/schemathesis"));
    Ok(Clients { schemathesis, queen: queen.join(":"), svix_python, svix_node })
}

/// Installs into `home`, unless these versions were installed there to the end.
pub(crate) fn once(
    home: &Path,
    versions: &str,
    install: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let installed = home.join("installed");
    if fs::read_to_string(&installed).is_ok_and(|there| there == versions) {
        return Ok(());
    }
    // Other versions, or what an interrupted run left behind.
    if home.exists() {
        fs::remove_dir_all(home)?;
    }
    install().with_context(|| format!("installing into {}", home.display()))?;
    fs::write(&installed, versions)?;
    Ok(())
}

fn install_python(guard: &mut ProcessGuard, home: &Path, packages: &[&str]) -> Result<()> {
    if !guard.run(Command::new("python3").args(["-m", "venv"]).arg(home))? {
        bail!("`python3 -m venv` failed");
    }
    let mut pip = Command::new(python(home));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    if !guard.run(&mut pip)? {
        bail!("`pip install {}` failed", packages.join(" "));
    }
    Ok(())
}

fn install_node(guard: &mut ProcessGuard, home: &Path, pins: &Path) -> Result<()> {
    fs::create_dir_all(home)?;
    for name in NODE_FILES {
        fs::copy(pins.join(name), home.join(name))?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(home).args(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]);
    if !guard.run(&mut npm)? {
        bail!("`npm ci` failed");
    }
    Ok(())
}

fn python(home: &Path) -> PathBuf {
    home.join("bin/python")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_installed_again_only_if_their_versions_change() {
        let name = format!("wakeline-clients-{}", std::process::id());
        let home = std::env::temp_dir().join(name);
        let mut installs = 0;
        for versions in ["one", "one", "two", "two"] {
            once(&home, versions, || {
                installs += 1;
                assert!(!home.exists(), "nothing of the other versions is left");
                fs::create_dir(&home)?;
                Ok(())
            })
            .expect("installed");
        }
        assert_eq!(installs, 2);
        once(&home, "three", || bail!("no network")).expect_err("reported");
        assert!(!home.exists(), "what was not installed to the end does not count");
    }

    #[test]
    fn every_version_is_fixed() {
        let pins = source::root().join(PINS);
        let list = read(&pins.join("requirements.txt")).expect("there");
        let loose =
            |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.contains("==");
        assert_eq!(list.lines().find(loose), None);
        let list: serde_json::Value =
            serde_json::from_str(&read(&pins.join("package.json")).expect("there")).expect("JSON");
        let exact = |(_, version): (&String, &serde_json::Value)| {
            version
                .as_str()
                .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        };
        let dependencies = list["dependencies"].as_object().expect("an object");
        assert!(!dependencies.is_empty() && dependencies.iter().all(exact));
    }
}
