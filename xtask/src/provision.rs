//! Finds what the tests need, and installs it where that is allowed.
//!
//! # Where it sits
//! First step of `cargo xtask test` and `bench`.
//!
//! # Invariants
//! * Without root nothing but cargo's own programs is installed: the one line to run is printed
//!   instead.
//! * Installing PostgreSQL and PgBouncer leaves no server running: the tests start their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::guard::ProcessGuard;
use crate::run;

/// The oldest PostgreSQL that is supported.
pub(crate) const POSTGRES_MAJOR_MIN: u32 = 15;

/// The oldest Node.js that the published clients run on.
const NODE_MAJOR_MIN: u32 = 18;

/// A version that is known to build with the workspace's `rust-version`.
const NEXTEST: &str = "cargo-nextest@0.9.143";
const NO_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/wakeline-tests.conf";
/// Debian's packages ask it whether they may start a server.
const NO_START: &str = "/usr/sbin/policy-rc.d";

/// What a command cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// PostgreSQL's programs.
    Postgres,
    /// PostgreSQL's programs and the test runner.
    PostgresAndNextest,
}

/// What is there, and what may be done about the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Host {
    postgres: bool,
    /// Python with `venv`, for the published clients.
    python: bool,
    /// Node.js, for those that run on it.
    node: bool,
    /// To install those.
    npm: bool,
    /// For the examples, and for the command lines that the server and the README show.
    curl: bool,
    /// For the certificates of a PostgreSQL that speaks TLS.
    openssl: bool,
    /// For tests behind a pooler.
    pgbouncer: bool,
    nextest: bool,
    root: bool,
    apt: bool,
}

impl Host {
    /// Debian's packages for what is missing.
    fn missing(&self) -> Vec<&'static str> {
        let needs = [
            (self.postgres, "postgresql"),
            (self.python, "python3-venv"),
            (self.node, "nodejs"),
            (self.npm, "npm"),
            (self.curl, "curl"),
            (self.openssl, "openssl"),
            (self.pgbouncer, "pgbouncer"),
        ];
        needs.iter().filter(|(there, _)| !there).map(|(_, package)| *package).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum InstallPlan {
    /// Install these, possibly nothing.
    Install { packages: Vec<&'static str>, nextest: bool },
    /// The user must run this first.
    Manual(String),
}

fn plan(host: Host) -> InstallPlan {
    let packages = host.missing();
    if packages.is_empty() || (host.root && host.apt) {
        return InstallPlan::Install { packages, nextest: !host.nextest };
    }
    let packages = packages.join(" ");
    InstallPlan::Manual(if host.apt {
        format!("sudo apt-get update && sudo apt-get install -y {packages}")
    } else {
        format!(
            "install what Debian calls {packages}: PostgreSQL {POSTGRES_MAJOR_MIN} or later with \
             its contrib modules, Python 3 with venv, Node.js {NODE_MAJOR_MIN} or later with npm, \
             curl, openssl, PgBouncer; initdb, pg_ctl, postgres and pgbouncer on the PATH"
        )
    })
}

/// Returns the folder of PostgreSQL's programs once all needs are met; `None` if the user must
/// install something first: then that has been printed.
pub(crate) fn ensure(guard: &mut ProcessGuard, need: Need) -> Result<Option<PathBuf>> {
    let found = find_postgres()?;
    let tests = need == Need::PostgresAndNextest;
    let cargo = || run::succeeds(Command::new("cargo").args(["nextest", "--version"]));
    let python = || run::succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"]));
    let host = Host {
        postgres: found.is_some(),
        python: !tests || python(),
        node: !tests || run::succeeds(Command::new("node").args(["-e", &node_test()])),
        npm: !tests || run::succeeds(Command::new("npm").arg("--version")),
        curl: !tests || run::exists("curl"),
        openssl: !tests || run::exists("openssl"),
        // Debian's folder, which is on root's PATH only.
        pgbouncer: !tests || run::exists("pgbouncer") || Path::new("/usr/sbin/pgbouncer").is_file(),
        nextest: !tests || cargo(),
        root: is_root()?,
        apt: run::exists("apt-get"),
    };
    match plan(host) {
        InstallPlan::Manual(line) => {
            eprintln!("xtask: {} missing; run this first:", host.missing().join(", "));
            eprintln!("{line}");
            return Ok(None);
        }
        InstallPlan::Install { packages, nextest } => {
            if !packages.is_empty() {
                install_packages(guard, &packages)?;
            }
            if nextest {
                install_nextest(guard)?;
            }
        }
    }
    match found {
        Some(folder) => Ok(Some(folder)),
        None => find_postgres()?.map(Some).with_context(|| {
            format!("no PostgreSQL {POSTGRES_MAJOR_MIN} or later after installing")
        }),
    }
}

/// Ends with success on a Node.js that is new enough.
fn node_test() -> String {
    format!("process.exit(parseInt(process.versions.node) >= {NODE_MAJOR_MIN} ? 0 : 1)")
}

/// Whether this runs as root.
pub(crate) fn is_root() -> Result<bool> {
    Ok(run::output(Command::new("id").arg("-u"))?.trim() == "0")
}

fn install_packages(guard: &mut ProcessGuard, packages: &[&str]) -> Result<()> {
    eprintln!("xtask: installing {}", packages.join(" "));
    let _no_servers = NoServers::make()?;
    let mut apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        guard.run(&mut command)
    };
    if !apt_get(&["update", "-q"])? {
        bail!("`apt-get update` failed");
    }
    if !apt_get(&[&["install", "-q", "-y", "--no-install-recommends"], packages].concat())? {
        bail!("`apt-get install -y {}` failed", packages.join(" "));
    }
    Ok(())
}

fn install_nextest(guard: &mut ProcessGuard) -> Result<()> {
    eprintln!("xtask: installing {NEXTEST}");
    if !guard.run(Command::new("cargo").args(["install", "--locked", NEXTEST]))? {
        bail!("`cargo install --locked {NEXTEST}` failed");
    }
    Ok(())
}

/// While this lives, Debian's packages create no database cluster and start no server.
struct NoServers {
    /// Files to remove.
    written: Vec<&'static str>,
}

impl NoServers {
    fn make() -> Result<Self> {
        let mut made = Self { written: Vec::new() };
        made.write(NO_CLUSTER, "create_main_cluster = false\n", 0o644)?;
        // One that is there is the machine's own.
        if !Path::new(NO_START).exists() {
            made.write(NO_START, "#!/bin/sh\nexit 101\n", 0o755)?;
        }
        Ok(made)
    }

