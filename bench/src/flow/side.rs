//! The sides of the flow benchmark, each a process that does one job and tells what it found.
//!
//! # Invariants
//! * One side at a time: a peer that polls would slow the others down.
//! * Whoever goes away ends the process: no run leaves one behind.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

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
        let command = self.command(name, &serde_json::to_string(&job)?);
        let outcome = outcome_of(command).await.with_context(|| name.text())?;
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

/// Runs a side, and reads what it found.
pub(crate) async fn outcome_of(mut command: Command) -> Result<Outcome> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "the side ended with {}", output.status);
    let text = String::from_utf8(output.stdout).context("the side printed no text")?;
    let line = text.lines().rfind(|line| line.starts_with('{'));
    Ok(serde_json::from_str(line.context("the side printed no outcome")?)?)
}
