//! Durable orchestrations as a store sees them: mailboxes with a lease, histories and activities.
//!
//! Items consist of routing fields, by which a store decides, and of bytes that it never
//! interprets. The rules, with their reasons, are in `docs/reference/flow.md`.

mod admin;
mod lane;
mod mailbox;
mod read;
mod work;

pub use admin::{
    DeleteInstances, DeleteReport, FindUnclaimed, FlowAdmin, InstanceFilter, PruneOptions,
    PruneReport, RetriedBatch, RetryPosition, Suspension, TerminateInstance, Unclaimed,
    UnclaimedWork,
};
pub use lane::{
    EnqueueOutcome, EnqueueReply, Envelope, ExecutionEnd, FlowStore, HistoryBatch, InlineHistory,
    KvChange, LaneMessage, NewInstance, Pinned, StatusChange, TurnClaim, TurnClaimed, TurnCommit,
    TurnItem, TurnOutcome, TurnReply, TurnRequest, Visible,
};
pub use mailbox::{EarlyMailbox, ListMailboxes, MailboxReader, WaitingMessage};
pub use read::{
    ExecutionDetail, FlowDepths, FlowReader, HistoryPage, InstanceDetail, InstanceState,
    InstanceStats, KvEntry, ListInstances, ListedInstances, Watched,
};
pub use work::{
    AbandonOutcome, Completion, CompletionReply, NewWork, PendingWork, RenewOutcome, SessionClaim,
    WorkClaim, WorkClaimed, WorkItem, WorkKey, WorkOutcome, WorkRequest, WorkRetries,
};

/// Everything that an orchestration runtime needs from a store.
pub trait FlowBackend: FlowStore + FlowReader + FlowAdmin + WorkRetries + MailboxReader {}

impl<T: FlowStore + FlowReader + FlowAdmin + WorkRetries + MailboxReader> FlowBackend for T {}
