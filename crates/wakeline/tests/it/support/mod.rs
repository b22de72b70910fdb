//! Separate stores for each test, in files and on the PostgreSQL that `cargo xtask test` runs.

mod database;

pub(crate) use database::{Database, Proxy};

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wakeline::provider::Provider;
use wakeline::{Client, LongPollConfig, PostgresProvider, Snapshot, SqliteOptions, SqliteProvider};
use wakeline_store::Backend;

/// Whether the long versions of the tests were requested (`cargo xtask test --long`).
pub(crate) fn long() -> bool {
    std::env::var_os("WAKELINE_LONG").is_some()
}

/// Waits until a condition holds, for at most half a minute.
pub(crate) async fn eventually<F>(what: &str, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(30), "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A SQLite file or a PostgreSQL database.
pub(crate) enum Store {
    Sqlite(tempfile::TempDir),
    Postgres(Database),
}

impl Store {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Database::create().await)
    }

    pub(crate) async fn both() -> [Self; 2] {
        [Self::sqlite(), Self::postgres().await]
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// The command line flags of an example.
    pub(crate) fn flags(&self) -> Vec<String> {
        match self {
            Self::Sqlite(_) => vec!["--store".into(), format!("sqlite:{}", self.file().display())],
            Self::Postgres(database) => vec!["--store".into(), database.0.url()],
        }
    }

    fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite(folder) => folder.path().join("flow.db"),
            Self::Postgres(_) => unreachable!("only of files"),
        }
    }

    /// Opens another node on the store.
    pub(crate) async fn node(&self, long_poll: LongPollConfig) -> Node {
        match self {
            Self::Sqlite(_) => {
                let provider = SqliteProvider::new_with_options(self.file(), None, long_poll);
                Node::Sqlite(provider.await.expect("opened"))
            }
            Self::Postgres(database) => Node::Postgres(database.node(long_poll).await),
        }
    }

    /// Opens the store itself once more.
    pub(crate) async fn open(&self) -> Arc<dyn Backend> {
        match self {
            Self::Sqlite(_) => {
                let options = SqliteOptions::new(self.file());
                Arc::new(wakeline_sqlite::SqliteStore::open(options).await.expect("opened"))
            }
            Self::Postgres(database) => {
                let store = wakeline_postgres::PostgresStore::connect(database.options()).await;
                Arc::new(store.expect("connected"))
            }
        }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(self.node(LongPollConfig::default()).await.provider())
    }
}

/// A provider on one of the stores.
pub(crate) enum Node {
    Sqlite(SqliteProvider),
    Postgres(PostgresProvider),
}

impl Node {
    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        match self {
            Self::Sqlite(provider) => Arc::new(provider.clone()),
            Self::Postgres(provider) => Arc::new(provider.clone()),
        }
    }

    /// Returns a snapshot of the waiters.
    pub(crate) fn snapshot(&self) -> Snapshot {
        match self {
            Self::Sqlite(provider) => provider.snapshot(),
            Self::Postgres(provider) => provider.snapshot(),
        }
    }
}