    fn write(&mut self, path: &'static str, text: &str, mode: u32) -> Result<()> {
        let folder = Path::new(path).parent().expect("an absolute path");
        fs::create_dir_all(folder)?;
        fs::write(path, text).with_context(|| format!("writing {path}"))?;
        self.written.push(path);
        fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
        Ok(())
    }
}

impl Drop for NoServers {
    fn drop(&mut self) {
        for path in &self.written {
            if let Err(error) = fs::remove_file(path) {
                eprintln!("xtask: cannot remove {path}: {error}");
            }
        }
    }
}

/// The newest PostgreSQL on this machine that is new enough.
fn find_postgres() -> Result<Option<PathBuf>> {
    Ok(newest(installations()?.into_iter()))
}

/// A PostgreSQL on this machine of exactly this major version.
pub(crate) fn find_major(major: u32) -> Result<Option<PathBuf>> {
    let found = installations()?.into_iter().find(|(there, _)| *there == major);
    Ok(found.map(|(_, folder)| folder))
}

fn installations() -> Result<Vec<(u32, PathBuf)>> {
    let mut folders = run::search_path();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    if run::exists("pg_config") {
        folders.push(run::output(Command::new("pg_config").arg("--bindir"))?.trim().into());
    }
    Ok(folders.iter().filter_map(|folder| installation(folder)).collect())
}

fn newest(found: impl Iterator<Item = (u32, PathBuf)>) -> Option<PathBuf> {
    found
        .filter(|(major, _)| *major >= POSTGRES_MAJOR_MIN)
        .max_by_key(|(major, _)| *major)
        .map(|(_, folder)| folder)
}

/// The version and the true folder of a PostgreSQL whose server programs are reached through
/// `folder`, perhaps by links.
fn installation(folder: &Path) -> Option<(u32, PathBuf)> {
    let server = folder.join("postgres").canonicalize().ok()?;
    let folder = server.parent()?.to_path_buf();
    if !["initdb", "pg_ctl"].iter().all(|program| folder.join(program).is_file()) {
        return None;
    }
    let version = Command::new(&server).arg("--version").output().ok()?;
    Some((major(&String::from_utf8_lossy(&version.stdout))?, folder))
}

/// `postgres (PostgreSQL) 15.3 (Debian ..)` is 15; a beta counts as its release.
fn major(version: &str) -> Option<u32> {
    let number = version.split("(PostgreSQL)").nth(1)?.trim_start();
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: Host = Host {
        postgres: false,
        python: false,
        node: false,
        npm: false,
        curl: false,
        openssl: false,
        pgbouncer: false,
        nextest: false,
        root: false,
        apt: true,
    };
    const FULL: Host = Host {
        postgres: true,
        python: true,
        node: true,
        npm: true,
        curl: true,
        openssl: true,
        pgbouncer: true,
        nextest: true,
        ..BARE
    };

    #[test]
    fn root_installs_what_is_missing_and_nothing_else() {
        let host = Host { root: true, ..BARE };
        let packages =
            ["postgresql", "python3-venv", "nodejs", "npm", "curl", "openssl", "pgbouncer"];
        let packages = packages.to_vec();
        assert_eq!(plan(host), InstallPlan::Install { packages, nextest: true });
        let host = Host { root: true, ..FULL };
        assert_eq!(plan(host), InstallPlan::Install { packages: vec![], nextest: false });
    }

    #[test]
    fn other_users_get_one_line_to_run() {
        let InstallPlan::Manual(line) = plan(Host { postgres: false, ..FULL }) else {
            panic!("installed without being allowed to")
        };
        assert_eq!(line, "sudo apt-get update && sudo apt-get install -y postgresql");
        let InstallPlan::Manual(line) = plan(Host { node: false, npm: false, ..FULL }) else {
            panic!("installed without being allowed to")
        };
        assert!(line.ends_with("install -y nodejs npm"), "{line}");
        assert!(matches!(plan(Host { apt: false, ..BARE }), InstallPlan::Manual(_)));
        assert!(matches!(plan(Host { apt: false, root: true, ..BARE }), InstallPlan::Manual(_)));
    }

    #[test]
    fn the_test_runner_is_installed_without_root() {
        let host = Host { nextest: false, ..FULL };
        assert_eq!(plan(host), InstallPlan::Install { packages: vec![], nextest: true });
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(major("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(major("psql 15"), None);
    }

    #[test]
    fn the_newest_that_is_new_enough_is_taken() {
        let found = |majors: &[u32]| {
            newest(majors.iter().map(|major| (*major, PathBuf::from(major.to_string()))))
        };
        assert_eq!(found(&[14]), None);
        assert_eq!(found(&[14, 15, 17, 16]), Some(PathBuf::from("17")));
    }
}
