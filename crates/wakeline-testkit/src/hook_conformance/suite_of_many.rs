//! The part of the list of rules that concerns many concurrent callers or many endpoints.

/// Makes a test of these rules, as a part of `hook_conformance_suite!`.
#[doc(hidden)]
#[macro_export]
macro_rules! hook_conformance_of_many {
    ($($fixture:tt)*) => {
        $crate::hook_conformance_module!([$($fixture)*]; fan_out;
            a_message_for_very_many_endpoints_reaches_each_once,
            strict_order_holds_while_deliveries_are_still_to_be_made,
            what_is_cancelled_or_deleted_is_not_fanned_out_further,
        );
        $crate::hook_conformance_module!([$($fixture)*]; neighbours;
            a_wrong_message_leaves_its_neighbours_untouched,
            a_wrong_end_leaves_its_neighbours_untouched,
        );
        $crate::hook_conformance_module!([$($fixture)*]; concurrent;
            racing_claims_share_the_deliveries,
            a_message_that_races_with_a_claim_is_not_lost,
            a_message_that_races_with_a_cancel_is_not_lost,
            a_message_that_races_with_an_end_is_not_lost,
            the_cap_holds_in_a_race,
            the_rate_holds_in_a_race,
            an_endpoint_in_order_has_one_holder_in_a_race,
            racing_ends_of_one_attempt_count_once,
            racing_messages_of_one_key_are_stored_once,
            racing_messages_of_one_event_are_stored_once,
            racing_applications_of_one_own_id_are_made_once,
            racing_first_messages_make_one_application,
            racing_background_workers_do_a_job_once,
            crosswise_ends_do_not_block_each_other,
        );
    };
}
