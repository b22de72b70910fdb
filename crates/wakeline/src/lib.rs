//! Durable orchestrations on the PostgreSQL that you run, or on one SQLite file.
//!
//! Write an async function; it survives crashes, deploys and months of sleep:
//!
//! ```no_run
//! use std::{sync::Arc, time::Duration};
//! use wakeline::{ActivityContext, FlowError, OrchestrationContext, Registry, Runtime};
//!
//! async fn charge(_: ActivityContext, order: u32) -> Result<String, FlowError> {
//!     Ok(format!("receipt for {order}"))
//! }
//!
//! async fn checkout(ctx: OrchestrationContext, order: u32) -> Result<String, FlowError> {
//!     let receipt = ctx.call(charge, order).await?;
//!     ctx.sleep(Duration::from_secs(30 * 24 * 3600)).await;
//!     Ok(receipt)
//! }
//!
//! # #[cfg(feature = "sqlite")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Arc::new(wakeline::SqliteProvider::new("orders.db").await?);
//! let registry =
//!     Registry::builder().orchestration("checkout", checkout).activity("charge", charge).build()?;
//! let runtime = Runtime::start(provider, registry).await?;
//! runtime.client().start("order-7", "checkout", &7).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where it sits
//! This is the facade that a Rust program depends on. It is the only library crate that depends on
//! the concrete stores.

mod backed;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;

pub use backed::{Backed, StoreBackend};
#[cfg(feature = "postgres")]
pub use postgres::PostgresProvider;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteProvider;
pub use wakeline_core as core;
pub use wakeline_encryption::EncryptionKeys;
pub use wakeline_flow::*;
pub use wakeline_store::StoreError;
pub use wakeline_wake::{
    AggressiveOn, Link, LongPollConfig, PollGrouping, PollMode, Snapshot, WakeMode,
};

#[cfg(feature = "postgres")]
pub use wakeline_postgres::{NotifyMode, PostgresOptions, PreparedStatements};
#[cfg(feature = "sqlite")]
pub use wakeline_sqlite::SqliteOptions;

/// The examples of the README, compiled.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;

/// The examples of the guide, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/orchestrations.md")]
struct GuideExamples;

/// The examples of the guide to deploys, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/deploying-orchestrations.md")]
struct DeployingExamples;

/// The examples of the guide to tests, compiled.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guide/testing-orchestrations.md")]
struct TestingExamples;
