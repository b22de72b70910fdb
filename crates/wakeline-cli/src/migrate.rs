//! `wakeline migrate up|status` updates the schema of a store, or lists its migrations.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;

use crate::config::{StoreArgs, StoreChoice};
use crate::{print_line, store};

const OF_POSTGRES: &str = "cannot read or change the schema of the PostgreSQL store";

/// Subcommands of `wakeline migrate`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Apply all pending migrations
    Up(StoreArgs),
    /// List applied and pending migrations; the exit code is 1 if some are pending
    Status(StoreArgs),
}

/// Runs `wakeline migrate`.
pub(crate) fn run(command: MigrateCommand) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            MigrateCommand::Up(store) => up(store.choice()?).await,
            MigrateCommand::Status(store) => status(store.choice()?).await,
        }
    })
}

async fn up(choice: StoreChoice) -> anyhow::Result<ExitCode> {
    match choice {
        StoreChoice::Sqlite { path } => {
            let done = wakeline_sqlite::migrate_up(&store::sqlite_options(&path)).await;
            done.with_context(|| of_sqlite(&path))?;
        }
        StoreChoice::Postgres { url, schema } => {
            let options = store::postgres_options(&url, &schema);
            let report = wakeline_postgres::migrate_up(&options).await.context(OF_POSTGRES)?;
            list("applied", &report.migrations);
            list("function", &report.functions);
        }
    }
    print_line("up to date");
    Ok(ExitCode::SUCCESS)
}

async fn status(choice: StoreChoice) -> anyhow::Result<ExitCode> {
    let current = match choice {
        StoreChoice::Sqlite { path } => {
            let all = wakeline_sqlite::migrate_status(&store::sqlite_options(&path)).await;
            let all = all.with_context(|| of_sqlite(&path))?;
            for migration in &all {
                let word = if migration.applied { "applied" } else { "pending" };
                print_line(&format!("{word:9} {:04}_{}", migration.version, migration.name));
            }
            all.iter().all(|migration| migration.applied)
        }
        StoreChoice::Postgres { url, schema } => {
            let options = store::postgres_options(&url, &schema);
            let status = wakeline_postgres::migrate_status(&options).await.context(OF_POSTGRES)?;
            list("applied", &status.applied);
            list("pending", &status.pending);
            list("function", &status.functions_pending);
            status.is_current()
        }
    };
    print_line(if current { "up to date" } else { "behind: run `wakeline migrate up`" });
    Ok(if current { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn of_sqlite(path: &Path) -> String {
    format!("cannot read or change the schema of the SQLite store {}", path.display())
}

fn list(word: &str, names: &[String]) {
    for name in names {
        print_line(&format!("{word:9} {name}"));
    }
}
