//! The list of rules, which becomes one test of each.

/// Makes a test of every rule, in modules that may be named like those of `conformance_suite!`. The
/// expression makes a new [`FlowUnderTest`](crate::flow_conformance::FlowUnderTest), and may await.
#[macro_export]
macro_rules! flow_conformance_suite {
    ($($fixture:tt)*) => {
        $crate::flow_conformance_module!([$($fixture)*]; lanes;
            an_instance_is_made_by_the_commit_of_a_turn_and_not_by_a_message,
            a_lane_without_a_start_is_missing,
            a_start_taken_without_creating_the_instance_leaves_nothing,
            a_message_is_visible_from_its_time_on,
            a_message_of_a_past_moment_is_visible_at_once,
            messages_are_ordered_by_arrival_and_not_by_time,
            an_event_before_the_start_is_delivered_with_it,
            the_first_start_says_what_a_lane_needs,
            a_start_of_an_ended_instance_decides_again_what_its_lane_needs,
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
        $crate::flow_conformance_module!([$($fixture)*]; claim;
            lanes_that_became_due_first_come_first,
            a_busy_lane_does_not_starve_the_others,
            a_leased_lane_is_not_claimed_again,
            messages_that_arrive_during_the_lease_are_for_the_next_turn,
            a_turn_takes_only_visible_messages,
            a_turn_takes_all_visible_messages,
            a_turn_has_the_state_of_its_instance,
            a_long_history_is_not_included,
            a_claim_repeated_with_its_key_returns_the_same_turn,
            a_key_that_holds_a_turn_of_another_line_is_free,
            requests_of_one_claim_get_different_lanes,
            a_claim_that_looks_further_says_what_is_next_though_all_were_served,
            several_lines_share_without_doubling,
            a_token_carries_the_key_of_its_request,
            a_claim_without_requests_takes_nothing,
            lanes_of_other_capabilities_are_not_touched,
            a_dispatcher_without_capabilities_gets_nothing,
            any_capability_takes_whatever_there_is,
            the_last_turn_that_pinned_says_what_a_lane_needs,
        );
        $crate::flow_conformance_module!([$($fixture)*]; lease;
            an_attempt_is_counted_by_each_claim,
            attempts_are_counted_per_message_and_the_turn_has_the_highest,
            an_expired_lease_is_ended_by_the_next_claim,
            an_expired_turn_comes_again_with_what_arrived_meanwhile,
            an_expired_unclaimed_lease_cannot_commit,
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
            an_expired_unclaimed_lease_can_be_abandoned,
            an_abandoned_first_turn_keeps_early_events,
        );
        $crate::flow_conformance_module!([$($fixture)*]; due;
            the_next_due_time_is_exact_for_each_source,
            a_wait_ends_when_there_is_something_and_not_before,
            the_next_turn_is_that_of_the_line,
            a_partly_served_line_reports_when_the_next_turn_is_due,
            a_sweep_agrees_with_claims_and_takes_nothing,
            a_sweep_of_work_agrees_with_claims,
            a_sweep_of_an_outcome_has_something_once_the_instance_ended,
            many_lines_are_swept_at_once,
        );
        $crate::flow_conformance_module!([$($fixture)*]; commit;
            a_stale_turn_writes_nothing,
            a_conflict_writes_nothing_and_keeps_the_lease,
            a_history_begins_at_one,
            histories_grow_by_a_batch_per_turn,
            a_turn_without_events_takes_its_messages,
            writing_before_the_instance_is_created_is_refused,
            creating_an_instance_again_is_ignored,
            an_instance_remembers_its_parent,
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
        $crate::flow_conformance_module!([$($fixture)*]; kv;
            readers_see_values_as_they_stand,
            changes_of_one_turn_are_applied_in_order,
            a_turn_sees_the_state_as_of_the_start_of_its_execution,
            continuing_merges_what_changed,
            ending_merges_what_changed,
            a_cleared_key_hides_the_value_of_an_earlier_execution,
            a_value_shows_which_execution_set_it_and_when,
            the_kv_version_goes_up_with_every_turn_that_changed_it,
            instances_have_values_of_their_own,
            odd_keys_and_large_values_are_kept,
            a_first_turn_may_set_values_and_end,
        );
        $crate::flow_conformance_module!([$($fixture)*]; messages;
            a_turn_may_send_to_itself,
            a_turn_may_send_to_others_and_start_them,
            a_message_to_a_leased_lane_waits_for_its_next_turn,
            cancelled_timers_do_not_fire,
            a_turn_takes_back_only_its_own_messages,
            a_timer_set_and_cancelled_by_one_turn_does_not_fire,
            a_commit_removes_only_what_its_turn_took,
            clearing_removes_all_messages_and_work,
            ending_without_clearing_keeps_what_waits,
            pushes_of_a_turn_are_in_their_queues_once,
            pushes_of_a_turn_are_held_back_by_a_maintenance,
            a_turn_that_sends_nothing_has_no_outcomes,
        );
        $crate::flow_conformance_module!([$($fixture)*]; emit;
            what_a_turn_emits_is_there_with_its_commit,
            a_refused_turn_emits_nothing,
            a_decision_emits_once,
            filters_say_who_gets_what_a_turn_emits,
            an_emit_to_an_unknown_application_is_reported_and_dropped,
            an_emit_that_does_not_fit_its_event_type_is_reported_and_dropped,
            messages_that_turns_emit_keep_their_order,
        );
        $crate::flow_conformance_module!([$($fixture)*]; transact;
            a_transaction_spans_queues_workflows_and_webhooks,
            a_refused_transaction_changes_nothing,
            what_is_known_does_not_refuse_a_transaction,
        );
        $crate::flow_conformance_module!([$($fixture)*]; work;
            pending_work_shows_its_attempts_error_and_next_attempt,
            work_is_claimed_in_order_of_insertion,
            work_of_a_later_time_is_passed_over,
            leased_work_is_not_claimed_again,
            expired_work_keeps_its_place,
            work_comes_back_as_it_was_scheduled,
            work_without_an_instance_reports_that_there_is_none,
            work_has_the_state_of_its_execution,
            completing_removes_the_work_and_notifies_its_instance,
            completed_work_cannot_be_completed_again,
            an_expired_lease_cannot_complete,
            work_of_an_ended_instance_goes_and_its_message_is_refused,
            completions_arrive_in_the_order_of_their_commits,
            renewing_returns_the_state_of_the_execution,
            renewing_work_never_shortens,
            abandoned_work_is_available_after_its_delay,
            uncounted_work_has_its_attempt_back,
            expired_unclaimed_work_can_be_abandoned,
            a_claim_of_work_repeated_with_its_key_returns_the_same,
            requests_of_one_claim_get_different_work,
            a_claim_of_work_that_looks_further_says_what_is_next,
            work_with_a_known_key_is_left_as_it_is,
            cancelled_work_goes_and_its_lease_is_stale,
            work_scheduled_and_cancelled_by_one_turn_is_none,
            work_of_a_turn_is_its_instances,
            a_completion_is_stored_as_by_an_enqueue,
            tokens_of_turns_and_of_work_are_not_exchanged,
        );
        $crate::flow_conformance_module!([$($fixture)*]; tags;
            untagged_workers_take_only_untagged_work,
            tagged_workers_take_only_their_tags,
            workers_may_take_tags_and_what_has_none,
            any_takes_everything_in_order,
            workers_without_tags_at_all_take_nothing,
            a_tag_survives_turn_abandon_and_expiry,
            the_filter_of_the_line_counts,
        );
        $crate::flow_conformance_module!([$($fixture)*]; unclaimed;
            an_unclaimed_turn_is_found_with_its_capability,
            a_turn_of_an_ended_instance_is_not_unclaimed,
            an_unclaimed_activity_is_found_with_its_name_and_tag,
            a_leased_activity_is_not_unclaimed_before_it_can_be_claimed_again,
        );
        $crate::flow_conformance_module!([$($fixture)*]; mailboxes;
            a_turn_takes_a_thousand_messages_at_most,
            a_turn_takes_about_four_megabytes_at_most,
            a_start_behind_a_thousand_messages_comes_first_and_the_rest_in_order,
            a_start_behind_four_megabytes_comes_first,
            a_continuation_behind_a_thousand_messages_comes_first,
            a_start_that_is_not_visible_is_not_brought_forward,
            mailboxes_of_ids_that_were_never_started_are_listed_page_by_page,
            a_mailbox_is_listed_until_its_instance_is_started,
            a_mailbox_that_was_deleted_is_not_listed,
            messages_that_wait_are_read_in_order,
        );
        $crate::flow_conformance_module!([$($fixture)*]; names;
            a_worker_takes_only_activities_that_it_knows,
            work_whose_name_the_store_does_not_know_is_for_any_worker,
            a_worker_that_names_none_takes_all_in_order,
            a_tag_and_a_name_both_count,
            work_of_a_session_goes_to_a_worker_that_knows_it,
            a_name_survives_turn_abandon_and_expiry,
            a_commit_leases_work_only_to_a_worker_that_knows_it,
            hints_notify_only_workers_that_know_the_name,
            a_line_is_due_by_what_its_worker_knows,
        );
        $crate::flow_conformance_module!([$($fixture)*]; sessions;
            work_of_a_session_is_not_for_workers_without_an_owner,
            an_owner_takes_work_with_and_without_a_session,
            a_session_belongs_to_whoever_claimed_it_first,
            different_sessions_may_have_different_owners,
            two_workers_of_one_owner_share_its_sessions,
            an_expired_session_goes_to_the_next_owner,
            expired_work_of_an_expired_session_goes_to_anyone,
            expired_work_of_a_live_session_stays_with_its_owner,
            an_expired_session_may_be_claimed_again_by_its_owner,
            claiming_work_of_a_session_extends_it,
            the_next_work_waits_for_session_and_time,
            active_sessions_are_kept,
            sessions_of_several_owners_are_kept_at_once,
            idle_sessions_are_not_kept,
            expired_sessions_are_not_kept,
            completing_and_renewing_count_as_activity,
            expired_sessions_are_removed,
            abandoned_work_of_a_session_stays_with_its_owner,
            work_of_a_session_comes_in_order,
            a_claim_of_several_takes_a_whole_session,
            a_session_is_not_claimed_for_work_of_another_tag,
            a_claim_of_a_session_repeated_with_its_key_returns_the_same,
            sessions_that_are_let_go_are_claimed_by_others_at_once,
        );
        $crate::flow_conformance_module!([$($fixture)*]; leased_on_insert;
            a_start_is_leased_to_a_dispatcher_that_waits,
            a_turn_leased_on_insert_expires_and_counts,
            a_dispatcher_that_cannot_run_it_is_left_alone,
            several_dispatchers_get_what_fits_each,
            one_lane_is_leased_to_one_dispatcher,
            a_dispatcher_is_left_alone_while_older_turns_wait,
            older_turns_of_other_capabilities_do_not_count,
            an_unavailable_turn_is_not_leased_on_insert,
            a_refused_message_leases_nothing,
            a_completion_leases_the_turn_that_it_makes_available,
            a_commit_leases_the_turns_that_it_makes_available,
            a_commit_leases_its_own_lane_again_for_what_came_meanwhile,
            a_commit_leases_nothing_while_older_turns_wait,
            a_commit_leases_its_work_to_workers_that_wait,
            a_worker_is_left_alone_while_older_work_waits,
            unavailable_work_is_not_leased_on_insert,
            work_of_a_session_is_leased_on_insert_to_its_owner,
            a_stale_commit_leases_nothing,
        );
        $crate::flow_conformance_module!([$($fixture)*]; hints;
            a_message_notifies_dispatchers_that_can_run_its_instance,
            a_start_reports_the_events_that_waited_for_it,
            a_commit_reports_all_that_it_made_available,
            a_commit_reports_messages_that_came_during_its_turn,
            an_abandon_reports_when_the_item_is_available,
            new_work_notifies_workers_that_can_run_it,
            a_completion_notifies_dispatchers_of_the_turn,
            waiters_of_an_outcome_are_notified_of_state_status_and_values,
            terminating_notifies_waiters_and_receivers,
            resuming_reports_the_messages_that_waited,
            watching_returns_the_same_as_reading,
        );
        $crate::flow_conformance_module!([$($fixture)*]; read;
            a_history_is_read_page_by_page,
            a_page_begins_with_the_batch_of_its_event,
            an_unknown_instance_has_nothing_to_read,
            events_come_back_identical,
            executions_show_their_states,
            an_instance_shows_when_it_was_created_and_changed,
            a_tree_has_parents_before_children,
            stats_count_what_an_instance_holds,
            stats_are_of_the_current_execution,
            depths_count_what_waits,
            an_instance_reads_the_same_until_something_happens,
        );
        $crate::flow_conformance_module!([$($fixture)*]; list;
            instances_are_listed_newest_first,
            instances_of_one_moment_are_listed_by_id,
            pages_follow_each_other_without_gap_or_overlap,
            a_page_is_not_moved_by_what_comes_later,
            instances_are_listed_by_state,
            instances_are_listed_by_name_prefix_and_parent,
            instances_are_listed_by_creation,
            instances_are_listed_by_suspension,
            pending_instances_are_listed,
            pending_and_running_instances_share_pages,
            pending_instances_are_listed_with_their_parent,
        );
        $crate::flow_conformance_module!([$($fixture)*]; suspend;
            a_suspended_instance_gets_messages_and_no_turns,
            suspending_ends_a_lease_uncounted,
            ended_and_unknown_instances_cannot_be_suspended,
            a_pending_instance_can_be_suspended,
            resuming_an_instance_that_is_not_suspended_is_reported,
            a_resumed_instance_is_due_for_its_timers,
            a_turn_may_suspend_its_instance,
            a_first_turn_may_suspend_its_instance,
            a_stale_turn_cannot_suspend_its_instance,
            mismatched_instances_are_retried_by_fitting_code,
            activities_of_a_suspended_instance_go_on,
        );
        $crate::flow_conformance_module!([$($fixture)*]; terminate;
            a_terminated_instance_has_ended_with_its_output,
            terminating_removes_messages_work_and_lease,
            ended_and_unknown_instances_cannot_be_terminated,
            terminating_a_pending_instance_notifies_others,
            an_instance_in_another_state_is_not_ended,
            a_terminated_instance_gets_what_its_end_sends_it,
            starts_that_wait_are_read_in_order,
            a_suspended_instance_can_be_terminated,
            an_instance_may_be_ended_as_failed,
            a_terminated_instance_keeps_what_readers_see,
        );
        $crate::flow_conformance_module!([$($fixture)*]; delete;
            a_deleted_instance_leaves_nothing,
            a_running_instance_is_deleted_only_by_force,
            deleting_an_instance_deletes_its_descendants,
            a_child_is_not_deleted_without_its_parent,
            a_child_is_deleted_by_force,
            tokens_of_a_deleted_instance_do_not_fit_its_successor,
            work_of_a_deleted_instance_is_gone,
            a_pending_instance_is_deleted_only_by_force,
            matching_instances_are_deleted_with_all_below,
            matching_is_by_name_time_and_number,
            matching_passes_over_children,
            a_large_family_is_deleted_to_the_last_row,
            a_deletion_that_was_given_up_is_finished,
            children_of_a_namesake_stay,
            waiters_of_a_deleted_instance_are_named,
            early_messages_are_deleted_by_force,
            pending_children_are_deleted_with_their_parent,
            a_pending_child_that_another_started_too_is_not_deleted_with_its_parent,
        );
        $crate::flow_conformance_module!([$($fixture)*]; prune;
            the_newest_executions_stay,
            the_current_execution_always_stays,
            without_options_all_but_the_current_go,
            only_executions_that_ended_before_go,
            pruning_keeps_the_values,
            many_instances_are_pruned_at_once,
            pruning_reaches_more_instances_than_one_page_holds,
        );
        $crate::flow_conformance_module!([$($fixture)*]; neighbours;
            a_wrong_message_leaves_its_neighbours_untouched,
            a_wrong_commit_leaves_its_neighbours_untouched,
            a_wrong_completion_leaves_its_neighbours_untouched,
            a_wrong_renewal_leaves_its_neighbours_untouched,
        );
        $crate::flow_conformance_module!([$($fixture)*]; concurrent;
            racing_claims_share_the_turns,
            a_lane_has_one_holder_in_a_race,
            racing_claims_share_the_work,
            racing_commits_of_one_turn_count_once,
            racing_completions_count_once,
            racing_starts_of_one_instance_count_once,
            racing_completions_into_one_lane_lose_nothing,
            a_message_that_races_with_a_commit_is_not_forgotten,
            a_session_has_one_owner_in_a_race,
            turns_that_send_crosswise_do_not_block_each_other,
        );
    };
}

/// Makes a test of every rule of one module.
#[doc(hidden)]
#[macro_export]
macro_rules! flow_conformance_module {
    ([boxed]; $module:ident; $($rule:ident),* $(,)?) => {
        pub mod $module {
            use $crate::flow_conformance::{FlowBench, $module};
            $(
                pub fn $rule(bench: &FlowBench) -> $crate::rules::RuleFuture<'_> {
                    Box::pin($module::$rule(bench))
                }
            )*
        }
    };
    ([$($fixture:tt)*]; $module:ident; $($rule:ident),* $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "a fixture may be named by its full path")]
            use super::*;

            fn hold_to(rule: $crate::flow_conformance::FlowRule) {
                $crate::rules::block_on(async {
                    let fixture = Box::new($($fixture)*);
                    $crate::flow_conformance::hold_to(fixture, rule).await;
                });
            }

            $(
                #[test]
                fn $rule() {
                    hold_to($crate::flow_conformance::boxed::$module::$rule);
                }
            )*
        }
    };
}
