//! Keeps track of the callers that wait for work, and wakes them when there may be some.
//!
//! # Where it sits
//! An API (queues, workflows, webhooks) implements [`Api`] over its store and polls through
//! [`Hub::take`]; commits and listeners feed [`Hub::hint`]. Nothing here depends on SQL or HTTP.
//!
//! # Invariants
//! * A hint carries no data. A waiter that it wakes claims again; the store is the only truth.
//! * A hint is never lost between an empty claim and the wait that follows it.
//! * Losing every hint costs latency, never work: the safety sweep finds what is due.
//! * Every waiter is served, is answered that there is nothing, or cancels its call. What was
//!   claimed for a cancelled one is released.

mod api;
mod calls;
mod config;
mod core;
mod hub;
mod hub_metrics;
mod mode;
mod poll;
mod reservation;
mod snapshot;

pub use api::{Api, Claim, ClaimOutcome};
pub use config::{AggressiveOn, ConfigError, LongPollConfig};
pub use hub::{Hub, HubOptions};
pub use mode::{PollGrouping, PollMode, WakeMode};
pub use poll::{HintSource, Link, Patience, TakeError, TakeOutcome};
pub use reservation::Reservation;
pub use snapshot::{ClaimCounters, Degradation, HintCounters, HubCounters, Snapshot, WakeCounters};
