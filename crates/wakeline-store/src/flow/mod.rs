//! Durable orchestrations as a store sees them: lanes of messages with a lease, histories, work.
//!
//! Items are envelopes: routing fields that a store decides by, and bytes that it never looks
//! into. The rules, with their reasons, are in `docs/reference/flow.md`.

mod admin;
mod lane;
mod mailbox;
mod read;
mod work;

pub use admin::{
    DeleteInstances, DeleteReport, FindUnclaimed, FlowAdmin, InstanceFilter, PruneOptions,
    PruneReport, RetriedPiece, RetryPlace, Suspension, TerminateInstance, Unclaimed, UnclaimedWhat,
};
pub use lane::{
    EnqueueOutcome, EnqueueReply, Envelope, ExecutionEnd, FlowStore, HistoryBatch, InlineHistory,
    InstanceBirth, KvChange, LaneMessage, Pinned, StatusChange, TurnClaim, TurnClaimed, TurnCommit,
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

/// Everything that a runtime of orchestrations asks of a store.
pub trait FlowBackend: FlowStore + FlowReader + FlowAdmin + WorkRetries + MailboxReader {}

impl<T: FlowStore + FlowReader + FlowAdmin + WorkRetries + MailboxReader> FlowBackend for T {}
