//! The boundary between the APIs (queues, workflows, webhooks) and their stores: traits, commands,
//! results and errors.
//!
//! # Where it sits
//! The services call these traits and do not know which store runs. `wakeline-postgres` and
//! `wakeline-sqlite` implement the traits; `wakeline-testkit` checks both against the same rules.
//!
//! # Invariants
//! * One call is one durable commit or none. A store may combine concurrent calls of one kind in
//!   one transaction.
//! * The database's clock decides visibility, leases and retries. Results carry durations.
//! * A lease token that is no longer live changes nothing.
//! * Every command of a combined call has its own outcome: an invalid one fails alone.
//!
//! The rules for what a claim may take and what settling does, with their reasons, are in
//! `docs/reference/queue.md` for queues, `docs/reference/flow.md` for orchestrations, and
//! `docs/reference/hook.md` for webhooks.

mod access;
mod admin;
mod capacity;
mod counts;
mod dead;
mod encryption;
mod error;
pub mod flow;
mod groups;
mod hints;
pub mod hook;
mod housekeeping;
mod ledger;
mod maintenance;
mod messages;
mod queue;
mod run_to_completion;
mod schedule;
mod stats;
mod traces;
mod transact;

pub use access::{
    AccessStore, ApiKey, AuditAction, AuditEntry, AuditFilter, Consequence, NewKey, SecretDigest,
};
pub use admin::{
    ConfigureQueue, MessageDetail, MessageState, PatchQueue, QueueAdmin, QueueDetail, StoreAdmin,
    StoreInfo,
};
pub use capacity::{QueueCapacities, QueueCapacity};
pub use counts::{
    CountsStore, DeadLetterError, Depth, MessageCounts, PartitionCounts, QueueCounts,
};
pub use dead::{
    DeadLetter, DeadLetterFilter, DeadLetters, Page, QueueBackgroundReport, QueueDeadLetters,
    Redrive, RedriveJob, RedriveState,
};
pub use encryption::{
    EncryptedEndpointField, EncryptedKind, KeyedStore, KeysNeeded, PayloadEncryption,
    PayloadEncryptionError, Rekeyed,
};
pub use error::{BoxError, InvalidField, StoreError, TimeLimit};
pub use groups::{GroupDetail, GroupPartition, GroupPartitionFilter, QueueGroups, Seek, SeekTo};
pub use hints::{FanOut, HintFeed, HintOrigin, HintSink, LinkState};
pub use housekeeping::{Housekeeping, HousekeepingReport, Losses, QueueKeeper};
pub use ledger::{DeliveryOutcome, LedgerEntry};
pub use maintenance::{Maintenance, MaintenanceSet, PushGate, QueueMaintenance, SetMaintenance};
pub use messages::{
    BROWSE_EXAMINED_FACTOR, BROWSE_PARTITIONS_MAX, BrowsePosition, GIVE_UP_DISTANCE_MAX,
    Intervention, InterventionOutcome, ListedMessage, ListedMessages, MessageFilter, MessageKey,
    PartitionDetail, QueueMessages,
};
pub use queue::{
    ClaimRequest, ClaimedPartition, Delivered, Dropped, Extension, LineClaim, LineOutcome,
    PushItem, PushOutcome, PushReply, QueueClaimResult, QueueStore, SettleItem, SettleOutcome,
    SettleReply,
};
pub use run_to_completion::RunToCompletion;
pub use schedule::{
    CancelItem, CancelOutcome, QueueSchedule, ScheduleItem, ScheduleOutcome, ScheduledFilter,
    ScheduledMessage, ScheduledRef,
};
pub use stats::{
    DatabaseStats, MINUTE, NodePoint, NodeStats, QueuePoint, QueueStats, StatsQuery, StatsRange,
    StatsRecord, StatsSlot, StatsStore, TableStats,
};
pub use traces::{
    AddTraceOutcome, NamedTrace, NamedTraces, NewTrace, QueueTraces, TRACE_DATA_BYTES_MAX,
    TRACE_NAMES_MAX, TRACES_PER_MESSAGE_MAX, Trace, TraceNameDetail, TraceNames,
};
pub use transact::{Refusal, TransactCommand, TransactOutcome, TransactReply, Transacted};

/// All the traits of a store that concern queues.
pub trait Queues:
    QueueStore
    + QueueSchedule
    + QueueAdmin
    + QueueGroups
    + QueueCapacities
    + CountsStore
    + QueueDeadLetters
    + QueueMessages
    + QueueTraces
    + QueueKeeper
    + QueueMaintenance
{
}

impl<T> Queues for T where
    T: QueueStore
        + QueueSchedule
        + QueueAdmin
        + QueueGroups
        + QueueCapacities
        + CountsStore
        + QueueDeadLetters
        + QueueMessages
        + QueueTraces
        + QueueKeeper
        + QueueMaintenance
{
}

/// A store with queues, statistics and hints: all that the queue service needs.
pub trait Store: Queues + StatsStore + HintFeed + StoreAdmin {}

impl<T: Queues + StatsStore + HintFeed + StoreAdmin> Store for T {}

/// A store for all APIs: queues, workflows, webhooks and access control.
pub trait Backend:
    Store + KeyedStore + flow::FlowBackend + hook::HookBackend + AccessStore
{
}

impl<T> Backend for T where
    T: Store + KeyedStore + flow::FlowBackend + hook::HookBackend + AccessStore
{
}
