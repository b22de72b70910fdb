//! The provider that keeps orchestrations in PostgreSQL.

use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::StoreError;
use wakeline_wake::LongPollConfig;

use crate::backed::Backed;

/// A provider over PostgreSQL. All tables are in one schema, `wakeline` by default, which is
/// migrated when connecting.
pub type PostgresProvider = Backed<PostgresStore>;

impl PostgresProvider {
    /// Connects with the default options.
    pub async fn new(database_url: &str) -> Result<Self, StoreError> {
        Self::new_with_schema(database_url, None).await
    }

    /// Connects to a schema with another name.
    pub async fn new_with_schema(
        database_url: &str,
        schema_name: Option<&str>,
    ) -> Result<Self, StoreError> {
        Self::new_with_options(database_url, schema_name, LongPollConfig::default()).await
    }

    /// Connects with options for how fetches wait.
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

    /// Connects with all options of the store.
    pub async fn connect(
        options: PostgresOptions,
        long_poll: LongPollConfig,
    ) -> Result<Self, StoreError> {
        Self::over(PostgresStore::connect(options).await?, long_poll)
    }
}
