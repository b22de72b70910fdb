//! Webhooks: messages are delivered to every endpoint that subscribes to them, signed, retried for
//! days, and never delayed by a slow endpoint of another application.
//!
//! # Where it sits
//! `wakeline-http` and programs call [`HookService`], which calls a store and the wake hub. Its
//! dispatcher calls the endpoints. This is the only crate that makes HTTP requests.
//!
//! # Invariants
//! * No store call is in progress while an endpoint is being called.
//! * An endpoint is only called at addresses that the guard allows.
//! * Secrets and headers are encrypted before they reach a store. Neither they nor payloads are
//!   logged.
//! * Every leased delivery is settled, released, or left until its lease expires; none is lost.

mod announce;
mod api;
mod catalog;
mod dispatch;
mod emit;
mod error;
mod event_types;
mod expired;
mod guard;
mod headers;
mod meters;
mod policy;
mod pull;
mod secrets;
mod send;
mod service;
mod shares;
mod sign;

pub use announce::{OPERATIONAL_APPLICATION, OPERATIONAL_UID, RESERVED_UID};
pub use catalog::{ApplicationIn, EndpointIn, EndpointPatch};
pub use dispatch::DispatchOptions;
pub use emit::{Emit, Example};
pub use error::HookError;
pub use guard::{Guard, GuardError, Subnet, SubnetError};
pub use headers::EndpointHeaders;
pub use pull::{PullOutcome, PullRequest, PulledSigner, PulledToken, PulledVerdict};
pub use secrets::Rotate;
pub use send::{NameLookup, PingReport, SendOptions, SystemLookup};
pub use service::{HookService, HookServiceOptions};
pub use sign::{SigningKey, SigningKeyError};
