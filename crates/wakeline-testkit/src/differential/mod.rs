//! Random sequences of queue operations on the oracle and on a store, side by side.
//!
//! # Where it sits
//! A store's tests call [`run`]. Every reply of the store is compared with the oracle's. What the
//! rules leave open (which of two partitions that became due at the same time comes first, how
//! early a next-due time may be) is checked against the rules instead.
//!
//! # Invariants
//! * A failure prints the smallest failing sequence, and the seed that reproduces it.
//! * All cases of a run share one store, so each case uses its own names.

mod claims;
mod compare;
mod counts;
mod dead;
mod inspect;
mod maintain;
mod messages;
mod op;
mod schedules;
mod settles;
mod side;
mod world;

use crate::cases::Cases;
use crate::conformance::StoreUnderTest;

/// Runs `WAKELINE_CASES` random sequences (48 by default) from the seed `WAKELINE_SEED` (7,632
/// by default) on the store and on the oracle.
///
/// # Panics
/// If the store's replies differ from what the rules allow.
pub fn run<S: StoreUnderTest + 'static>(make: impl AsyncFnOnce() -> S) {
    run_at_least(0, make);
}

/// Like [`run`], but with at least `least` sequences, for situations that are rare at random.
///
/// # Panics
/// If the store's replies differ from what the rules allow.
pub fn run_at_least<S: StoreUnderTest + 'static>(least: u32, make: impl AsyncFnOnce() -> S) {
    let mut cases = Cases::from_env();
    cases.cases = cases.cases.max(least);
    let fixture = cases.runtime.block_on(make());
    let outcome = cases.run(&op::sequences(), |(options, ops)| {
        cases.runtime.block_on(world::replay(&fixture, options, &ops))
    });
    cases.runtime.block_on(fixture.finish());
    if let Err((failure, (options, ops))) = outcome {
        panic!(
            "{failure}\nsmallest sequence, on queues with {options:#?}:\n{}",
            ops.iter().enumerate().map(|(n, op)| format!("{n:3} {op:?}\n")).collect::<String>()
        );
    }
}
