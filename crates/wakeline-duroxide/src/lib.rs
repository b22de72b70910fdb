//! Runs orchestrations of the `duroxide` crate on Wakeline's stores, woken instead of polled.
//!
//! # Where it sits
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
//! use duroxide::Client;
//! use wakeline_duroxide::{DuroxideOptions, DuroxideProvider};
//! use wakeline_sqlite::{SqliteOptions, SqliteStore};
//!
//! # async fn run(path: std::path::PathBuf) -> Result<(), wakeline_store::StoreError> {
//! let store = Arc::new(SqliteStore::open(SqliteOptions::new(path)).await?);
//! let provider = Arc::new(DuroxideProvider::new(store, DuroxideOptions::default()));
//! let client = Client::new(provider);
//! # Ok(())
//! # }
//! ```

mod ack;
mod admin;
mod envelope;
mod error;
mod names;
mod provider;
mod read;
mod token;
mod turn;
mod versions;

pub use provider::{DuroxideOptions, DuroxideProvider, DuroxideStore};
