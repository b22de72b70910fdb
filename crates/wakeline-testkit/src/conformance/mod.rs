//! The rules of `docs/reference/queue.md`, each by name, for every store.
//!
//! # Where it sits
//! A store's tests say `wakeline_testkit::conformance_suite!(fixture)`, which makes one test of
//! every rule here, each on a fresh fixture.
//!
//! # Invariants
//! * A rule uses names of its own, so that tests may share a database.
//! * A rule goes by the store's test clock alone: it never sleeps and never measures.

mod ask;
mod bench;
pub mod push;

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt as _;

pub use ask::{Ask, Taken, ended_lease, is_settled, item, partition_name, secs, told};
pub use bench::{Bench, StoreUnderTest};

/// Holds a store to one rule, and cleans up afterwards either way.
pub async fn hold_to(fixture: impl StoreUnderTest + 'static, rule: impl AsyncFnOnce(&Bench)) {
    let bench = Bench::new(Box::new(fixture));
    let outcome = AssertUnwindSafe(rule(&bench)).catch_unwind().await;
    bench.fixture.finish().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// Makes a test of every rule. The expression makes a fresh [`StoreUnderTest`]; it may await, and
/// it sees what is in scope where the macro stands.
#[macro_export]
macro_rules! conformance_suite {
    ($fixture:expr) => {
        $crate::conformance_module!($fixture; push;
            messages_keep_their_ids_and_their_order,
            offsets_have_no_gaps_and_begin_at_zero,
            one_call_may_push_to_many_queues_and_partitions,
            an_empty_push_is_answered_with_nothing,
            created_at_never_runs_backwards_within_a_partition,
            a_message_keeps_trace_producer_and_payload,
        );
    };
}

/// Makes tests of the rules of one module.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_module {
    ($fixture:expr; $module:ident; $($rule:ident),* $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "a fixture may be named by its full path")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $rule() {
                    let fixture = $fixture;
                    $crate::conformance::hold_to(fixture, $crate::conformance::$module::$rule)
                        .await;
                }
            )*
        }
    };
}
