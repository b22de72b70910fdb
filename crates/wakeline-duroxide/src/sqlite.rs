//! The provider over one SQLite file, with the constructors that duroxide programs know.

use std::path::{Path, PathBuf};

use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::StoreError;
use wakeline_wake::LongPollConfig;

use crate::provider::{DuroxideOptions, DuroxideProvider};

/// A provider over one SQLite file, which is created if it does not exist. Several processes on one
/// machine may share it: commits of any of them wake waiting fetches.
pub type SqliteProvider = DuroxideProvider<SqliteStore>;

/// All options of a [`SqliteProvider`].
#[derive(Debug, Clone)]
pub struct SqliteProviderOptions {
    /// The path of the store and how it is opened.
    pub store: SqliteOptions,
    /// How fetches wait.
    pub waiting: DuroxideOptions,
}

impl SqliteProviderOptions {
    /// Creates options with default values.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { store: SqliteOptions::new(path), waiting: DuroxideOptions::default() }
    }
}

// These are the same constructors as those of `PostgresProvider`. They are not shared, because that
// one takes a `&str`, so that everything that dereferences to one is accepted as in duroxide-pg,
// and this one takes any path.
impl SqliteProvider {
    /// Opens a file with the default options: fetches wait until they are woken.
    pub async fn new(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::new_with_schema(path, None).await
    }

    /// Opens a file with a schema name. SQLite has no schemas: each name is a separate file, for
    /// example `orders-test.db` for `orders.db` with the schema `test`.
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

    /// Opens a file with options for how fetches wait.
    pub async fn new_with_options(
        path: impl AsRef<Path>,
        schema_name: Option<&str>,
        long_poll_config: LongPollConfig,
    ) -> Result<Self, StoreError> {
        let store = SqliteOptions::new_with_schema(path.as_ref(), schema_name)?;
        let waiting = DuroxideOptions { long_poll: long_poll_config, ..DuroxideOptions::default() };
        Self::open(SqliteProviderOptions { store, waiting }).await
    }

    /// Opens a file with all options.
    pub async fn open(options: SqliteProviderOptions) -> Result<Self, StoreError> {
        Self::owning(SqliteStore::open(options.store).await?, options.waiting)
    }
}
