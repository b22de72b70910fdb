//! Orchestrations of duroxide in one SQLite file: the constructors that its programs know.

use std::path::{Path, PathBuf};

use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::StoreError;
use wakeline_wake::LongPollConfig;

use crate::provider::{DuroxideOptions, DuroxideProvider};

/// A provider in one SQLite file, which is made if it does not exist. Several processes of one
/// machine may share it: fetches that wait are woken by what any of them commits.
pub type SqliteProvider = DuroxideProvider<SqliteStore>;

/// All settings of a [`SqliteProvider`].
#[derive(Debug, Clone)]
pub struct SqliteProviderOptions {
    /// Where the store is, and how it is opened.
    pub store: SqliteOptions,
    /// How fetches wait.
    pub waiting: DuroxideOptions,
}

impl SqliteProviderOptions {
    /// The defaults.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { store: SqliteOptions::new(path), waiting: DuroxideOptions::default() }
    }
}

// The same constructors as those of `PostgresProvider`. They are not shared: one takes a `&str`, so
// that whatever derefs to one is accepted as duroxide-pg accepts it, and the other one any path.
impl SqliteProvider {
    /// Opens a file with the default settings: fetches wait, and are woken.
    pub async fn new(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::new_with_schema(path, None).await
    }

    /// Opens a file. SQLite has no schemas: a named one is a file of its own beside it,
    /// `orders.db` with the schema `test` is `orders-test.db`.
    pub async fn new_with_schema(
        path: impl AsRef<Path>,
        schema_name: Option<&str>,
    ) -> Result<Self, StoreError> {
        Self::new_with_options(path, schema_name, LongPollConfig::default()).await
    }

    /// The same as [`SqliteProvider::new`]: fetches wait unless they are configured not to.
    pub async fn new_with_long_poll(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::new(path).await
    }

    /// The same as [`SqliteProvider::new_with_schema`].
    pub async fn new_with_long_poll_and_schema(
        path: impl AsRef<Path>,
        schema_name: Option<&str>,
    ) -> Result<Self, StoreError> {
        Self::new_with_schema(path, schema_name).await
    }

    /// Opens a file with settings of your own for how fetches wait.
    pub async fn new_with_options(
        path: impl AsRef<Path>,
        schema_name: Option<&str>,
        long_poll_config: LongPollConfig,
    ) -> Result<Self, StoreError> {
        let store = SqliteOptions::new_with_schema(path.as_ref(), schema_name)?;
        let waiting = DuroxideOptions { long_poll: long_poll_config, ..DuroxideOptions::default() };
        Self::open(SqliteProviderOptions { store, waiting }).await
    }

    /// Opens a file with all settings.
    pub async fn open(options: SqliteProviderOptions) -> Result<Self, StoreError> {
        Self::owning(SqliteStore::open(options.store).await?, options.waiting)
    }
}
