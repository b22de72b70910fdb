//! The list of rules: a test of each.

/// Makes a test of every rule. The expression makes a fresh
/// [`HookUnderTest`](crate::hook_conformance::HookUnderTest); it may await, and it sees what is in
/// scope where the macro stands. The modules that it makes have the names of those of
/// `conformance_suite!`, so each stands in a module of its own.
#[macro_export]
macro_rules! hook_conformance_suite {
    ($fixture:expr) => {
        $crate::hook_conformance_module!($fixture; applications;
            an_application_is_found_by_either_id,
            a_taken_own_id_is_answered_with_what_has_it,
            applications_without_own_ids_do_not_meet,
            a_creation_repeated_with_its_id_makes_nothing,
            an_update_replaces_an_application,
            an_update_may_keep_the_own_id,
            an_update_to_a_taken_own_id_changes_nothing,
            an_unknown_application_is_missing,
            applications_are_listed_by_age,
            reserved_applications_are_left_out,
            a_deleted_application_is_gone_with_all_its_own,
            the_own_id_of_a_deleted_application_is_free,
            deleting_an_application_leaves_others_alone,
        );
        $crate::hook_conformance_module!($fixture; keys;
            a_creation_repeated_with_its_key_makes_nothing,
            a_repeated_creation_is_answered_as_it_is_now,
            a_key_with_another_print_is_refused,
            a_key_is_forgotten_after_twelve_hours,
            a_key_of_something_gone_counts_as_new,
            keys_of_different_kinds_do_not_meet,
            keys_of_different_applications_do_not_meet,
            the_key_is_looked_at_before_the_own_id,
            a_refused_creation_is_not_remembered,
            a_message_repeated_with_its_key_is_stored_once,
            a_message_with_a_reused_key_is_refused,
            a_repeated_event_type_tells_nobody,
        );
        $crate::hook_conformance_module!($fixture; event_types;
            an_event_type_is_created_once,
            putting_replaces_all_but_the_birth,
            archived_types_are_listed_on_request,
            event_types_are_listed_by_name,
            a_deleted_event_type_is_gone,
            a_message_needs_no_known_type,
        );
        $crate::hook_conformance_module!($fixture; endpoints;
            an_endpoint_is_found_by_either_id,
            an_endpoint_comes_back_as_it_was_made,
            an_endpoint_may_be_made_disabled,
            own_ids_of_endpoints_count_within_their_application,
            an_endpoint_repeated_with_its_id_makes_nothing,
            an_endpoint_needs_its_application,
            an_update_changes_only_what_it_names,
            an_update_may_change_everything,
            an_endpoint_cannot_take_anothers_own_id,
            changed_filters_are_for_new_messages,
            endpoints_are_listed_by_age,
            a_deleted_endpoint_is_gone_for_everybody,
            deleting_an_endpoint_cancels_what_waits,
            an_attempt_at_a_deleted_endpoint_reaches_the_log,
            deliveries_of_a_deleted_endpoint_stay_readable,
            a_new_endpoint_gets_only_what_comes,
            changed_options_count_at_once,
            a_disabled_endpoint_waits_until_it_is_switched_on,
            switching_off_again_leaves_the_reason,
        );
        $crate::hook_conformance_module!($fixture; secrets;
            a_new_endpoint_has_one_secret_without_an_end,
            a_rotated_secret_signs_until_its_grace_is_over,
            a_rotation_without_grace_ends_the_old_secret,
            secrets_come_youngest_first,
            too_many_old_secrets_are_refused,
            expired_secrets_make_room,
            rotating_nothing_is_missing,
            a_claim_brings_the_secrets_that_sign,
        );
        $crate::hook_conformance_module!($fixture; messages;
            a_message_makes_a_delivery_per_endpoint,
            endpoints_get_the_types_they_want,
            patterns_are_taken_literally,
            channels_must_meet,
            types_and_channels_must_both_fit,
            disabled_endpoints_get_no_new_messages,
            only_reaches_its_endpoint_whatever_its_filters,
            only_reaches_a_disabled_endpoint_and_waits,
            an_unknown_only_gives_no_delivery,
            an_event_id_is_unique_within_its_application,
            a_message_is_found_by_either_id,
            a_message_for_nobody_is_stored,
            a_message_of_no_application_is_refused,
            an_application_is_made_with_its_first_message,
            a_taken_own_id_names_the_application_of_a_message,
            a_message_repeated_with_its_id_is_stored_once,
            payloads_come_back_identical,
            a_delivery_tells_all_about_its_message,
        );
        $crate::hook_conformance_module!($fixture; born;
            a_new_delivery_is_leased_to_an_ask_that_comes_along,
            an_ask_gets_deliveries_of_several_endpoints,
            no_more_than_the_asks_attempts_are_born_leased,
            nothing_is_born_leased_past_one_that_waits,
            an_endpoint_in_order_gives_nothing_while_one_is_under_way,
            pulled_deliveries_are_never_born_leased,
            an_endpoint_that_is_held_back_gives_nothing,
            a_throttled_endpoint_gives_nothing_born_leased,
            attempts_for_first_ones_take_what_is_born,
            a_repeated_message_leases_nothing,
            a_lease_that_is_born_expires,
            attempts_that_are_born_count_for_the_rate,
        );
        $crate::hook_conformance_module!($fixture; claim;
            push_and_pull_do_not_mix,
            deliveries_are_taken_by_their_time,
            deliveries_of_one_moment_are_taken_in_order,
            endpoints_that_became_due_first_come_first,
            an_endpoint_gets_its_fair_share,
            a_share_that_is_not_used_is_for_the_others,
            what_an_endpoint_was_not_given_stays_due,
            an_endpoint_with_much_waiting_does_not_hold_up_another,
            no_more_than_the_cap_are_under_way,
            expired_leases_make_room,
            asks_are_served_in_their_order,
            a_claim_without_asks_takes_nothing,
            lines_of_one_claim_are_served_each,
            a_lease_lasts_as_the_ask_or_the_endpoint_says,
            leases_have_the_ids_of_the_ask,
            a_claim_repeated_with_its_ids_returns_the_same,
            a_claim_repeated_with_more_ids_fills_them,
            an_expired_payload_comes_as_none,
            a_target_is_the_endpoint_as_it_is,
            fetching_keeps_the_limits,
        );
        $crate::hook_conformance_module!($fixture; fresh;
            retries_leave_attempts_for_first_ones,
            first_attempts_use_the_attempts_for_them_last,
            first_attempts_are_found_behind_many_retries,
            attempts_for_first_ones_are_not_told_of_retries,
            a_released_first_attempt_is_first_again,
            an_expired_first_attempt_is_not_first_again,
            a_manual_attempt_is_not_a_first_one,
            an_endpoint_in_order_is_not_overtaken_by_first_attempts,
            each_ask_keeps_its_own_attempts,
        );
        $crate::hook_conformance_module!($fixture; due;
            an_empty_line_has_nothing_in_sight,
            a_retry_is_in_sight,
            the_end_of_a_lease_is_in_sight,
            the_end_of_a_throttle_is_in_sight,
            the_end_of_a_pause_is_in_sight,
            the_rate_is_in_sight,
            the_latest_obstacle_decides,
            the_first_endpoint_decides,
            each_line_has_its_own_time,
            a_sweep_takes_nothing,
            a_disabled_endpoint_is_not_in_sight,
            a_full_endpoint_is_not_due,
            a_partly_filled_claim_tells_when_there_is_more,
        );
        $crate::hook_conformance_module!($fixture; lease;
            an_expired_lease_is_logged_as_unknown,
            an_expired_delivery_is_due_with_its_attempt_counted,
            an_expired_delivery_is_due_since_its_lease_ended,
            an_expired_last_attempt_fails_the_delivery,
            first_attempts_are_a_line_with_times_of_its_own,
            an_empty_schedule_is_one_attempt,
            an_expired_lease_is_no_failure,
            an_expired_lease_cannot_settle,
            a_lease_counts_until_its_end,
            an_extension_moves_the_end,
            an_expired_lease_cannot_be_extended,
            a_release_is_as_if_the_claim_had_not_been,
            a_released_retry_keeps_number_and_time,
            a_stale_release_is_passed_over,
            a_released_lease_cannot_settle,
            tokens_are_not_exchanged,
            a_release_does_not_give_the_rate_back,
            a_leased_delivery_is_in_flight,
        );
        $crate::hook_conformance_module!($fixture; settle;
            an_attempt_is_logged_as_it_was_told,
            a_delivered_delivery_is_done,
            a_retry_is_due_at_its_time,
            a_failed_delivery_is_over,
            several_ends_have_answers_of_their_own,
            an_attempt_ends_once,
            a_stale_end_changes_nothing,
            an_endpoint_that_is_gone_is_disabled,
            a_disabled_endpoint_is_not_disabled_again,
            failing_since_is_the_first_failure,
            failing_for_too_long_disables,
            a_success_starts_the_time_anew,
            switching_on_forgets_the_failures,
            what_says_nothing_does_not_disable,
        );
        $crate::hook_conformance_module!($fixture; announce;
            announcements_are_stored_with_the_end,
            a_stale_end_announces_nothing,
            announcements_of_nobody_are_dropped,
            a_farewell_goes_out_with_the_disabling_end,
            an_announcement_is_stored_once,
            the_end_of_a_cancelled_delivery_announces,
        );
        $crate::hook_conformance_module!($fixture; manual;
            a_resend_is_one_attempt_now,
            a_failed_manual_attempt_leaves_a_failed_delivery_failed,
            a_failed_manual_attempt_leaves_a_delivered_delivery_delivered,
            a_failed_manual_attempt_does_not_touch_the_schedule,
            a_manual_attempt_may_begin_a_retry,
            a_successful_manual_attempt_ends_the_delivery,
            an_expired_manual_attempt_goes_back,
            a_released_manual_attempt_stays_manual,
            resending_twice_is_one_attempt,
            a_cancelled_delivery_can_be_resent,
            a_delivery_under_way_cannot_be_resent,
            a_message_without_its_payload_cannot_be_resent,
            a_resend_needs_its_endpoint,
            a_resend_needs_a_delivery,
            manual_attempts_come_after_all_others,
            a_retry_can_be_brought_forward,
            a_resend_may_use_own_ids,
        );
        $crate::hook_conformance_module!($fixture; rate;
            a_rate_allows_one_seconds_worth_at_once,
            a_rate_goes_on_by_its_interval,
            an_idle_rate_saves_no_more_than_a_second,
            a_rate_of_one_is_one_a_second,
            the_rate_counts_no_attempt,
            a_rate_is_its_endpoints_own,
            every_attempt_counts_for_the_rate,
            a_group_is_one_for_the_rate,
            fetching_keeps_the_rate,
            a_throttled_endpoint_gets_nothing,
            a_later_end_of_a_throttle_wins,
            a_throttle_is_its_endpoints_own,
            what_holds_back_survives_a_restart,
        );
        $crate::hook_conformance_module!($fixture; breaker;
            failures_in_a_row_open_it,
            a_success_starts_the_count_anew,
            what_says_nothing_counts_as_nothing,
            an_open_breaker_gives_nothing_for_its_time,
            a_half_open_breaker_lets_probes_through,
            successful_probes_close_it,
            a_closed_breaker_counts_from_zero,
            a_failed_probe_opens_it_again,
            probes_must_succeed_in_a_row,
            ends_while_open_change_nothing,
            failures_while_open_do_not_disable,
            attempts_from_before_count_as_under_way,
            an_endpoint_without_a_breaker_is_never_paused,
            an_open_breaker_counts_no_attempt,
            a_breaker_is_its_endpoints_own,
            switching_on_closes_the_breaker,
            a_failed_delivery_counts_for_the_breaker,
            a_pause_survives_a_restart,
        );
        $crate::hook_conformance_module!($fixture; fifo;
            deliveries_go_one_at_a_time_in_order,
            a_head_that_waits_blocks_the_others,
            a_head_that_failed_lets_the_next_go,
            a_head_that_was_cancelled_lets_the_next_go,
            an_expired_head_comes_again_first,
            an_expired_head_that_failed_makes_way,
            a_batch_is_one_group,
            each_of_a_group_has_its_own_lease,
            too_few_ids_make_a_smaller_group,
            a_group_ends_before_what_is_not_due,
            a_released_group_comes_again,
            an_expired_group_comes_again,
            a_group_claimed_again_is_the_same,
            a_group_is_one_against_the_share,
            a_resent_delivery_has_its_place,
            the_order_is_that_of_the_commits,
            fetching_keeps_the_order,
            endpoints_in_order_do_not_wait_for_each_other,
        );
        $crate::hook_conformance_module!($fixture; cancel;
            what_waits_is_cancelled,
            one_or_all_endpoints_are_cancelled,
            what_is_under_way_is_cancelled_when_it_ends,
            cancelling_the_head_lets_the_next_go_and_tells,
            a_cancelled_attempt_may_expire,
            a_cancelled_attempt_may_be_released,
            what_has_ended_is_not_cancelled,
            an_unknown_message_cannot_be_cancelled,
        );
        $crate::hook_conformance_module!($fixture; jobs;
            recovering_begins_the_schedule_anew,
            recovering_changes_only_what_failed,
            recovered_deliveries_come_behind_everything_else,
            retries_of_recovered_deliveries_have_their_time,
            a_job_may_be_about_one_endpoint,
            a_job_may_be_about_types_and_times,
            a_job_is_about_its_application,
            replaying_makes_what_is_missing,
            resending_in_bulk_is_one_manual_attempt_each,
            cancelling_in_bulk_ends_what_waits,
            what_waits_for_a_disabled_endpoint_can_be_cancelled,
            a_job_passes_over_what_it_cannot_change,
            a_job_goes_on_in_pieces_over_restarts,
            a_job_looks_at_a_delivery_once,
            the_oldest_job_goes_first,
            a_job_tells_how_it_stands,
            a_job_is_made_once,
            a_job_and_its_pieces_tell,
        );
        $crate::hook_conformance_module!($fixture; chores;
            a_payload_goes_at_its_time,
            the_next_expiry_is_in_sight,
            payloads_go_in_pieces,
            idle_chores_do_nothing,
            a_payload_can_be_expunged,
            an_answer_can_be_expunged,
            what_a_deleted_application_left_goes_in_pieces,
            jobs_come_before_what_expires,
            finished_jobs_are_kept_for_seven_days,
            expiry_leaves_other_messages_alone,
        );
        $crate::hook_conformance_module!($fixture; read;
            messages_are_listed_page_by_page,
            pages_go_backwards,
            a_page_that_is_just_full_is_done,
            messages_are_listed_by_type_channel_and_time,
            messages_are_listed_by_endpoint,
            filters_hold_on_every_page,
            content_comes_on_request,
            lists_are_of_one_application,
            deliveries_are_listed_by_endpoint,
            deliveries_to_one_endpoint_come_in_order,
            stats_count_how_deliveries_stand,
            attempts_are_listed_by_outcome,
            attempts_are_listed_by_status,
            attempts_are_listed_by_what_they_are_of,
            attempts_are_listed_by_time,
            attempts_are_listed_page_by_page,
            an_attempt_reads_the_same_alone,
        );
        $crate::hook_conformance_module!($fixture; hints;
            a_message_tells_the_lines_of_its_endpoints,
            a_message_that_is_leased_tells_of_the_rest,
            a_retry_tells_its_time,
            an_end_that_makes_room_tells,
            the_end_of_a_head_tells_of_the_next,
            a_breaker_that_closes_tells,
            a_release_tells,
            switching_on_tells,
            raising_a_limit_tells,
            a_resend_tells,
            deleting_an_application_tells,
            what_is_held_back_is_told_for_its_end,
        );
        $crate::hook_conformance_module!($fixture; concurrent;
            racing_claims_share_the_deliveries,
            a_message_that_races_with_a_claim_is_not_lost,
            a_message_that_races_with_an_end_is_not_lost,
            the_cap_holds_in_a_race,
            the_rate_holds_in_a_race,
            an_endpoint_in_order_has_one_holder_in_a_race,
            racing_ends_of_one_attempt_count_once,
            racing_messages_of_one_key_are_stored_once,
            racing_messages_of_one_event_are_stored_once,
            racing_applications_of_one_own_id_are_made_once,
            racing_first_messages_make_one_application,
            racing_chores_do_a_job_once,
            crosswise_ends_do_not_block_each_other,
        );
    };
}

/// Makes tests of the rules of one module.
#[doc(hidden)]
#[macro_export]
macro_rules! hook_conformance_module {
    ($fixture:expr; $module:ident; $($rule:ident),* $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "a fixture may be named by its full path")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $rule() {
                    let fixture = $fixture;
                    let rule = $crate::hook_conformance::$module::$rule;
                    $crate::hook_conformance::hold_to(fixture, rule).await;
                }
            )*
        }
    };
}
