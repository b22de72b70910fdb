//! The hook face: events go to every endpoint that wants them, signed, retried for days, and
//! never held up by a slow neighbour.
//!
//! # Where it sits
//! `wakeline-http` and programs call [`HookService`]; it calls a store and the wake hub, and its
//! dispatcher calls the endpoints. It is the only crate that calls out over HTTP.
//!
//! # Invariants
//! * No store call is open while an endpoint is being called.
//! * An endpoint is only ever dialled at an address that the guard has let through.
//! * Secrets and headers reach a store sealed; neither they nor payloads reach a log.
//! * What a delivery was leased for is settled, released, or left to its lease's end: never lost.

mod announce;
mod catalog;
mod dispatch;
mod emit;
mod error;
mod event_types;
mod expired;
mod face;
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
pub use pull::{Pop, Popped, PulledSettle, PulledSigner, PulledToken};
pub use secrets::Rotate;
pub use send::{NameLookup, PingReport, SendOptions, SystemLookup};
pub use service::{HookService, HookServiceOptions};
pub use sign::{SigningKey, SigningKeyError};
