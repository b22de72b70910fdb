//! The sides of the flow benchmark, each of which is a process that runs one job and prints its
//! result.
//!
//! # Invariants
//! * One side runs at a time, because a peer that polls would slow the others down.
//! * A side is killed when its handle is dropped, so that no run leaves a process behind.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::{DriveOutcome, Job};
use crate::setup::{Setup, build_peers};

/// The implementations that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideName {
    /// Wakeline on PostgreSQL.
    Postgres,
    /// Wakeline on PostgreSQL without prefetch.
    PostgresNoPrefetch,
    /// Wakeline on SQLite.
    Sqlite,
    /// Wakeline on SQLite without prefetch.
    SqliteNoPrefetch,
    /// duroxide with duroxide-pg.
    Pg,
    /// duroxide with duroxide-pg-opt.
    PgOpt,
}

impl SideName {
    pub(super) const ALL: [Self; 6] = [
        Self::Postgres,
        Self::PostgresNoPrefetch,
        Self::Pg,
        Self::PgOpt,
        Self::Sqlite,
        Self::SqliteNoPrefetch,
    ];
    /// The sides with default settings.
    pub(super) const PLAIN: [Self; 4] = [Self::Postgres, Self::Pg, Self::PgOpt, Self::Sqlite];
    pub(super) const ON_POSTGRES: [Self; 3] = [Self::Postgres, Self::Pg, Self::PgOpt];
    pub(super) const PEERS: [Self; 2] = [Self::Pg, Self::PgOpt];

    /// The name in tables.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Postgres => "wakeline, PostgreSQL",
            Self::PostgresNoPrefetch => "wakeline, PostgreSQL, no prefetch",
            Self::Sqlite => "wakeline, SQLite",
            Self::SqliteNoPrefetch => "wakeline, SQLite, no prefetch",
            Self::Pg => "duroxide-pg",
            Self::PgOpt => "duroxide-pg-opt",
        }
    }
}

/// Starts the processes of the sides.
pub(super) struct Sides {
    own: PathBuf,
    peers: PathBuf,
    url: String,
    sqlite: PathBuf,
}

impl Sides {
    /// Prepares all sides. Builds the program for the peers if it is not given.
    pub(super) fn ready(setup: &Setup, peers: Option<&Path>) -> Result<Self> {
        Ok(Self {
            own: std::env::current_exe().context("cannot find this program")?,
            peers: peers.map_or_else(build_peers, |path| Ok(path.to_owned()))?,
            url: setup.database.url().to_owned(),
            sqlite: setup.file("flow.db"),
        })
    }

    /// Runs a job on a side.
    pub(super) async fn run(&self, name: SideName, job: Job) -> Result<DriveOutcome> {
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
            SideName::Postgres | SideName::PostgresNoPrefetch => {
                let store = format!("--store={}", self.url);
                command.args(["flow-side", "--schema=flow", &store, job]);
            }
            SideName::Sqlite | SideName::SqliteNoPrefetch => {
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
        if matches!(name, SideName::PostgresNoPrefetch | SideName::SqliteNoPrefetch) {
            command.arg("--prefetch=0");
        }
        command
    }
}

/// Runs the process of a side, and reads its result.
pub(crate) async fn outcome_of(mut command: Command) -> Result<DriveOutcome> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "the side ended with {}", output.status);
    let text = String::from_utf8(output.stdout).context("the side printed no text")?;
    let line = text.lines().rfind(|line| line.starts_with('{'));
    Ok(serde_json::from_str(line.context("the side printed no outcome")?)?)
}
