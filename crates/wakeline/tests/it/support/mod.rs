//! Stores of a test's own, on files and on the PostgreSQL that `cargo xtask test` runs.

mod database;

pub(crate) use database::Database;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::{Client as Session, NoTls};
use wakeline::provider::Provider;
use wakeline::{Client, LongPollConfig, PostgresProvider, Snapshot, SqliteProvider};

/// Whether the long versions of the tests were asked for (`cargo xtask test --long`).
pub(crate) fn long() -> bool {
    std::env::var_os("WAKELINE_LONG").is_some()
}

/// Waits until something holds, at most half a minute.
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

/// A file, or a schema of its own.
pub(crate) enum Store {
    Sqlite(tempfile::TempDir),
    Postgres(Schema),
}

impl Store {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn postgres() -> Self {
        Self::Postgres(Schema::new())
    }

    pub(crate) fn both() -> [Self; 2] {
        [Self::sqlite(), Self::postgres()]
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// The flags of an example.
    pub(crate) fn flags(&self) -> Vec<String> {
        match self {
            Self::Sqlite(_) => vec!["--store".into(), format!("sqlite:{}", self.file().display())],
            Self::Postgres(schema) => {
                vec!["--store".into(), shared_url(), "--schema".into(), schema.name.clone()]
            }
        }
    }

    fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite(folder) => folder.path().join("flow.db"),
            Self::Postgres(_) => unreachable!("only of files"),
        }
    }

    /// A node of its own on the store.
    pub(crate) async fn node(&self, long_poll: LongPollConfig) -> Node {
        match self {
            Self::Sqlite(_) => {
                let provider = SqliteProvider::new_with_options(self.file(), None, long_poll);
                Node::Sqlite(provider.await.expect("opened"))
            }
            Self::Postgres(schema) => Node::Postgres(schema.provider(long_poll).await),
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

    /// A look at who waits.
    pub(crate) fn snapshot(&self) -> Snapshot {
        match self {
            Self::Sqlite(provider) => provider.snapshot(),
            Self::Postgres(provider) => provider.snapshot(),
        }
    }
}

/// The PostgreSQL that the tests share.
pub(crate) fn shared_url() -> String {
    std::env::var("WAKELINE_TEST_POSTGRES")
        .expect("run `cargo xtask test`, which starts a PostgreSQL")
}

pub(crate) async fn connect(url: &str) -> Session {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

/// Runs a statement where nothing can be awaited.
fn in_a_thread(sql: String) {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let _ = connect(&shared_url()).await.batch_execute(&sql).await;
        });
    });
    let _ = thread.join();
}

/// A schema of its own, dropped at the end.
pub(crate) struct Schema {
    pub(crate) name: String,
}

impl Schema {
    pub(crate) fn new() -> Self {
        Self { name: format!("wl_{}", uuid::Uuid::new_v4().simple()) }
    }

    pub(crate) async fn provider(&self, long_poll: LongPollConfig) -> PostgresProvider {
        let provider =
            PostgresProvider::new_with_options(&shared_url(), Some(&self.name), long_poll).await;
        provider.expect("connected")
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        in_a_thread(format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
    }
}
