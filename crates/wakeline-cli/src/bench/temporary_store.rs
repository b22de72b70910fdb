//! The temporary store of a benchmark: beside the user's store, never in it.
//!
//! # Invariants
//! * Its name is new, so that the benchmark removes only what it created.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use uuid::Uuid;
use wakeline_store::Store;

use crate::config::StoreChoice;
use crate::store;

/// How much of the store's schema name is used in the name of the benchmark's schema.
const SCHEMA_LEN_MAX: usize = 20;

/// A temporary store.
pub(super) enum TemporaryStore {
    Sqlite { folder: PathBuf },
    Postgres { url: String, schema: String },
}

impl TemporaryStore {
    /// Chooses a new name beside the user's store, and creates the folder for SQLite. The schema on
    /// PostgreSQL is created when the store is opened first.
    pub(super) fn create(choice: &StoreChoice) -> anyhow::Result<Self> {
        let id = Uuid::new_v4().simple().to_string();
        Ok(match choice {
            StoreChoice::Sqlite { path } => {
                let mut name = path.clone().into_os_string();
                name.push(format!(".bench-{}", &id[..12]));
                let folder = PathBuf::from(name);
                let made = std::fs::create_dir(&folder);
                made.with_context(|| format!("cannot create the folder {}", folder.display()))?;
                Self::Sqlite { folder }
            }
            StoreChoice::Postgres { url, schema } => {
                let short: String = schema.chars().take(SCHEMA_LEN_MAX).collect();
                let schema = format!("{short}_bench_{}", &id[..12]);
                Self::Postgres { url: url.clone(), schema }
            }
        })
    }

    /// Opens the store once more. Each node opens it for itself.
    pub(super) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        store::open_briefly(&self.choice()).await.map(|store| store as Arc<dyn Store>)
    }

    /// Removes the folder or schema with everything in it.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        let shown = self.to_string();
        let removed = match &self {
            Self::Sqlite { folder } => std::fs::remove_dir_all(folder).map_err(Into::into),
            Self::Postgres { url, schema } => {
                let options = store::postgres_options(url, schema);
                wakeline_postgres::remove_schema(&options).await.map_err(anyhow::Error::from)
            }
        };
        removed.with_context(|| format!("cannot remove {shown}: remove it by hand"))
    }

    /// How many statements the database has run in this schema, if it counts them.
    pub(super) async fn statements(&self) -> Option<u64> {
        let Self::Postgres { url, schema } = self else { return None };
        let options = store::postgres_options(url, schema);
        wakeline_postgres::count_statements(&options).await.ok().flatten()
    }

    fn choice(&self) -> StoreChoice {
        match self {
            Self::Sqlite { folder } => StoreChoice::Sqlite { path: folder.join("bench.db") },
            Self::Postgres { url, schema } => {
                StoreChoice::Postgres { url: url.clone(), schema: schema.clone() }
            }
        }
    }
}

impl fmt::Display for TemporaryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { folder } => write!(f, "the folder {}", folder.display()),
            Self::Postgres { schema, .. } => write!(f, "the schema {schema}"),
        }
    }
}
