//! The SQL statements of the queue, completed once per store with its schema.

use crate::Shared;
use crate::connect::Sql;

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// The queue's statements.
        pub(crate) struct QueueStatements {
            $(pub(crate) $name: Sql,)*
        }

        impl QueueStatements {
            /// Completes the statements with the store's schema.
            pub(crate) fn new(shared: &Shared) -> Self {
                Self {
                    $($name: shared.sql(include_str!(
                        concat!("../../sql/queries/", stringify!($name), ".sql")
                    )),)*
                }
            }
        }
    };
}

statements![
    audit_add,
    audit_list,
    audit_prune,
    claim,
    claim_polled,
    clock,
    database_stats,
    database_tables,
    dead_letter_count,
    dead_letter_errors,
    dead_letter_list,
    dead_letter_purge,
    dedup_load,
    dedup_start,
    extend,
    group_begin,
    group_delete,
    group_lagging,
    group_list,
    group_names,
    group_partitions,
    group_seek,
    keys_needed,
    housekeep,
    key_create,
    key_list,
    key_revoke,
    key_rotate,
    key_touch,
    lease_quarantine,
    ledger_list,
    maintenance_due,
    maintenance_get,
    maintenance_held,
    maintenance_set,
    message_browse,
    message_delete,
    message_find,
    message_groups,
    message_intervene,
    partition_create,
    partition_delete,
    partition_list,
    partition_queues,
    partition_counts,
    push,
    queue_clear,
    queue_configure,
    queue_delete,
    queue_depth,
    queue_get,
    queue_losses,
    queue_purge,
    queue_counts,
    redrive_cancel,
    redrive_get,
    redrive_go,
    redrive_push,
    redrive_start,
    rekey_dead_letter,
    rekey_dead_letters,
    rekey_endpoint,
    rekey_endpoints,
    rekey_scheduled,
    rekey_scheduled_one,
    rekey_segment,
    rekey_segments,
    rekey_trace,
    rekey_traces,
    queue_capacity,
    release,
    scheduled_add,
    scheduled_list,
    scheduled_mark,
    scheduled_move,
    scheduled_take,
    settle,
    stats_nodes,
    stats_queues,
    stats_record,
    sweep,
    trace_add,
    trace_list,
    trace_named,
    trace_named_count,
    trace_names,
    trace_names_count,
    transact,
];
