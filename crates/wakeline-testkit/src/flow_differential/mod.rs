//! Random sequences of workflow operations on the oracle and on a store, side by side.
//!
//! # Where it sits
//! A store's tests call [`run`]. Every reply of the store is compared with the oracle's. What the
//! rules leave open (which of two due lanes is served first, how early a next-due time may be) is
//! checked against the rules instead.
//!
//! # Invariants
//! * A failure prints the smallest failing sequence, and the seed that reproduces it.
//! * All cases of a run share one store, so each case leaves it empty.

mod claims;
mod commits;
mod compare;
mod emits;
mod inspect;
mod manage;
mod op;
mod side;
mod world;

use crate::cases::Cases;
use crate::flow_conformance::FlowUnderTest;

/// Runs `WAKELINE_CASES` random sequences (48 by default) from the seed `WAKELINE_SEED` (7,632 by
/// default) on the store and on the oracle.
///
/// # Panics
/// If the store's replies differ from what the rules allow.
pub fn run<S: FlowUnderTest + 'static>(make: impl AsyncFnOnce() -> S) {
    run_in(&Cases::from_env(), make);
}

/// Like [`run`], but with at least `cases` sequences, for situations that are rare at random.
///
/// # Panics
/// If the store's replies differ from what the rules allow.
pub fn run_at_least<S: FlowUnderTest + 'static>(cases: u32, make: impl AsyncFnOnce() -> S) {
    let from_env = Cases::from_env();
    run_in(&Cases { cases: from_env.cases.max(cases), ..from_env }, make);
}

fn run_in<S: FlowUnderTest + 'static>(cases: &Cases, make: impl AsyncFnOnce() -> S) {
    let fixture = cases.runtime.block_on(make());
    let outcome =
        cases.run(&op::sequences(), |ops| cases.runtime.block_on(world::replay(&fixture, &ops)));
    cases.runtime.block_on(fixture.finish());
    if let Err((failure, ops)) = outcome {
        panic!(
            "{failure}\nsmallest sequence:\n{}",
            ops.iter().enumerate().map(|(n, op)| format!("{n:3} {op:?}\n")).collect::<String>()
        );
    }
}
