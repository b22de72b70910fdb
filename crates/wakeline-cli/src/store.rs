//! Opening the store that the settings name.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::WholeStore;

use crate::config::{Settings, StoreChoice};

/// Opens the store; brings its schema up to date.
pub(crate) async fn open(settings: &Settings) -> anyhow::Result<Arc<dyn WholeStore>> {
    Ok(match &settings.store {
        StoreChoice::Sqlite { path } => {
            let options = sqlite_options(path);
            let shown = path.display();
            let store = SqliteStore::open(options).await;
            Arc::new(store.with_context(|| format!("cannot open the SQLite store {shown}"))?)
        }
        StoreChoice::Postgres { url, schema } => {
            let mut options = postgres_options(url, schema);
            options.listen_url = settings.listen_url.clone();
            options.pool_max = settings.pg_pool_max;
            options.notify = settings.notify;
            let store = PostgresStore::connect(options).await;
            Arc::new(store.context("cannot open the PostgreSQL store")?)
        }
    })
}

/// Refuses a store that does not exist: opening it would make one, and a command that looks into
/// the wrong place would find it empty.
pub(crate) async fn require_existing(choice: &StoreChoice) -> anyhow::Result<()> {
    match choice {
        StoreChoice::Sqlite { path } => {
            let path = std::path::absolute(path)?;
            if !path.try_exists().with_context(|| format!("cannot look for {}", path.display()))? {
                bail!(
                    "there is no database {}: name another one with --store, or make it with \
                     `wakeline migrate up`",
                    path.display()
                );
            }
        }
        StoreChoice::Postgres { url, schema } => {
            let options = postgres_options(url, schema);
            if wakeline_postgres::migrate_status(&options).await?.applied.is_empty() {
                bail!(
                    "this PostgreSQL database has no Wakeline store in the schema {schema:?}: name \
                     another one with --store and --schema, or make it with `wakeline migrate up`"
                );
            }
        }
    }
    Ok(())
}

/// Opens a store for a command that is soon done with it.
pub(crate) async fn open_briefly(choice: &StoreChoice) -> anyhow::Result<Arc<dyn WholeStore>> {
    Ok(match choice {
        StoreChoice::Sqlite { path } => {
            let shown = path.display();
            let store = SqliteStore::open(sqlite_options(path)).await;
            Arc::new(store.with_context(|| format!("cannot open the SQLite store {shown}"))?)
        }
        StoreChoice::Postgres { url, schema } => {
            let mut options = postgres_options(url, schema);
            options.pool_max = PostgresOptions::POOL_MIN;
            let store = PostgresStore::connect(options).await;
            Arc::new(store.context("cannot open the PostgreSQL store")?)
        }
    })
}

pub(crate) fn sqlite_options(path: &std::path::Path) -> SqliteOptions {
    SqliteOptions::new(path)
}

pub(crate) fn postgres_options(url: &str, schema: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options.schema = schema.to_owned();
    options
}
