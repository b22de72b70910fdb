//! Runs orchestrations of the `duroxide` crate on Wakeline's stores, woken instead of polled.
//!
//! # Where it sits
//! Beside the facade: a program of duroxide depends on it alone, so it names the concrete stores.
//! [`DuroxideProvider`] implements duroxide's `Provider` and `ProviderAdmin` over a
//! [`FlowBackend`](wakeline_store::flow::FlowBackend). Its fetches wait in the hub of a
//! [`StoreProvider`](wakeline_flow::provider::StoreProvider), which serves them in the commits that
//! make work for them. What other processes commit wakes them by the store's hints.
//!
//! # Invariants
//! * duroxide's work items and events are bytes to the store; only their routing is taken out.
//! * A lock token says what its turn was about: no table in memory translates it, so that any
//!   process may acknowledge what another one fetched.
//! * Which versions of duroxide an execution needs is the capability of its lane: a filter decides
//!   before anything is leased or decoded.
//!
//! ```
//! use std::sync::Arc;
//!
//! use duroxide::runtime::Runtime;
//! use duroxide::runtime::registry::ActivityRegistry;
//! use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
//! # #[cfg(feature = "sqlite")]
//! use wakeline_duroxide::SqliteProvider;
//!
//! # #[cfg(feature = "sqlite")]
//! # async fn run(path: std::path::PathBuf) -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Arc::new(SqliteProvider::new(path).await?);
//! let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}")) };
//! let activities = ActivityRegistry::builder().register("greet", greet).build();
//! let party = |ctx: OrchestrationContext, name: String| async move {
//!     ctx.schedule_activity("greet", name).await
//! };
//! let orchestrations = OrchestrationRegistry::builder().register("party", party).build();
//! let runtime =
//!     Runtime::start_with_store(provider.clone(), activities, orchestrations).await;
//! let client = Client::new(provider.clone());
//! client.start_orchestration("party-1", "party", "Ann").await?;
//! runtime.shutdown(None).await;
//! provider.close().await;
//! # Ok(())
//! # }
//! ```

mod ack;
mod admin;
mod envelope;
mod error;
mod listener;
mod names;
#[cfg(feature = "postgres")]
mod postgres;
mod provider;
mod read;
#[cfg(feature = "sqlite")]
mod sqlite;
mod token;
mod turn;
mod versions;

#[cfg(feature = "postgres")]
pub use postgres::{PostgresProvider, PostgresProviderOptions};
pub use provider::{DuroxideOptions, DuroxideProvider, DuroxideStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteProvider, SqliteProviderOptions};
#[cfg(feature = "postgres")]
pub use wakeline_postgres::{NotifyMode, PostgresOptions, PreparedStatements};
#[cfg(feature = "sqlite")]
pub use wakeline_sqlite::SqliteOptions;
pub use wakeline_store::StoreError;
pub use wakeline_wake::{
    AggressiveOn, Link, LongPollConfig, PollGrouping, PollMode, Snapshot, WakeMode,
};

/// The examples of the guide, compiled.
#[cfg(all(doctest, feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../../../docs/guide/from-duroxide.md")]
struct GuideExamples;
