//! Who waits for what, and how they are woken.
//!
//! # Where it sits
//! A face (queue, later flow and hook) implements [`Face`] over its store and polls through
//! [`Hub::take`]; commits and listeners feed [`Hub::hint`]. Nothing here knows SQL or HTTP.
//!
//! # Invariants
//! * A hint carries no data: whoever it wakes claims again; the store is the only truth.
//! * A hint is never lost between an empty claim and the wait that follows it.
//! * Losing every hint costs latency, never work: the safety sweep finds what is due.
//! * A waiter is served, told that there is nothing, or gone; what was claimed for one that has
//!   gone is released.

mod calls;
mod config;
mod core;
mod face;
mod hub;
mod meters;
mod mode;
mod poll;
mod reservation;
mod snapshot;

pub use config::{AggressiveOn, ConfigError, LongPollConfig};
pub use face::{Claim, Claimed, Face};
pub use hub::{Hub, HubOptions};
pub use mode::{PollGrouping, PollMode, WakeMode};
pub use poll::{HintSource, Link, Patience, TakeError, Taken};
pub use reservation::Reservation;
pub use snapshot::{ClaimCounters, Counters, Degradation, HintCounters, Snapshot, WakeCounters};
