//! Opens the store that the settings name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::Backend;

use crate::config::{Settings, StoreChoice};

/// Time between the first two tries to connect; it grows up to 16 times.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Time between two log lines about failed tries.
const LOG_EVERY: Duration = Duration::from_secs(10);
const WAITED: &str = ", which could not be reached within store_wait_ms (check that PostgreSQL \
                      runs and that --store points to it)";

/// Opens the store and brings its schema up to date.
pub(crate) async fn open(settings: &Settings) -> anyhow::Result<Arc<dyn Backend>> {
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
            options.prepared_statements = settings.prepared_statements;
            Arc::new(connect(options, settings.store_wait).await?)
        }
    })
}

/// Connects to PostgreSQL. Tries again for `wait` while it cannot be reached, because the server
/// and the database may be started at the same time.
async fn connect(options: PostgresOptions, wait: Duration) -> anyhow::Result<PostgresStore> {
    let started = Instant::now();
    let mut logged = None;
    for attempt in 0u32.. {
        let error = match PostgresStore::connect(options.clone()).await {
            Ok(store) => return Ok(store),
            Err(error) => error,
        };
        let left = wait.saturating_sub(started.elapsed());
        if !error.is_transient() || wakeline_postgres::is_refused(&error) || left.is_zero() {
            let waited = if started.elapsed() < wait || wait.is_zero() { "" } else { WAITED };
            return Err(error).context(format!("cannot open the PostgreSQL store{waited}"));
        }
        if logged.is_none_or(|at: Instant| at.elapsed() >= LOG_EVERY) {
            logged = Some(Instant::now());
            let causes: Vec<_> = anyhow::Chain::new(&error).map(ToString::to_string).collect();
            let (error, left_secs) = (causes.join(": "), left.as_secs());
            tracing::warn!(error, left_secs, "cannot connect to PostgreSQL yet: trying again");
        }
        let pause = RETRY_MIN.saturating_mul(1 << attempt.min(4));
        tokio::time::sleep(pause.min(left)).await;
    }
    unreachable!("the loop ends by returning")
}

/// Refuses a store that does not exist. Opening it would create it, so that a command with a wrong
/// --store would see an empty store.
pub(crate) async fn require_existing(choice: &StoreChoice) -> anyhow::Result<()> {
    match choice {
        StoreChoice::Sqlite { path } => {
            let path = std::path::absolute(path)?;
            if !path.try_exists().with_context(|| {
                format!("cannot check whether the database {} exists", path.display())
            })? {
                bail!(
                    "there is no database {}: name another one with --store, or create it with \
                     `wakeline migrate up`",
                    path.display()
                );
            }
        }
        StoreChoice::Postgres { url, schema } => {
            let options = postgres_options(url, schema);
            if wakeline_postgres::migrate_status(&options).await?.applied.is_empty() {
                bail!(
                    "this PostgreSQL database has no Wakeline store in the schema {schema:?}: \
                     name another one with --store and --schema, or create it with `wakeline \
                     migrate up`"
                );
            }
        }
    }
    Ok(())
}

/// Opens a store for a short command, with few connections.
pub(crate) async fn open_briefly(choice: &StoreChoice) -> anyhow::Result<Arc<dyn Backend>> {
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
