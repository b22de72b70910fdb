//! Orchestrations on PostgreSQL.

use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::StoreError;
use wakeline_wake::LongPollConfig;

use crate::backed::Backed;

/// A provider on PostgreSQL. Everything lives in one schema, `wakeline` by default; it is brought
/// up to date when connecting.
pub type PostgresProvider = Backed<PostgresStore>;

impl PostgresProvider {
    /// Connects with the default settings.
    pub async fn new(database_url: &str) -> Result<Self, StoreError> {
        Self::new_with_schema(database_url, None).await
    }

    /// Connects to a schema of another name.
    pub async fn new_with_schema(
        database_url: &str,
        schema_name: Option<&str>,
    ) -> Result<Self, StoreError> {
        Self::new_with_options(database_url, schema_name, LongPollConfig::default()).await
    }

    /// Connects with settings of your own for how fetches wait.
    pub async fn new_with_options(
        database_url: &str,
        schema_name: Option<&str>,
        long_poll: LongPollConfig,
    ) -> Result<Self, StoreError> {
        let mut options = PostgresOptions::new(database_url);
        if let Some(schema) = schema_name {
            options.schema = schema.to_owned();
        }
        Self::connect(options, long_poll).await
    }

    /// Connects with all settings of the store.
    pub async fn connect(
        options: PostgresOptions,
        long_poll: LongPollConfig,
    ) -> Result<Self, StoreError> {
        Self::over(PostgresStore::connect(options).await?, long_poll)
    }
}
