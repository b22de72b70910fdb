//! The queue API: push, pop and settle, with consumers that wait without polling.
//!
//! # Where it sits
//! `wakeline-http` calls [`QueueService`], which calls a store and the wake hub. It depends neither
//! on SQL nor on HTTP.
//!
//! # Invariants
//! * Data flows in one direction: command, one store call, commit, hint, hub, claim, claim result.
//! * A call that was sent to the store is completed and hinted even if the caller goes away
//!   meanwhile.
//! * A claim result without a waiter is released, and does not count as an attempt.

mod api;
mod background;
mod capacity;
mod drops;
mod error;
mod housekeeper;
mod inspect;
mod maintenance;
mod process_usage;
mod service;
mod sink;
mod statistics;

pub use api::{PopRequest, QueueApi};
pub use error::QueueError;
pub use service::{PopCommand, PopOutcome, QueueService, QueueServiceOptions};
