//! What every benchmark needs: a database of its own, a folder, the server's program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tempfile::TempDir;

use crate::database::Database;
use crate::node::StoreAt;
use crate::table::say;

/// Settings of every benchmark.
#[derive(Args)]
pub(crate) struct SetupArgs {
    /// A PostgreSQL with pg_stat_statements, as a user who may make databases:
    /// postgres://USER@HOST/DATABASE
    #[arg(long, env = "WAKELINE_TEST_POSTGRES", value_name = "URL")]
    postgres: String,
    /// The program `wakeline`; built if it is not given
    #[arg(long, env = "WAKELINE_BENCH_SERVER", value_name = "PATH")]
    server: Option<PathBuf>,
}

/// What a benchmark runs with.
pub(crate) struct Setup {
    /// The database.
    pub(crate) database: Database,
    /// The program `wakeline`.
    pub(crate) server: PathBuf,
    folder: TempDir,
}

impl Setup {
    /// Makes everything ready.
    pub(crate) async fn make(args: &SetupArgs) -> Result<Self> {
        let server = match &args.server {
            Some(path) => path.clone(),
            None => build_server()?,
        };
        // Beside the program, because the system's folder for temporary files is often kept in
        // memory, where syncing is free.
        let folder = server.parent().context("the server's path has no folder")?;
        let folder = tempfile::Builder::new().prefix("wakeline-bench-").tempdir_in(folder)?;
        Ok(Self { database: Database::make(&args.postgres).await?, server, folder })
    }

    /// A schema of the database.
    pub(crate) fn postgres(&self, schema: &str) -> StoreAt {
        StoreAt::Postgres { url: self.database.url().to_owned(), schema: schema.to_owned() }
    }

    /// A file in the folder.
    pub(crate) fn sqlite(&self, name: &str) -> StoreAt {
        StoreAt::Sqlite { path: self.file(name) }
    }

    /// The path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Prints what the figures depend on.
    pub(crate) fn introduce(&self, title: &str, how: &str) {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split(' ').take(3).collect();
        say(&format!("# {title}\n"));
        say(&format!(
            "{}, {cores} cores{}, load average {} at the start, PostgreSQL {} with its own \
             settings (fsync on), wakeline {}{}. {how}",
            self.database.date,
            processor(),
            load.join(" "),
            self.database.version,
            env!("CARGO_PKG_VERSION"),
            commit(),
        ));
        if cfg!(debug_assertions) {
            say("\nA debug build: these figures mean nothing.");
        }
    }

    /// Removes what was made.
    pub(crate) async fn remove(self) -> Result<()> {
        self.database.remove().await
    }
}

/// The kind of processor, where Linux tells.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(String::new, |(_, name)| format!(" ({})", name.trim()))
}

/// The commit of the sources, if git knows it.
fn commit() -> String {
    let arguments = ["describe", "--always", "--exclude=*", "--dirty", "--abbrev=10"];
    let mut git = Command::new("git");
    let output = git.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(String::new, |text| format!(" of commit {}", text.trim()))
}

/// Builds the server like this program is built.
fn build_server() -> Result<PathBuf> {
    let output = output_folder()?;
    let target = output.parent().context("this program has no target folder")?;
    build(&["--package", "wakeline-cli"], target).context("the server")?;
    Ok(output.join("wakeline"))
}

/// Builds the program that drives the peers, in a folder of its own: it shares nothing with the
/// product's build.
pub(crate) fn build_peers() -> Result<PathBuf> {
    let output = output_folder()?;
    let target = output.parent().context("this program has no target folder")?.join("peers");
    build(&["--manifest-path", "bench/peers/Cargo.toml"], &target).context("the peers")?;
    let profile = output.file_name().context("this program has no target folder")?;
    Ok(target.join(profile).join("wakeline-bench-peers"))
}

/// Where cargo put this program.
fn output_folder() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    Ok(own.parent().context("this program has no folder")?.to_owned())
}

fn build(what: &[&str], target: &Path) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--quiet", "--locked"]).args(what);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo.env("CARGO_TARGET_DIR", target);
    ensure!(cargo.status().context("cannot run cargo")?.success(), "it does not build");
    Ok(())
}
