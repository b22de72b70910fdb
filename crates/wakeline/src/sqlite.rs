//! The provider that keeps orchestrations in one SQLite file.

use std::path::Path;

use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::StoreError;
use wakeline_wake::LongPollConfig;

use crate::backed::Backed;

/// A provider over one SQLite file, which is created if it does not exist. Several processes on one
/// machine may share it.
pub type SqliteProvider = Backed<SqliteStore>;

impl SqliteProvider {
    /// Opens a file with the default options.
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

    /// Opens a file with options for how fetches wait.
    pub async fn new_with_options(
        path: impl AsRef<Path>,
        schema_name: Option<&str>,
        long_poll: LongPollConfig,
    ) -> Result<Self, StoreError> {
        Self::open(SqliteOptions::new_with_schema(path.as_ref(), schema_name)?, long_poll).await
    }

    /// Opens a file with all options of the store.
    pub async fn open(
        options: SqliteOptions,
        long_poll: LongPollConfig,
    ) -> Result<Self, StoreError> {
        Self::over(SqliteStore::open(options).await?, long_poll)
    }
}
