//! Runs orchestrations of the `duroxide` crate on Wakeline's stores, with wake-ups instead of
//! polling.
//!
//! # Where it sits
//! It is a facade beside `wakeline`: a program that uses duroxide depends only on this crate, so it
//! depends on the concrete stores.
//! [`DuroxideProvider`] implements duroxide's `Provider` and `ProviderAdmin` over a
//! [`FlowBackend`](wakeline_store::flow::FlowBackend). Its fetches wait in the hub of a
//! [`StoreProvider`](wakeline_flow::provider::StoreProvider), which serves them in the commits that
//! create work for them. Commits of other processes wake them by hints of the store.
//!
//! # Invariants
//! * The store does not read the work items and events of duroxide; only their routing is
//!   extracted.
//! * A lock token contains everything about its turn that the commit needs, rather than a key of a
//!   table in memory, so that any process may acknowledge what another one fetched.
//! * The version of duroxide that an execution needs is the capability of its mailbox, so a filter
//!   applies before anything is leased or decoded.
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
struct DuroxideGuideExamples;
