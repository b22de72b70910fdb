//! Random cases, which can be reproduced from a seed.

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::{Builder, Runtime};
use uuid::Uuid;

/// The result of a comparison; the error describes the difference.
pub(crate) type Comparison = Result<(), String>;

/// Number of cases of a run, unless the environment says otherwise.
const CASES_DEFAULT: u32 = 48;

/// The seed of a run, unless the environment says otherwise. The cases are the same every time, so
/// that a test that passed once fails only when something has changed. The long tests try new
/// cases.
const SEED_DEFAULT: u64 = 7_632;

/// A run of random cases.
pub(crate) struct Cases {
    /// The runtime of the calls.
    pub(crate) runtime: Runtime,
    /// Number of cases: `WAKELINE_CASES`, or 48.
    pub(crate) cases: u32,
    /// The seed of the cases: `WAKELINE_SEED`, or else a fixed one; in the long tests
    /// (`WAKELINE_LONG`) a random one.
    pub(crate) seed: u64,
}

impl Cases {
    pub(crate) fn from_env() -> Self {
        let cases = number("WAKELINE_CASES").map_or(CASES_DEFAULT, |cases| {
            u32::try_from(cases).expect("WAKELINE_CASES is not that large")
        });
        let long = std::env::var_os("WAKELINE_LONG").is_some();
        let chance = || if long { Uuid::new_v4().as_u64_pair().0 } else { SEED_DEFAULT };
        let seed = number("WAKELINE_SEED").unwrap_or_else(chance);
        let runtime =
            Builder::new_multi_thread().enable_all().build().expect("a runtime can be made");
        Self { runtime, cases, seed }
    }

    /// Runs the cases. Returns the smallest failing case with a description of the failure.
    pub(crate) fn run<T: Debug + Clone>(
        &self,
        strategy: &impl Strategy<Value = T>,
        case: impl Fn(T) -> Result<(), String>,
    ) -> Result<(), (String, T)> {
        let (cases, seed) = (self.cases, self.seed);
        let mut runner = TestRunner::new_with_rng(config(cases), rng(seed));
        match runner.run(strategy, |value| case(value).map_err(TestCaseError::fail)) {
            Ok(()) => Ok(()),
            Err(TestError::Fail(reason, value)) => {
                let failure = format!("{reason}\n\nWAKELINE_SEED={seed} WAKELINE_CASES={cases}");
                Err((failure, value))
            }
            Err(TestError::Abort(reason)) => panic!("{reason}\n\nWAKELINE_SEED={seed}"),
        }
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
