//! Orchestrations in one SQLite file.

use std::path::Path;

use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::StoreError;
use wakeline_wake::LongPollConfig;

use crate::backed::Backed;

/// A provider in one SQLite file, which is made if it does not exist. Several processes of one
/// machine may share it.
pub type SqliteProvider = Backed<SqliteStore>;

impl SqliteProvider {
    /// Opens a file with the default settings.
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

    /// Opens a file with settings of your own for how fetches wait.
    pub async fn new_with_options(
        path: impl AsRef<Path>,
        schema_name: Option<&str>,
        long_poll: LongPollConfig,
    ) -> Result<Self, StoreError> {
        Self::open(SqliteOptions::new_with_schema(path.as_ref(), schema_name)?, long_poll).await
    }

    /// Opens a file with all settings of the store.
    pub async fn open(
        options: SqliteOptions,
        long_poll: LongPollConfig,
    ) -> Result<Self, StoreError> {
        Self::over(SqliteStore::open(options).await?, long_poll)
    }
}
