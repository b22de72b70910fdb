//! The list of rules: a test of each.

/// Makes a test of every rule. The expression makes a fresh
/// [`FlowUnderTest`](crate::flow_conformance::FlowUnderTest); it may await, and it sees what is in
/// scope where the macro stands. The modules that it makes have the names of those of
/// `conformance_suite!`, so each stands in a module of its own.
#[macro_export]
macro_rules! flow_conformance_suite {
    ($fixture:expr) => {
        $crate::flow_conformance_module!($fixture; lanes;
            an_instance_is_made_by_the_commit_of_a_turn_and_not_by_a_message,
            a_lane_without_a_start_is_missing,
            a_start_that_is_taken_without_a_birth_leaves_nothing,
            a_message_is_visible_from_its_time_on,
            a_message_of_a_past_moment_is_visible_at_once,
            messages_are_ordered_by_arrival_and_not_by_time,
            an_event_before_the_start_is_delivered_with_it,
            the_first_start_says_what_a_lane_needs,
            a_start_of_an_ended_instance_says_anew_what_its_lane_needs,
            a_unique_start_is_refused_while_one_waits,
            a_unique_start_is_refused_while_the_instance_exists,
            an_early_event_does_not_refuse_a_unique_start,
            a_start_that_is_not_unique_is_stored_beside_others,
            a_message_to_an_ended_instance_is_refused,
            envelopes_of_one_call_have_their_own_outcomes_and_keep_their_order,
            a_lane_holds_one_message_of_a_key,
            payloads_come_back_identical,
            odd_names_are_kept_apart,
            an_instance_may_be_made_and_ended_by_one_turn,
        );
        $crate::flow_conformance_module!($fixture; claim;
            lanes_that_became_due_first_come_first,
            a_busy_lane_does_not_starve_the_others,
            a_leased_lane_is_claimed_by_nobody_else,
            messages_that_arrive_during_the_lease_are_for_the_next_turn,
            a_turn_takes_only_visible_messages,
            a_turn_takes_all_visible_messages,
            a_turn_takes_a_thousand_messages_at_most,
            a_turn_takes_about_four_megabytes_at_most,
            a_turn_tells_how_its_instance_stands,
            a_long_history_does_not_come_along,
            a_claim_repeated_with_its_key_returns_the_same_turn,
            a_key_that_holds_a_turn_of_another_line_is_free,
            requests_of_one_claim_get_different_lanes,
            several_lines_share_without_doubling,
            a_token_carries_the_key_of_its_request,
            a_claim_without_requests_takes_nothing,
            lanes_of_other_capabilities_are_not_touched,
            a_dispatcher_without_capabilities_gets_nothing,
            any_capability_takes_whatever_there_is,
            the_last_turn_that_pinned_says_what_a_lane_needs,
        );
        $crate::flow_conformance_module!($fixture; lease;
            an_attempt_is_counted_by_each_claim,
            attempts_are_counted_per_message_and_the_turn_has_the_highest,
            an_expired_lease_is_ended_by_the_next_claim,
            an_expired_turn_comes_again_with_what_arrived_meanwhile,
            an_expired_lease_cannot_commit_even_if_nobody_took_it,
            a_committed_turn_cannot_be_committed_again,
            an_unknown_token_changes_nothing,
            a_token_is_for_its_own_lane,
            a_renewal_moves_the_end,
            a_renewal_never_shortens,
            an_expired_lease_cannot_be_renewed,
            many_leases_are_renewed_at_once,
            an_abandoned_turn_is_available_at_once_or_after_its_delay,
            an_abandoned_turn_delays_only_its_own_messages,
            an_uncounted_abandon_takes_the_attempt_back,
            an_expired_lease_that_nobody_took_can_be_abandoned,
            an_abandoned_first_turn_keeps_early_events,
        );
        $crate::flow_conformance_module!($fixture; due;
            the_next_turn_is_told_exactly_for_each_source,
            a_wait_ends_when_there_is_something_and_not_before,
            the_next_turn_is_that_of_the_line,
            a_partly_served_line_is_told_when_the_next_turn_is_due,
            a_sweep_agrees_with_claims_and_takes_nothing,
            a_sweep_of_work_agrees_with_claims,
            a_sweep_of_an_outcome_has_something_once_the_instance_ended,
            many_lines_are_swept_at_once,
        );
        $crate::flow_conformance_module!($fixture; commit;
            a_stale_turn_writes_nothing,
            a_conflict_writes_nothing_and_keeps_the_lease,
            a_history_begins_at_one,
            histories_grow_by_a_batch_per_turn,
            a_turn_without_events_takes_its_messages,
            writing_without_a_birth_is_refused,
            a_second_birth_is_ignored,
            a_birth_remembers_its_parent,
            an_execution_without_a_pin_has_no_version,
            each_status_change_makes_a_new_version,
            a_status_outlives_its_execution,
            an_ended_instance_has_its_state_and_output,
            an_output_may_be_missing_or_empty,
            continuing_as_new_ends_the_execution_and_not_the_instance,
            a_continued_instance_needs_what_its_start_says,
            messages_that_wait_reach_the_next_execution,
            executions_have_histories_of_their_own,
            a_start_to_a_running_instance_changes_nothing_by_itself,
        );
        $crate::flow_conformance_module!($fixture; kv;
            readers_see_values_as_they_stand,
            changes_of_one_turn_are_applied_in_order,
            a_turn_sees_the_state_as_of_the_start_of_its_execution,
            continuing_merges_what_changed,
            ending_merges_what_changed,
            a_cleared_key_hides_the_value_of_an_earlier_execution,
            a_value_tells_which_execution_set_it_and_when,
            the_kv_version_goes_up_with_every_turn_that_changed_it,
            instances_have_values_of_their_own,
            odd_keys_and_large_values_are_kept,
            a_first_turn_may_set_values_and_end,
        );
    };
}

/// Makes tests of the rules of one module.
#[doc(hidden)]
#[macro_export]
macro_rules! flow_conformance_module {
    ($fixture:expr; $module:ident; $($rule:ident),* $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "a fixture may be named by its full path")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $rule() {
                    let fixture = $fixture;
                    let rule = $crate::flow_conformance::$module::$rule;
                    $crate::flow_conformance::hold_to(fixture, rule).await;
                }
            )*
        }
    };
}
