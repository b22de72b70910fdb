//! Durable orchestrations: async Rust that survives crashes, deploys and months of sleep.
//!
//! # Where it sits
//! Over `wakeline-store` (where histories, messages and work are kept) and `wakeline-wake` (which
//! tells dispatchers and clients when there is something for them). Users reach it through the
//! facade `wakeline`.
//!
//! # Invariants
//! * One turn is one commit: history, new work, timers, messages, status, key-value state.
//! * Replaying a history makes the same decisions, or the instance is suspended with a diff.
//! * Nothing here polls: dispatchers and clients wait in a hub.

mod capability;
mod error;
mod event;
mod json;
mod message;
pub mod provider;
mod retry;

pub use capability::capability;
pub use error::{FailureKind, FlowError};
pub use event::{Event, EventKind, Parent, Raised};
pub use json::Json;
pub use message::{ActivityTask, WorkItem};
pub use retry::{ActivityPolicy, Backoff};
