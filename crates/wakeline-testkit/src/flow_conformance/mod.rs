//! The rules of `docs/reference/flow.md`, each by name, for every store.
//!
//! # Where it sits
//! A store's tests say `wakeline_testkit::flow_conformance_suite!(fixture)`, which makes one test
//! of every rule here, each on a fresh fixture.
//!
//! # Invariants
//! * A rule has a store of its own, so that it may claim whatever there is.
//! * A rule goes by the store's test clock alone: it never sleeps and never measures.

mod bench;
pub mod born;
pub mod claim;
pub mod commit;
pub mod concurrent;
pub mod delete;
pub mod due;
pub mod emit;
pub mod hints;
pub mod kv;
pub mod lanes;
pub mod lease;
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
mod words;
pub mod work;

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt as _;

use crate::rules::RuleFuture;

pub use bench::{Flow, FlowBench, FlowUnderTest};
pub use words::{
    LEASE, MAIN, SESSION, Worker, activity_name, after, batch, birth, capabilities, capability,
    child_start, continues, dispatcher, ends, event, finish, id, in_session, kv_key, main_line,
    named, nothing, orchestration, owner, push, secs, start, start_of, step, tag, tagged, texts,
    told, turn_line, work,
};

/// A rule, as [`boxed`] has it.
pub type Rule = for<'a> fn(&'a FlowBench) -> RuleFuture<'a>;

/// Every rule as a plain function. Its future is compiled here, once, and not in the tests of
/// every store.
#[doc(hidden)]
#[allow(missing_docs, reason = "the rules are documented where they are written")]
pub mod boxed {
    crate::flow_conformance_suite!(boxed);
}

/// Holds a store to one rule, and cleans up afterwards either way.
pub async fn hold_to(fixture: Box<dyn FlowUnderTest>, rule: Rule) {
    let bench = FlowBench::new(fixture);
    let outcome = AssertUnwindSafe(rule(&bench)).catch_unwind().await;
    bench.fixture.finish().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}
