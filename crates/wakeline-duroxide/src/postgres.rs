//! The provider over PostgreSQL, with the constructors that duroxide programs know.

use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::StoreError;
use wakeline_wake::LongPollConfig;

use crate::provider::{DuroxideOptions, DuroxideProvider};

/// A provider over PostgreSQL 15 or later. All tables are in one schema, `wakeline` by default,
/// which is migrated when connecting. Commits of any process on the schema wake waiting fetches.
pub type PostgresProvider = DuroxideProvider<PostgresStore>;

/// All options of a [`PostgresProvider`].
#[derive(Debug, Clone)]
pub struct PostgresProviderOptions {
    /// The address of the store and how it is connected to.
    pub store: PostgresOptions,
    /// How fetches wait.
    pub waiting: DuroxideOptions,
}

impl PostgresProviderOptions {
    /// Creates options with default values.
    pub fn new(database_url: impl Into<String>) -> Self {
        let store = PostgresOptions::new(database_url);
        Self { store, waiting: DuroxideOptions::default() }
    }
}

impl PostgresProvider {
    /// Connects with the default options: fetches wait until they are woken.
    pub async fn new(database_url: &str) -> Result<Self, StoreError> {
        Self::new_with_schema(database_url, None).await
    }

    /// Connects to a schema with another name, which is a separate store.
    pub async fn new_with_schema(
        database_url: &str,
        schema_name: Option<&str>,
    ) -> Result<Self, StoreError> {
        Self::new_with_options(database_url, schema_name, LongPollConfig::default()).await
    }

    /// The same as [`PostgresProvider::new`]: fetches wait unless they are configured not to.
    pub async fn new_with_long_poll(database_url: &str) -> Result<Self, StoreError> {
        Self::new(database_url).await
    }

    /// The same as [`PostgresProvider::new_with_schema`].
    pub async fn new_with_long_poll_and_schema(
        database_url: &str,
        schema_name: Option<&str>,
    ) -> Result<Self, StoreError> {
        Self::new_with_schema(database_url, schema_name).await
    }

    /// Connects with options for how fetches wait.
    pub async fn new_with_options(
        database_url: &str,
        schema_name: Option<&str>,
        long_poll_config: LongPollConfig,
    ) -> Result<Self, StoreError> {
        let mut options = PostgresProviderOptions::new(database_url);
        options.waiting.long_poll = long_poll_config;
        if let Some(schema) = schema_name {
            options.store.schema = schema.to_owned();
        }
        Self::connect(options).await
    }

    /// Connects with all options.
    pub async fn connect(options: PostgresProviderOptions) -> Result<Self, StoreError> {
        Self::owning(PostgresStore::connect(options.store).await?, options.waiting)
    }
}
