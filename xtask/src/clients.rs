//! Installs the published clients that the tests drive the server with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::guard::Guard;
use crate::source;

/// The Queen client on PyPI: the line whose wire shape the server speaks, and the newest one.
const QUEEN: [&str; 2] = ["queen-mq==0.15.0", "queen-mq==2.6.0"];

/// Installs the clients, each into an environment of its own below `target`, unless they are
/// there. Returns their interpreters, joined by colons.
pub(crate) fn ensure(guard: &mut Guard) -> Result<String> {
    let folder = source::root().join("target/clients");
    let mut interpreters = Vec::new();
    for package in QUEEN {
        let home = folder.join(package.replace("==", "-"));
        let installed = home.join("installed");
        if !installed.exists() {
            install(guard, package, &home).with_context(|| format!("installing {package}"))?;
            fs::write(&installed, package)?;
        }
        interpreters.push(python(&home).display().to_string());
    }
    Ok(interpreters.join(":"))
}

fn install(guard: &mut Guard, package: &str, home: &Path) -> Result<()> {
    // What an interrupted run left behind.
    if home.exists() {
        fs::remove_dir_all(home)?;
    }
    if !guard.run(Command::new("python3").args(["-m", "venv"]).arg(home))? {
        bail!("`python3 -m venv` failed");
    }
    let mut pip = Command::new(python(home));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
    if !guard.run(&mut pip)? {
        bail!("`pip install {package}` failed");
    }
    Ok(())
}

fn python(home: &Path) -> PathBuf {
    home.join("bin/python")
}
