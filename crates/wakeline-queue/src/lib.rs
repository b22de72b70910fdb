//! The queue face: push, pop, settle, with consumers that wait without polling.
//!
//! # Where it sits
//! `wakeline-http` calls [`QueueService`]; it calls a store and the wake hub. It knows neither SQL
//! nor HTTP.
//!
//! # Invariants
//! * Data flows one way: command, one store call, commit, hint, hub, claim, grant.
//! * What was sent to the store is finished and hinted even if the caller goes away meanwhile.
//! * A grant that nobody is left to take is released, uncounted.

mod chores;
mod drops;
mod error;
mod face;
mod figures;
mod inspect;
mod keeper;
mod maintenance;
mod room;
mod service;
mod sink;
mod vitals;

pub use error::QueueError;
pub use face::{Ask, QueueFace};
pub use service::{Pop, Popped, QueueService, QueueServiceOptions};
