//! Orchestrations in one SQLite file.

use std::path::{Path, PathBuf};

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
        let path = match schema_name {
            Some(schema) => beside(path.as_ref(), schema)?,
            None => path.as_ref().to_owned(),
        };
        Self::open(SqliteOptions::new(path), long_poll).await
    }

    /// Opens a file with all settings of the store.
    pub async fn open(
        options: SqliteOptions,
        long_poll: LongPollConfig,
    ) -> Result<Self, StoreError> {
        Self::over(SqliteStore::open(options).await?, long_poll)
    }
}

fn beside(path: &Path, schema: &str) -> Result<PathBuf, StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if schema.is_empty() || !schema.bytes().all(plain) {
        let reason = format!("{schema:?} may only contain ASCII letters, digits, _ and -");
        return Err(StoreError::Invalid { field: "schema", reason });
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{schema}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{schema}"),
    };
    Ok(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_a_file_of_its_own() {
        let file = beside(Path::new("data/orders.db"), "test").expect("valid");
        assert_eq!(file, Path::new("data/orders-test.db"));
        assert!(beside(Path::new("orders.db"), "../x").is_err());
    }
}
