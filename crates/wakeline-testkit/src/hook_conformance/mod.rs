//! The rules of `docs/reference/hook.md`, each by name, for every store.
//!
//! # Where it sits
//! A store's tests say `wakeline_testkit::hook_conformance_suite!(fixture)`, which makes one test
//! of every rule here, each on a fresh fixture.
//!
//! # Invariants
//! * A rule has a store of its own, so that it may claim whatever there is.
//! * A rule goes by the store's test clock alone: it never sleeps and never measures.

pub mod announce;
pub mod applications;
mod bench;
pub mod born;
pub mod breaker;
pub mod cancel;
pub mod chores;
pub mod claim;
pub mod concurrent;
pub mod due;
pub mod endpoints;
pub mod event_types;
pub mod fan_out;
pub mod fifo;
pub mod fresh;
pub mod hints;
pub mod jobs;
pub mod keys;
pub mod lease;
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
mod words;

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt as _;

use crate::rules::RuleFuture;

pub use bench::{HookBench, HookUnderTest};
pub use words::{
    LEASE, PAID, URL, application, ask, ask_fresh, before, breaking, capped, channels, end,
    endpoint, event, event_type, failure, fifo, first, items, key, message, messages_of, patterns,
    plain, pull, pulled, push, rated, record, scheduled, secs, success, told, uid,
};

/// A rule, as [`boxed`] has it.
pub type Rule = for<'a> fn(&'a HookBench) -> RuleFuture<'a>;

/// Every rule as a plain function. Its future is compiled here, once, and not in the tests of
/// every store.
#[doc(hidden)]
#[allow(missing_docs, reason = "the rules are documented where they are written")]
pub mod boxed {
    crate::hook_conformance_suite!(boxed);
}

/// Holds a store to one rule, and cleans up afterwards either way.
pub async fn hold_to(fixture: Box<dyn HookUnderTest>, rule: Rule) {
    let bench = HookBench::new(fixture).await;
    let outcome = AssertUnwindSafe(rule(&bench)).catch_unwind().await;
    bench.fixture.finish().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// Makes tests of the rules of one module.
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

            fn hold_to(rule: $crate::hook_conformance::Rule) {
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
