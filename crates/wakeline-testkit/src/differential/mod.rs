//! Random sequences on the oracle and on a store, side by side.
//!
//! # Where it sits
//! A store's tests call [`run`]. Every answer of the store is compared with the oracle's; what the
//! rules leave open (which of two partitions that became due at the same moment goes first, how
//! early a next-due time may be) is checked against the rules instead.
//!
//! # Invariants
//! * A failure prints the smallest sequence that shows it, and the seed that leads to it again.
//! * All cases of a run share one store: each has names of its own.

mod claims;
mod compare;
mod inspect;
mod op;
mod settles;
mod side;
mod world;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use uuid::Uuid;

use crate::conformance::StoreUnderTest;

/// Cases of a run, if the environment does not say otherwise.
const CASES_DEFAULT: u32 = 48;

/// Runs `WAKELINE_CASES` random sequences (48 by default) from the seed `WAKELINE_SEED` (random
/// by default) on the store and on the oracle.
///
/// # Panics
/// If the store's answers differ from what the rules allow.
pub fn run<S: StoreUnderTest + 'static>(make: impl AsyncFnOnce() -> S) {
    let cases = number("WAKELINE_CASES").map_or(CASES_DEFAULT, |cases| {
        u32::try_from(cases).expect("WAKELINE_CASES is not that large")
    });
    let seed = number("WAKELINE_SEED").unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let fixture = runtime.block_on(make());
    let mut runner = TestRunner::new_with_rng(config(cases), rng(seed));
    let outcome = runner.run(&op::sequences(), |(options, ops)| {
        let differs = |difference: String| TestCaseError::fail(difference);
        runtime.block_on(world::replay(&fixture, options, &ops)).map_err(differs)
    });
    runtime.block_on(fixture.finish());
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, (options, ops))) => panic!(
            "{reason}\n\nWAKELINE_SEED={seed} WAKELINE_CASES={cases}\n\
             smallest sequence, on queues with {options:#?}:\n{}",
            ops.iter().enumerate().map(|(n, op)| format!("{n:3} {op:?}\n")).collect::<String>()
        ),
        Err(TestError::Abort(reason)) => panic!("{reason}\n\nWAKELINE_SEED={seed}"),
    }
}

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() }
}

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
