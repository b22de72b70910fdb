//! The sides of the flow benchmark, each a process that does one job and tells what it found.
//!
//! # Invariants
//! * One side at a time: a peer that polls would slow the others down.
//! * Whoever goes away ends the process: no run leaves one behind.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Job, Outcome};
use crate::setup::{Setup, build_peers};

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideName {
    /// Ours on PostgreSQL.
    Postgres,
    /// The same, which fetches nothing ahead.
    PostgresOff,
    /// Ours on SQLite.
    Sqlite,
    /// The same, which fetches nothing ahead.
    SqliteOff,
    /// duroxide with duroxide-pg.
    Pg,
    /// duroxide with duroxide-pg-opt.
    PgOpt,
}

impl SideName {
    pub(super) const ALL: [Self; 6] =
        [Self::Postgres, Self::PostgresOff, Self::Pg, Self::PgOpt, Self::Sqlite, Self::SqliteOff];
    /// Those with the defaults.
    pub(super) const PLAIN: [Self; 4] = [Self::Postgres, Self::Pg, Self::PgOpt, Self::Sqlite];
    pub(super) const ON_POSTGRES: [Self; 3] = [Self::Postgres, Self::Pg, Self::PgOpt];
    pub(super) const PEERS: [Self; 2] = [Self::Pg, Self::PgOpt];

    /// How the tables call it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Postgres => "wakeline, PostgreSQL",
            Self::PostgresOff => "wakeline, PostgreSQL, no prefetch",
            Self::Sqlite => "wakeline, SQLite",
            Self::SqliteOff => "wakeline, SQLite, no prefetch",
            Self::Pg => "duroxide-pg",
            Self::PgOpt => "duroxide-pg-opt",
        }
    }
}

/// How the sides are started.
pub(super) struct Sides {
    own: PathBuf,
    peers: PathBuf,
    url: String,
    sqlite: PathBuf,
}

impl Sides {
    /// Everything ready; the peers' program is built if it is not given.
    pub(super) fn ready(setup: &Setup, peers: Option<&Path>) -> Result<Self> {
        Ok(Self {
            own: std::env::current_exe().context("cannot find this program")?,
            peers: peers.map_or_else(build_peers, |path| Ok(path.to_owned()))?,
            url: setup.database.url().to_owned(),
            sqlite: setup.file("flow.db"),
        })
    }

    /// Lets a side do a job.
    pub(super) async fn run(&self, name: SideName, job: Job) -> Result<Outcome> {
        let mut command = self.command(name, &serde_json::to_string(&job)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = Running(command.spawn().with_context(|| format!("{command:?}"))?);
        let mut stdout = child.0.stdout.take().context("it is piped")?;
        let told = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let told = told.await??;
        let status = child.0.wait()?;
        ensure!(status.success(), "{} ended with {status}", name.text());
        let line = told.lines().rfind(|line| line.starts_with('{'));
        let line = line.with_context(|| format!("{} told nothing", name.text()))?;
        let outcome: Outcome = serde_json::from_str(line)?;
        eprintln!(
            "{} {job:?}: {} completed, {} failed in {:.1} s",
            name.text(),
            outcome.completed,
            outcome.failed,
            outcome.seconds
        );
        Ok(outcome)
    }

    fn command(&self, name: SideName, job: &str) -> Command {
        let program = if SideName::PEERS.contains(&name) { &self.peers } else { &self.own };
        let mut command = Command::new(program);
        match name {
            SideName::Postgres | SideName::PostgresOff => {
                let store = format!("--store={}", self.url);
                command.args(["flow-side", "--schema=flow", &store, job]);
            }
            SideName::Sqlite | SideName::SqliteOff => {
                let store = format!("--store=sqlite:{}", self.sqlite.display());
                command.args(["flow-side", &store, job]);
            }
            SideName::Pg => {
                command.args(["pg", &self.url, "peer_plain", job]);
            }
            SideName::PgOpt => {
                command.args(["pg-opt", &self.url, "peer_opt", job]);
            }
        }
        if matches!(name, SideName::PostgresOff | SideName::SqliteOff) {
            command.arg("--prefetch=0");
        }
        command
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
