//! Settings that name the store.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::{UsageError, file};

/// The settings that name a store.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreArgs {
    /// URL of the store: sqlite:PATH or postgres://USER@HOST/DATABASE [default: sqlite:wakeline.db]
    #[arg(long, env = "WAKELINE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// PostgreSQL schema of the store [default: wakeline]
    #[arg(long, env = "WAKELINE_SCHEMA")]
    pub(crate) schema: Option<String>,
}

impl StoreArgs {
    /// The store that these settings name.
    pub(crate) fn choice(&self) -> Result<StoreChoice, UsageError> {
        let store = self.store.as_deref().unwrap_or("sqlite:wakeline.db");
        if let Some(path) = store.strip_prefix("sqlite:") {
            if path.is_empty() {
                return Err(UsageError(
                    "store: \"sqlite:\" names no file: write it like sqlite:wakeline.db".to_owned(),
                ));
            }
            return Ok(StoreChoice::Sqlite { path: path.into() });
        }
        if store.starts_with("postgres://") || store.starts_with("postgresql://") {
            let schema = self.schema.clone().unwrap_or_else(|| "wakeline".to_owned());
            return Ok(StoreChoice::Postgres { url: store.to_owned(), schema });
        }
        let scheme = store.split_once(':').map_or(store, |(scheme, _)| scheme);
        let text = format!(
            "store: must begin with sqlite: or postgres://, like sqlite:wakeline.db or \
             postgres://USER@HOST/DATABASE, not with {scheme:?}"
        );
        Err(UsageError(text))
    }
}

/// A SQLite file, or a schema of a PostgreSQL database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    Sqlite { path: PathBuf },
    Postgres { url: String, schema: String },
}

/// The store that a command works on.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreLocation {
    /// TOML file with settings of the server; flags and environment take precedence over it
    #[arg(long, env = "WAKELINE_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

impl StoreLocation {
    /// The store that a server with these settings would use.
    pub(crate) fn choice(&self) -> Result<StoreChoice, UsageError> {
        let file = self.config.as_deref().map(file::read).transpose()?.unwrap_or_default();
        StoreArgs { store: pick!(self, file, store.store), schema: pick!(self, file, store.schema) }
            .choice()
    }
}
