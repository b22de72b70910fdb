//! The rules of `docs/reference/queue.md`, one function each, for every store.
//!
//! # Where it sits
//! A store's tests call `wakeline_testkit::conformance_suite!(fixture)`, which makes one test of
//! every rule here, each on a new fixture.
//!
//! # Invariants
//! * A rule uses names of its own, so that tests may share a database.
//! * A rule depends on the store's test clock alone: it never sleeps and never measures time.

mod bench;
pub mod capacity;
pub mod claim;
mod claim_spec;
pub mod concurrent;
pub mod configure;
pub mod counts;
pub mod dead;
pub mod dedup;
pub mod delete;
pub mod due;
pub mod expiry;
pub mod hints;
pub mod idle;
pub mod inspect;
pub mod lease;
pub mod ledger;
pub mod limits;
pub mod maintenance;
pub mod messages;
pub mod neighbours;
pub mod order;
pub mod payload;
pub mod pop;
pub mod push;
mod records;
pub mod redrive;
pub mod retry;
pub mod schedule;
pub mod seek;
pub mod settle;
pub mod stats;
pub mod subscribe;
mod suite;
pub mod timers;
pub mod traces;
pub mod transact;

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt as _;

use crate::rules::RuleFuture;

pub(crate) use bench::housekeep_all;
pub use bench::{Bench, StoreUnderTest};
pub use claim_spec::{
    ClaimSpec, TakenBatch, at_once, earliest_due, ended_lease, is_settled, item, partition_name,
    secs,
};

/// A rule as a function pointer, as the functions in [`boxed`] are.
pub type QueueRule = for<'a> fn(&'a Bench) -> RuleFuture<'a>;

/// Every rule as a plain function that returns a boxed future. The futures are compiled here, once,
/// and not in the tests of every store.
#[doc(hidden)]
#[allow(missing_docs, reason = "the rules are documented where they are written")]
pub mod boxed {
    crate::conformance_suite!(boxed);
}

/// Runs one rule against a store, and cleans up afterwards whether it passes or fails.
pub async fn hold_to(fixture: Box<dyn StoreUnderTest>, rule: QueueRule) {
    let bench = Bench::new(fixture);
    let outcome = AssertUnwindSafe(rule(&bench)).catch_unwind().await;
    bench.fixture.finish().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}
