//! The macro that turns rules into tests, and the list of rules for deleted messages, traces and
//! the ledger.

/// Makes a test of every rule of one module.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_module {
    ([boxed]; $module:ident; $($rule:ident),* $(,)?) => {
        pub mod $module {
            use $crate::conformance::{Bench, $module};
            $(
                pub fn $rule(bench: &Bench) -> $crate::rules::RuleFuture<'_> {
                    Box::pin($module::$rule(bench))
                }
            )*
        }
    };
    ([$($fixture:tt)*]; $module:ident; $($rule:ident),* $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "the fixture expression may be a full path")]
            use super::*;

            fn hold_to(rule: $crate::conformance::QueueRule) {
                $crate::rules::block_on(async {
                    let fixture = Box::new($($fixture)*);
                    $crate::conformance::hold_to(fixture, rule).await;
                });
            }

            $(
                #[test]
                fn $rule() {
                    hold_to($crate::conformance::boxed::$module::$rule);
                }
            )*
        }
    };
}

/// Makes a test of every rule for deleted messages, traces and the ledger, as a part of the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_records {
    ($($fixture:tt)*) => {
        $crate::conformance_module!([$($fixture)*]; delete;
            a_deleted_message_is_never_delivered, a_deleted_message_is_not_found,
            a_batch_passes_over_what_was_deleted, a_deleted_message_is_let_go_by_its_consumer,
            a_lease_ends_with_its_last_message, what_is_given_back_passes_over_what_was_deleted,
            a_deleted_message_of_an_expired_lease_is_gone, a_deleted_message_is_not_retried,
            what_was_deleted_does_not_count, a_partition_whose_messages_were_deleted_is_not_due,
            the_id_of_a_deleted_message_is_free_again, dead_letters_of_a_deleted_message_stay,
            retention_counts_no_deleted_messages, what_was_deleted_does_not_expire,
            a_message_behind_deleted_ones_is_given_up,);
        $crate::conformance_module!([$($fixture)*]; traces;
            a_trace_returns_what_was_recorded,
            a_trace_needs_its_message,
            traces_are_found_by_name,
            names_are_listed_with_their_traces,
            a_message_has_so_many_traces_and_no_more,
            traces_go_with_their_message,
            traces_go_with_their_partition_and_queue,
        );
        $crate::conformance_module!([$($fixture)*]; ledger;
            the_ledger_adds_up,
            an_entry_shows_worker_times_and_outcome,
            what_is_settled_shows_while_its_lease_is_live,
            a_lease_that_ran_out_ended_then,
            what_is_settled_at_once_is_acked,
            a_group_that_is_moved_lets_go,
            what_is_given_up_after_its_lease_has_expired,
            a_scattered_lease_is_found,
            entries_are_kept_for_as_long_as_the_queue_says,
            a_partition_shows_its_last_consumer,
        );
    };
}
