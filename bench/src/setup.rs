//! The setup of every benchmark: a separate database, a temporary folder and the server program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tempfile::TempDir;

use crate::database::Database;
use crate::node::BenchStore;
use crate::table::print_line;

/// Settings of every benchmark.
#[derive(Args)]
pub(crate) struct SetupArgs {
    /// PostgreSQL server with pg_stat_statements, and a user who may create databases:
    /// postgres://USER@HOST/DATABASE
    #[arg(long, env = "WAKELINE_TEST_POSTGRES", value_name = "URL")]
    postgres: String,
    /// Program `wakeline` [default: it is built]
    #[arg(long, env = "WAKELINE_BENCH_SERVER", value_name = "PATH")]
    server: Option<PathBuf>,
}

/// The setup of a run.
pub(crate) struct Setup {
    /// The database of the run.
    pub(crate) database: Database,
    /// The program `wakeline`.
    pub(crate) server: PathBuf,
    folder: TempDir,
}

impl Setup {
    /// Creates the database and the folder, and builds the server if necessary.
    pub(crate) async fn create(args: &SetupArgs) -> Result<Self> {
        let server = match &args.server {
            Some(path) => path.clone(),
            None => build_server()?,
        };
        // The folder is beside the program, because the temporary folder of the system is often in
        // memory, where syncing costs nothing.
        let folder = server.parent().context("the server's path has no folder")?;
        let folder = tempfile::Builder::new().prefix("wakeline-bench-").tempdir_in(folder)?;
        Ok(Self { database: Database::create(&args.postgres).await?, server, folder })
    }

    /// A store in a schema of the database.
    pub(crate) fn postgres(&self, schema: &str) -> BenchStore {
        BenchStore::Postgres { url: self.database.url().to_owned(), schema: schema.to_owned() }
    }

    /// A store in a file of the folder.
    pub(crate) fn sqlite(&self, name: &str) -> BenchStore {
        BenchStore::Sqlite { path: self.file(name) }
    }

    /// The path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Prints a title and the conditions of the run.
    pub(crate) fn print_introduction(&self, title: &str, how: &str) {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split(' ').take(3).collect();
        print_line(&format!("# {title}\n"));
        print_line(&format!(
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
            print_line("\nA debug build: these results are meaningless.");
        }
    }

    /// Removes the database.
    pub(crate) async fn remove(self) -> Result<()> {
        self.database.remove().await
    }
}

/// The model of the processor, if Linux shows it.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(String::new, |(_, name)| format!(" ({})", name.trim()))
}

/// The commit of the source code, if git knows it.
fn commit() -> String {
    let arguments = ["describe", "--always", "--exclude=*", "--dirty", "--abbrev=10"];
    let mut git = Command::new("git");
    let output = git.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(String::new, |text| format!(" of commit {}", text.trim()))
}

/// Builds the server with the profile of this program.
fn build_server() -> Result<PathBuf> {
    let output = output_folder()?;
    let target = output.parent().context("this program has no target folder")?;
    build(&["--package", "wakeline-cli"], target).context("cannot build the server")?;
    Ok(output.join("wakeline"))
}

/// Builds the program for the peers, in a separate target folder because it shares nothing with the
/// build of the product.
pub(crate) fn build_peers() -> Result<PathBuf> {
    let output = output_folder()?;
    let target = output.parent().context("this program has no target folder")?.join("peers");
    build(&["--manifest-path", "bench/peers/Cargo.toml"], &target)
        .context("cannot build the program for the peers")?;
    let profile = output.file_name().context("this program has no target folder")?;
    Ok(target.join(profile).join("wakeline-bench-peers"))
}

/// The folder that cargo put this program into.
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
    ensure!(cargo.status().context("cannot run cargo")?.success(), "cargo build failed");
    Ok(())
}
