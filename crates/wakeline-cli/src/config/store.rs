//! Which store to use.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::{ConfigMistake, file};

/// Which store to use.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreArgs {
    /// sqlite:PATH or postgres://USER@HOST/DATABASE [default: sqlite:wakeline.db]
    #[arg(long, env = "WAKELINE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Schema that holds everything on PostgreSQL [default: wakeline]
    #[arg(long, env = "WAKELINE_SCHEMA")]
    pub(crate) schema: Option<String>,
}

impl StoreArgs {
    /// The store that these name.
    pub(crate) fn choice(&self) -> Result<StoreChoice, ConfigMistake> {
        let store = self.store.as_deref().unwrap_or("sqlite:wakeline.db");
        if let Some(path) = store.strip_prefix("sqlite:") {
            if path.is_empty() {
                return Err(ConfigMistake(
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
        Err(ConfigMistake(text))
    }
}

/// Where everything is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    Sqlite { path: PathBuf },
    Postgres { url: String, schema: String },
}

/// Which store to use, for commands that work on one.
#[derive(Debug, Clone, Args)]
pub(crate) struct StorePlace {
    /// TOML file with settings of the server; flags and environment go before it
    #[arg(long, env = "WAKELINE_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

impl StorePlace {
    /// The store that a server with these settings would use.
    pub(crate) fn choice(&self) -> Result<StoreChoice, ConfigMistake> {
        let file = self.config.as_deref().map(file::read).transpose()?.unwrap_or_default();
        StoreArgs { store: pick!(self, file, store.store), schema: pick!(self, file, store.schema) }
            .choice()
    }
}
