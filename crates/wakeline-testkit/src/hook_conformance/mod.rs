//! The rules of `docs/reference/hook.md`, one function each, for every store.
//!
//! # Where it sits
//! A store's tests call `wakeline_testkit::hook_conformance_suite!(fixture)`, which makes one test
//! of every rule here, each on a new fixture.
//!
//! # Invariants
//! * A rule has a store of its own, so it may claim everything.
//! * A rule depends on the store's test clock alone: it never sleeps and never measures time.

pub mod announce;
pub mod applications;
pub mod background;
mod bench;
pub mod breaker;
pub mod cancel;
pub mod claim;
pub mod concurrent;
pub mod due;
pub mod endpoints;
pub mod event_types;
pub mod fan_out;
pub mod fifo;
pub mod first_attempts;
mod helpers;
pub mod hints;
pub mod jobs;
pub mod keys;
pub mod lease;
pub mod leased_on_insert;
pub mod limits;
pub mod manual;
pub mod messages;
pub mod neighbours;
pub mod rate;
pub mod read;
pub mod secrets;
pub mod settle;
mod suite;
mod suite_of_many;

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt as _;

use crate::rules::RuleFuture;

pub use bench::{HookBench, HookUnderTest};
pub use helpers::{
    LEASE, PAID, URL, application, before, breaking, capped, channels, earliest_due, end, endpoint,
    event, event_type, failure, fifo, first, items, key, message, messages_of, patterns, plain,
    pull, pulled, push, rated, record, request, request_fresh, scheduled, secs, success, uid,
};

/// A rule as a function pointer, as the functions in [`boxed`] are.
pub type HookRule = for<'a> fn(&'a HookBench) -> RuleFuture<'a>;

/// Every rule as a plain function that returns a boxed future. The futures are compiled here, once,
/// and not in the tests of every store.
#[doc(hidden)]
#[allow(missing_docs, reason = "the rules are documented where they are written")]
pub mod boxed {
    crate::hook_conformance_suite!(boxed);
}

/// Runs one rule against a store, and cleans up afterwards whether it passes or fails.
pub async fn hold_to(fixture: Box<dyn HookUnderTest>, rule: HookRule) {
    let bench = HookBench::new(fixture).await;
    let outcome = AssertUnwindSafe(rule(&bench)).catch_unwind().await;
    bench.fixture.finish().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// Makes a test of every rule of one module.
#[doc(hidden)]
#[macro_export]
macro_rules! hook_conformance_module {
    ([boxed]; $module:ident; $($rule:ident),* $(,)?) => {
        pub mod $module {
            use $crate::hook_conformance::{HookBench, $module};
            $(
                pub fn $rule(bench: &HookBench) -> $crate::rules::RuleFuture<'_> {
                    Box::pin($module::$rule(bench))
                }
            )*
        }
    };
    ([$($fixture:tt)*]; $module:ident; $($rule:ident),* $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "a fixture may be named by its full path")]
            use super::*;

            fn hold_to(rule: $crate::hook_conformance::HookRule) {
                $crate::rules::block_on(async {
                    let fixture = Box::new($($fixture)*);
                    $crate::hook_conformance::hold_to(fixture, rule).await;
                });
            }

            $(
                #[test]
                fn $rule() {
                    hold_to($crate::hook_conformance::boxed::$module::$rule);
                }
            )*
        }
    };
}
