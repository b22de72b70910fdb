//! The rules of `docs/reference/flow.md`, one function each, for every store.
//!
//! # Where it sits
//! A store's tests call `wakeline_testkit::flow_conformance_suite!(fixture)`, which makes one test
//! of every rule here, each on a new fixture.
//!
//! # Invariants
//! * A rule has a store of its own, so it may claim everything.
//! * A rule depends on the store's test clock alone: it never sleeps and never measures time.

mod bench;
pub mod claim;
pub mod commit;
pub mod concurrent;
pub mod delete;
pub mod due;
pub mod emit;
mod helpers;
pub mod hints;
pub mod kv;
pub mod lanes;
pub mod lease;
pub mod leased_on_insert;
pub mod list;
pub mod mailboxes;
pub mod messages;
pub mod names;
pub mod neighbours;
pub mod prune;
pub mod read;
pub mod sessions;
mod suite;
pub mod suspend;
pub mod tags;
pub mod terminate;
pub mod transact;
pub mod unclaimed;
pub mod work;

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt as _;

use crate::rules::RuleFuture;

pub use bench::{Flow, FlowBench, FlowUnderTest};
pub use helpers::{
    LEASE, MAIN, SESSION, Worker, activity_name, after, batch, capabilities, capability,
    child_start, continues, dispatcher, earliest_due, ends, event, finish, id, in_session, kv_key,
    main_line, named, new_instance, nothing, orchestration, owner, push, secs, start, start_of,
    step, tag, tagged, texts, turn_line, work,
};

/// A rule as a function pointer, as the functions in [`boxed`] are.
pub type FlowRule = for<'a> fn(&'a FlowBench) -> RuleFuture<'a>;

/// Every rule as a plain function that returns a boxed future. The futures are compiled here, once,
/// and not in the tests of every store.
#[doc(hidden)]
#[allow(missing_docs, reason = "the rules are documented where they are written")]
pub mod boxed {
    crate::flow_conformance_suite!(boxed);
}

/// Runs one rule against a store, and cleans up afterwards whether it passes or fails.
pub async fn hold_to(fixture: Box<dyn FlowUnderTest>, rule: FlowRule) {
    let bench = FlowBench::new(fixture);
    let outcome = AssertUnwindSafe(rule(&bench)).catch_unwind().await;
    bench.fixture.finish().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}
