//! The SQL statements of orchestrations, completed once per store with its schema.

use crate::Shared;
use crate::connect::Sql;

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// The statements of orchestrations.
        pub(crate) struct FlowStatements {
            $(pub(crate) $name: Sql,)*
        }

        impl FlowStatements {
            /// Completes the statements with the store's schema.
            pub(crate) fn new(shared: &Shared) -> Self {
                Self {
                    $($name: shared.sql(include_str!(
                        concat!("../../sql/queries/flow_", stringify!($name), ".sql")
                    )),)*
                }
            }
        }
    };
}

statements![
    abandon,
    children,
    claim_turns,
    claim_work,
    clear,
    commit,
    commit_plain,
    complete,
    complete_plain,
    delete,
    depths,
    ended_roots,
    enqueue,
    enqueue_work,
    executions,
    history,
    instances,
    kv,
    mailbox,
    mailbox_list,
    list,
    list_parent,
    lock_wait,
    names,
    prunable,
    waiting_starts,
    work_pending,
    work_retry,
    prune,
    renew,
    resume,
    sessions_keep,
    start,
    stats,
    suspend,
    sweep,
    terminate,
    tree,
    unclaimed,
    unclaimed_of,
    watch,
];
