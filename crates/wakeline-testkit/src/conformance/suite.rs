//! The list of rules, which becomes one test of each.

/// Makes a test of every rule. The expression makes a new
/// [`StoreUnderTest`](crate::conformance::StoreUnderTest); it may await, and it can use what is in
/// scope where the macro is called.
#[macro_export]
macro_rules! conformance_suite {
    ($($fixture:tt)*) => {
        $crate::conformance_module!([$($fixture)*]; push;
            messages_keep_their_ids_and_their_order,
            offsets_have_no_gaps_and_begin_at_zero,
            one_call_may_push_to_many_queues_and_partitions,
            an_empty_push_is_answered_with_nothing,
            created_at_never_runs_backwards_within_a_partition,
            a_message_keeps_trace_producer_and_payload,
        );
        $crate::conformance_module!([$($fixture)*]; dedup;
            a_repeated_push_stores_nothing_and_answers_the_first_id,
            a_repetition_within_one_call_stores_one_message,
            a_call_that_repeats_some_stores_the_others,
            transaction_ids_count_per_partition,
            an_id_is_free_again_once_its_window_has_passed,
            repeating_does_not_prolong_the_window,
            a_consumed_message_is_still_recognised,
            repetitions_are_found_behind_many_messages,
            a_transaction_recognises_repetitions,
        );
        $crate::conformance_module!([$($fixture)*]; pop;
            a_queue_is_read_with_all_its_partitions_and_no_other,
            a_partition_is_read_alone,
            namespace_and_task_select_queues,
            without_namespace_and_task_all_queues_are_read,
            an_unknown_queue_gives_nothing,
            a_batch_is_as_large_as_requested_and_available,
            a_batch_spans_pushes, a_pop_stops_once_it_has_enough_bytes,
            the_first_message_comes_whatever_its_size,
            bytes_count_over_all_partitions_of_a_request, bytes_of_parked_messages_count,
            a_batch_is_of_one_partition_by_default,
            several_partitions_come_under_one_lease,
            the_batch_caps_all_partitions_together,
            auto_ack_moves_on_without_a_lease,
            a_lease_lasts_as_long_as_its_queue_says,
        );
        $crate::conformance_module!([$($fixture)*]; claim;
            requests_of_one_claim_get_different_partitions,
            requests_are_served_in_order_of_arrival,
            a_partition_is_never_split_over_two_requests,
            auto_ack_does_not_split_a_partition_either,
            a_claim_that_looks_further_says_what_is_next_though_all_were_served,
            several_lines_are_served_by_one_claim,
            overlapping_lines_share_without_doubling,
            a_leased_partition_gives_nothing_to_others,
            a_claim_repeated_with_its_token_takes_nothing_new,
        );
        $crate::conformance_module!([$($fixture)*]; order;
            queues_of_higher_priority_go_first,
            partitions_of_higher_priority_go_first,
            queues_come_before_partitions,
            a_changed_priority_of_a_partition_takes_effect_at_once,
            the_oldest_due_partition_goes_first,
            a_busy_partition_does_not_starve_the_others,
            auto_ack_does_not_starve_the_others,
            first_deliveries_are_in_order,
        );
        $crate::conformance_module!([$($fixture)*]; subscribe;
            two_groups_each_see_a_message_once,
            groups_do_not_disturb_each_other,
            all_begins_at_the_oldest_message,
            new_begins_after_the_first_poll,
            new_counts_from_a_poll_before_the_queue_exists,
            new_counts_from_a_poll_before_the_partition_exists,
            a_filter_subscribes_to_queues_that_come_later,
            from_begins_at_its_moment_inclusively,
            from_counts_from_a_poll_before_the_queue_exists,
            from_a_future_moment_is_refused,
            later_subscriptions_change_nothing,
            queue_mode_is_always_all,
            a_partition_that_comes_later_is_read_from_its_beginning,
        );
        $crate::conformance_module!([$($fixture)*]; settle;
            messages_are_settled_in_any_order,
            the_rest_stays_under_the_lease,
            settling_twice_is_refused,
            settling_twice_in_one_call_counts_once,
            settling_an_unknown_id_is_not_found,
            every_settlement_has_its_own_outcome,
            each_partition_of_a_lease_ends_by_itself,
            recurring_ids_settle_the_lowest_offset_first,
            a_settlement_is_for_its_group_only,
            an_empty_settlement_is_answered_with_nothing,
        );
        $crate::conformance_module!([$($fixture)*]; retry;
            a_failed_message_comes_again,
            a_queue_without_options_waits_longer_before_each_retry,
            attempts_are_counted_per_message,
            a_retried_message_is_not_counted,
            a_message_may_be_given_up_at_once,
            the_limit_is_exact,
            exponential_backoff_doubles_up_to_its_cap,
            fixed_backoff_stays_the_same,
            jitter_spreads_retries,
            strict_order_holds_the_partition,
            relaxed_order_lets_later_messages_pass,
            relaxed_retries_come_as_they_are_due,
            strict_retries_come_in_order_of_offset,
            without_dead_letters_given_up_messages_are_dropped,
        );
        $crate::conformance_module!([$($fixture)*]; dead;
            a_dead_letter_has_all_details, a_dead_letter_keeps_the_last_error,
            a_message_shows_the_last_error_of_each_group, dead_letters_are_listed_newest_first,
            dead_letters_outlive_their_group_but_not_their_queue,
            dead_letters_are_found_by_what_is_known_of_them, purged_dead_letters_are_gone,);
        $crate::conformance_module!([$($fixture)*]; redrive;
            a_redriven_message_returns_to_its_group,
            a_redrive_notifies_its_group,
            a_redriven_message_waits_for_the_lease,
            what_is_ahead_of_its_group_is_not_doubled,
            a_redrive_keeps_its_rate,
            a_redrive_ends_where_it_began,
            a_cancelled_redrive_goes_no_further,
            dead_letters_of_a_forgotten_group_stay,
            dead_letters_are_moved_to_another_queue,
            what_is_moved_is_not_taken_for_a_repetition,
            a_redrive_keeps_to_its_filter,
            dead_letters_of_messages_that_are_gone_stay,
        );
        $crate::conformance_module!([$($fixture)*]; expiry;
            a_lease_ends_at_its_end,
            expiry_counts_what_was_not_settled,
            an_expired_batch_is_redelivered_one_by_one,
            redelivering_one_by_one_is_per_partition,
            a_message_redelivered_alone_stays_alone,
            an_expired_batch_makes_no_dead_letter,
            a_single_message_that_expires_beyond_the_limit_is_given_up,
            the_last_unsettled_message_of_a_batch_counts_as_single,
            without_dead_letters_an_expired_message_is_dropped,
            a_poison_message_takes_only_itself,
            an_expired_message_is_available_at_once,
        );
        $crate::conformance_module!([$($fixture)*]; lease;
            an_extension_moves_the_end,
            an_extension_never_shortens,
            an_extension_names_what_was_lost,
            an_expired_lease_can_do_nothing,
            a_stale_token_can_not_touch_what_another_holds,
            settling_without_a_lease_is_refused,
            lenient_fencing_settles_under_the_live_lease,
            a_release_is_not_counted_and_keeps_the_order,
            a_release_gives_back_only_what_is_unsettled,
            a_release_keeps_earlier_failures,
            several_leases_are_released_at_once,
        );
        $crate::conformance_module!([$($fixture)*]; transact;
            a_transaction_pushes_and_settles,
            a_refused_settlement_undoes_everything,
            a_transaction_can_not_settle_a_message_twice,
            a_duplicate_push_does_not_refuse_a_transaction,
            a_transaction_spans_leases_and_groups,
            an_empty_transaction_commits,
        );
        $crate::conformance_module!([$($fixture)*]; schedule;
            a_scheduled_message_comes_when_it_is_due,
            a_message_is_scheduled_for_a_moment,
            messages_are_ordered_by_when_they_are_due,
            nothing_waits_for_a_scheduled_message,
            a_scheduled_id_is_known,
            a_known_id_is_not_scheduled,
            a_transaction_recognises_what_it_schedules,
            a_transaction_pushes_before_what_it_schedules,
            a_refused_transaction_schedules_nothing,
            scheduling_reports_when_the_message_is_due,
            every_group_gets_a_scheduled_message,
            a_filter_sees_what_is_scheduled,
            a_scheduled_message_is_delayed_from_its_time,
            a_scheduled_message_waits_behind_a_retry,
            a_message_becomes_due_under_a_lease,
            a_scheduled_message_keeps_what_it_carries,
            many_messages_become_due_at_once,
            a_deleted_queue_forgets_its_schedule,
            a_deleted_partition_forgets_its_schedule,
            racing_claims_move_a_message_once,
        );
        $crate::conformance_module!([$($fixture)*]; timers;
            a_cancelled_timer_never_comes,
            a_timer_that_is_due_can_not_be_cancelled,
            a_timer_is_replaced_by_its_key,
            a_known_id_does_not_replace_a_timer,
            a_key_is_free_once_its_timer_is_due,
            keys_count_per_queue,
            a_transaction_names_a_timer_once,
            what_is_scheduled_is_listed,
            a_timer_is_delivered_or_cancelled,
            racing_timers_of_a_key_leave_one,
        );
        $crate::conformance_module!([$($fixture)*]; configure;
            a_queue_is_made_by_configuring_it, a_queue_is_made_by_pushing_to_it,
            configuring_replaces_all_options, namespace_and_task_stay_if_omitted,
            a_patch_changes_only_what_it_names, a_patch_makes_no_queue,
            patches_at_once_lose_nothing, patches_that_make_a_queue_lose_nothing,
            a_shortened_delay_takes_effect_at_once, a_lengthened_delay_takes_effect_at_once,
            a_removed_window_takes_effect_at_once, a_relaxed_order_takes_effect_at_once,
            a_changed_limit_takes_effect_at_once, leases_that_are_out_keep_their_end,
            a_deleted_queue_is_forgotten, deleting_an_unknown_queue_is_reported,);
        $crate::conformance_module!([$($fixture)*]; due;
            a_delayed_message_comes_when_it_is_due,
            a_retry_is_not_delayed_again,
            a_window_waits_for_quiet,
            a_steady_producer_is_held_back_ten_windows_at_most,
            the_end_of_ten_windows_is_the_next_due_time,
            a_window_does_not_hold_back_retries,
            the_next_due_time_is_exact_for_each_source,
            the_next_due_time_is_the_earliest_of_the_line,
            the_next_due_time_follows_the_order,
            a_sweep_agrees_with_claims,
            a_sweep_changes_nothing,
            a_sweep_finds_work_for_a_group_that_has_not_begun,
        );
        $crate::conformance_module!([$($fixture)*]; hints;
            a_push_notifies_every_line_of_its_message,
            a_push_notifies_every_queue_and_partition,
            a_push_reports_when_its_message_is_due,
            the_end_of_a_lease_reports_the_messages_behind_it,
            the_end_of_a_lease_reports_messages_pushed_meanwhile,
            a_failure_reports_when_its_retry_is_due,
            a_release_notifies_at_once,
            a_transaction_reports_pushes_and_settlements,
            a_seek_notifies_its_group,
            deleting_a_group_notifies_its_waiters,
        );
        $crate::conformance_module!([$($fixture)*]; seek;
            a_group_is_moved_to_a_moment,
            a_group_is_moved_in_a_queue_or_a_partition,
            what_is_not_there_is_not_moved,
            a_future_moment_is_not_sought,
            a_seek_lets_go_of_leases_and_parked_messages,
            a_seek_of_a_queue_changes_the_subscription,
            a_group_reports_how_far_it_is_behind,
            partitions_of_groups_are_listed_in_pages,
            lagging_partitions_are_found_by_age,
        );
        $crate::conformance_module!([$($fixture)*]; limits;
            a_message_past_its_ttl_is_not_delivered,
            what_is_leased_may_be_settled_past_its_ttl,
            a_parked_message_holds_its_partition_until_its_ttl,
            a_changed_ttl_takes_effect_at_once,
            a_message_that_waits_too_long_is_evicted_for_its_group,
            a_wait_begins_when_a_message_is_available,
            a_message_is_lost_once_and_to_the_first_limit,
            housekeeping_passes_over_for_groups_that_do_not_poll,
            retention_removes_what_every_group_has_settled,
            without_a_group_nothing_is_completed,
            retention_keeps_what_is_parked,
            retention_by_age_removes_unread_messages,
            retention_leaves_what_is_leased,
            retention_keeps_what_has_to_be_recognised,
            dead_letters_outlive_retention,
            groups_begin_with_what_is_stored,
            housekeeping_goes_by_pieces,
        );
        $crate::conformance_module!([$($fixture)*]; stats;
            a_slot_that_is_written_again_counts_once, nodes_add_up, points_are_of_whole_steps,
            old_statistics_are_removed, housekeeping_removes_old_statistics,
            lags_use_the_stores_clock,
            node_statistics_are_summed_over_time,);
        $crate::conformance_module!([$($fixture)*]; counts;
            messages_are_counted_by_state, a_message_ahead_of_a_group_counts_as_pending,
            the_group_that_is_furthest_behind_decides, depth_is_what_a_group_has_yet_to_settle,
            counts_are_listed_in_pages, drops_are_counted, errors_of_dead_letters_are_counted,);
        $crate::conformance_module!([$($fixture)*]; maintenance;
            setting_maintenance_returns_the_state_before_and_after,
            held_pushes_come_in_order_after_the_end,
            a_queue_that_is_made_meanwhile_is_held_back,
            transaction_ids_count_across_a_maintenance, what_is_due_is_held_back_too,
            a_transaction_settles_and_its_pushes_are_held_back, refused_pushes_leave_nothing,
            redrives_are_held_back_where_producers_are_refused,
            what_was_held_back_is_released_in_pieces,
            paused_claims_get_nothing_and_leases_live_on, a_group_begins_during_a_pause,
            a_claim_that_is_repeated_in_a_pause_finds_its_lease,
            order_holds_while_pushes_race_with_switches,);
        $crate::conformance_module!([$($fixture)*]; capacity;
            without_a_group_everything_counts,
            what_is_not_settled_counts,
            the_group_that_is_furthest_behind_counts,
            what_is_scheduled_counts,
            limits_and_lanes_are_returned,
        );
        $crate::conformance_module!([$($fixture)*]; idle;
            an_idle_group_counts_against_no_limit,
            an_idle_group_holds_no_completed_message_back,
            a_poll_ends_idleness_and_the_group_continues,
            a_group_that_has_worked_may_pause_longer,
            a_waiter_that_is_swept_keeps_its_group_from_being_idle,
            an_empty_claim_keeps_its_group_from_being_idle,
            where_every_group_is_idle_all_of_them_count,
            the_first_group_that_comes_back_takes_nothing_from_the_others,
            an_idle_group_keeps_what_it_has_leased,
            another_time_counts_from_the_change_on,
        );
        $crate::conformance_module!([$($fixture)*]; messages;
            a_cleared_queue_is_empty, a_cleared_partition_is_empty, a_deleted_partition_is_gone,
            partitions_are_listed, a_waiting_message_is_retried_at_once,
            a_settled_message_is_delivered_again, a_message_is_given_up_manually,
            a_leased_message_is_left_alone, interventions_report_what_they_cannot_find,
            messages_are_browsed_newest_first, messages_are_found_by_their_state,
            browsing_examines_a_bounded_number_of_messages,);
        $crate::conformance_records!($($fixture)*);
        $crate::conformance_module!([$($fixture)*]; inspect;
            a_message_shows_its_state, a_message_is_found_by_partition_and_id,
            a_group_reports_its_lag, an_expired_lease_is_not_counted,
            groups_are_listed_by_name_and_queue, a_deleted_group_begins_again,
            a_deleted_group_forgets_its_subscription,);
        $crate::conformance_module!([$($fixture)*]; concurrent;
            racing_claims_share_what_is_there,
            a_partition_has_one_holder_in_a_race,
            deletions_race_with_consumers,
            racing_pushes_leave_no_gap,
            racing_repetitions_store_one_message,
            racing_settlements_count_once,
            a_group_that_begins_during_pushes_misses_no_partition,
        );
        $crate::conformance_module!([$($fixture)*]; neighbours;
            a_wrong_line_is_refused_alone, a_wrong_claim_leaves_its_neighbours_untouched,
            a_wrong_push_leaves_its_neighbours_untouched,
            a_wrong_settlement_leaves_its_neighbours_untouched,);
        $crate::conformance_module!([$($fixture)*]; payload;
            payloads_come_back_identical, large_payloads_come_back_identical,
            odd_names_are_kept_apart, odd_queue_names_are_kept_apart,);
    };
}
