//! The SQL files that are part of the binary. A test fails if one of the folders' is missing here.

/// One SQL file, with `@schema@` and `@channel@` to be filled in.
pub(crate) struct SqlFile {
    /// Its name without `.sql`.
    pub(crate) name: &'static str,
    /// Its text.
    pub(crate) text: &'static str,
}

macro_rules! sql_files {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(SqlFile {
            name: $name,
            text: include_str!(concat!("../sql/", $folder, "/", $name, ".sql")),
        }),*]
    };
}

/// Tables, indexes and views, in order.
pub(crate) const MIGRATIONS: &[SqlFile] = sql_files!["migrations":
    "0001_queue",
    "0002_nodes",
    "0003_incoming",
    "0004_flow",
    "0005_hook",
    "0006_incoming_emits",
    "0007_queue_options",
    "0008_encryption",
    "0009_redrives",
    "0010_housekeeping",
    "0011_views",
    "0012_access",
];

/// Functions, in any order: one per file, of the file's name.
pub(crate) const FUNCTIONS: &[SqlFile] = sql_files!["functions":
    "ack",
    "claim",
    "claim_line",
    "claim_lines",
    "claim_next_due",
    "claim_scope",
    "clock",
    "cursor_await",
    "cursor_due",
    "cursor_pass",
    "cursor_lag",
    "cursor_take",
    "cursor_wake",
    "dedup_check",
    "emit",
    "extend",
    "flow_abandon",
    "flow_born",
    "flow_capabilities_of",
    "flow_claim_line",
    "flow_claim_turns",
    "flow_claim_work",
    "flow_claim_work_line",
    "flow_commit",
    "flow_commit_check",
    "flow_commit_clean",
    "flow_commit_kv",
    "flow_commit_plain",
    "flow_commit_unwork",
    "flow_commit_write",
    "flow_complete",
    "flow_complete_plain",
    "flow_delete",
    "flow_delete_matching",
    "flow_doomed",
    "flow_enqueue",
    "flow_enqueue_work",
    "flow_erase",
    "flow_fresh",
    "flow_grant",
    "flow_hints",
    "flow_kv_merge",
    "flow_lock",
    "flow_names",
    "flow_pick",
    "flow_pick_all",
    "flow_prune",
    "flow_put",
    "flow_renew",
    "flow_resume",
    "flow_save",
    "flow_session_take",
    "flow_sessions_keep",
    "flow_start",
    "flow_suspend",
    "flow_sweep",
    "flow_tags_of",
    "flow_terminate",
    "flow_tree",
    "flow_turns",
    "flow_turns_due",
    "flow_watch",
    "flow_work_add",
    "flow_work_again",
    "flow_work_later",
    "flow_work_ready",
    "flow_work_remove",
    "flow_works",
    "group_begin",
    "group_delete",
    "group_due",
    "group_seek",
    "hook_again",
    "hook_application_create",
    "hook_application_delete",
    "hook_application_find",
    "hook_application_update",
    "hook_cancel",
    "hook_chores",
    "hook_chores_due",
    "hook_claim",
    "hook_claim_line",
    "hook_delivery_state",
    "hook_emit",
    "hook_emit_check",
    "hook_emit_leases",
    "hook_emit_wake",
    "hook_endpoint_create",
    "hook_endpoint_delete",
    "hook_endpoint_find",
    "hook_endpoint_update",
    "hook_endpoint_wake",
    "hook_event_type_put",
    "hook_extend",
    "hook_first_due",
    "hook_gate",
    "hook_give_up",
    "hook_hold",
    "hook_job_ahead",
    "hook_job_from",
    "hook_job_go",
    "hook_job_start",
    "hook_judge",
    "hook_key",
    "hook_key_set",
    "hook_leftovers",
    "hook_message_find",
    "hook_message_name",
    "hook_most",
    "hook_next_due",
    "hook_pick",
    "hook_rate_after",
    "hook_reclaim",
    "hook_release",
    "hook_replay",
    "hook_resend",
    "hook_rest",
    "hook_room",
    "hook_secret_rotate",
    "hook_seen_due",
    "hook_sendable",
    "hook_set_aside",
    "hook_settle",
    "hook_sweep",
    "hook_until",
    "hook_wake",
    "housekeep",
    "incoming_waits",
    "lease_end",
    "lease_expire",
    "lease_find",
    "lease_set_aside",
    "log_cut",
    "log_due",
    "message_bury",
    "message_fail",
    "message_park",
    "node_join",
    "node_leave",
    "node_reap",
    "notify_changes",
    "notify_cursors",
    "notify_incoming",
    "notify_install",
    "notify_segments",
    "offset_since",
    "partition_create",
    "partition_keep",
    "partition_sleep",
    "pop",
    "push",
    "push_check",
    "push_slots",
    "push_store",
    "queue_configure",
    "queue_delete",
    "queue_purge",
    "redrive_go",
    "redrive_letters",
    "redrive_moved",
    "redrive_park",
    "redrive_push",
    "redrive_start",
    "queue_room",
    "release",
    "retry_wait",
    "settle",
    "settle_match",
    "sweep",
    "transact",
];

/// Takes the place of the function `clock` in schemas made for tests.
pub(crate) const TEST_CLOCK: &SqlFile =
    &SqlFile { name: "clock", text: include_str!("../sql/test/clock.sql") };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sql_file_is_part_of_the_binary() {
        for (folder, files) in [("migrations", MIGRATIONS), ("functions", FUNCTIONS)] {
            let path = format!("{}/sql/{folder}", env!("CARGO_MANIFEST_DIR"));
            let mut present: Vec<String> = std::fs::read_dir(path)
                .expect("the folder exists")
                .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
                .collect();
            present.sort();
            let listed: Vec<String> =
                files.iter().map(|file| format!("{}.sql", file.name)).collect();
            assert_eq!(listed, present, "sql/{folder} and src/embedded.rs differ");
        }
    }
}
