//! Orchestrations of duroxide in one SQLite file: the constructors that its programs know.

use std::path::{Path, PathBuf};

use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::StoreError;

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

impl SqliteProvider {
    /// Opens a file with the default settings: fetches wait, and are woken.
    pub async fn new(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open(SqliteProviderOptions::new(path.as_ref())).await
    }

    /// Opens a file with all settings.
    pub async fn open(options: SqliteProviderOptions) -> Result<Self, StoreError> {
        Self::owning(SqliteStore::open(options.store).await?, options.waiting)
    }
}
