//! The seam between the faces and their stores: small traits, commands, results, errors.
//!
//! # Where it sits
//! The faces call these traits and never know which store runs; `wakeline-postgres` and
//! `wakeline-sqlite` implement them; `wakeline-testkit` holds both to the same rules.
//!
//! # Invariants
//! * One call is one durable commit or none. A store fuses concurrent calls of one kind by itself.
//! * The database's clock decides visibility, leases and retries. Results carry durations.
//! * A lease token that is not live can change nothing.
//! * Every command of a fused call has its own outcome: a bad one fails alone.
//!
//! The rules for what a claim may take and what settling does are written down, with their
//! reasons, in `docs/reference/queue.md`; those for orchestrations in `docs/reference/flow.md`,
//! those for webhooks in `docs/reference/hook.md`.

mod access;
mod admin;
mod carried;
mod dead;
mod error;
pub mod flow;
mod groups;
mod hints;
pub mod hook;
mod keep;
mod ledger;
mod maintenance;
mod messages;
mod queue;
mod room;
mod schedule;
mod sealing;
mod stats;
mod tally;
mod traces;
mod transact;

pub use access::{
    AccessStore, ApiKey, AuditEntry, AuditFilter, Consequence, Deed, NewKey, SecretDigest,
};
pub use admin::{
    ConfigureQueue, MessageDetail, MessageState, PatchQueue, QueueAdmin, QueueDetail, StoreAdmin,
    StoreInfo,
};
pub use carried::Carried;
pub use dead::{
    DeadLetter, DeadLetterFilter, DeadLetters, Page, QueueChores, QueueDeadLetters, Redrive,
    RedriveJob, RedriveState,
};
pub use error::{BoxError, InvalidField, StoreError, TimeLimit};
pub use groups::{GroupDetail, GroupPartition, GroupPartitionFilter, QueueGroups, Seek, SeekTo};
pub use hints::{FanOut, HintFeed, HintOrigin, HintSink, LinkState};
pub use keep::{Housekeeping, HousekeepingReport, Losses, QueueKeeper};
pub use ledger::{DeliveryOutcome, LedgerEntry};
pub use maintenance::{Maintenance, MaintenanceSet, PushGate, QueueMaintenance, SetMaintenance};
pub use messages::{
    BROWSE_LOOK, BROWSE_PARTITIONS, BURY_DISTANCE_MAX, Intervened, Intervention, ListedMessage,
    ListedMessages, MessageFilter, MessageKey, MessagePlace, PartitionDetail, QueueMessages,
};
pub use queue::{
    ClaimRequest, Delivered, Dropped, Extension, Grant, GrantedPartition, LineClaim, LineOutcome,
    PushItem, PushOutcome, PushReply, QueueStore, SettleItem, SettleOutcome, SettleReply,
};
pub use room::{QueueRoom, Room};
pub use schedule::{
    CancelItem, CancelOutcome, QueueSchedule, ScheduleItem, ScheduleOutcome, ScheduledFilter,
    ScheduledMessage, ScheduledRef,
};
pub use sealing::{
    EndpointSeal, KeyedStore, KeysNeeded, Rekeyed, SealedKind, Sealing, SealingError,
};
pub use stats::{
    DatabaseStats, MINUTE, NodeCounts, NodePoint, QueueCounts, QueuePoint, StatsQuery, StatsRange,
    StatsRecord, StatsSlot, StatsStore, TableStats,
};
pub use tally::{DeadLetterError, Depth, PartitionTally, QueueTallies, QueueTally, Tally};
pub use traces::{
    NamedTrace, NamedTraces, NewTrace, QueueTraces, TRACE_DATA_BYTES_MAX, TRACE_NAMES_MAX,
    TRACES_PER_MESSAGE_MAX, Trace, TraceNameDetail, TraceNames, Traced,
};
pub use transact::{Refusal, TransactCommand, TransactOutcome, TransactReply, Transacted};

/// What the server asks of a store for its queues.
pub trait Queues:
    QueueStore
    + QueueSchedule
    + QueueAdmin
    + QueueGroups
    + QueueRoom
    + QueueTallies
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
        + QueueRoom
        + QueueTallies
        + QueueDeadLetters
        + QueueMessages
        + QueueTraces
        + QueueKeeper
        + QueueMaintenance
{
}

/// Everything that the server asks of a store.
pub trait Store: Queues + StatsStore + HintFeed + StoreAdmin {}

impl<T: Queues + StatsStore + HintFeed + StoreAdmin> Store for T {}

/// A store for all faces.
pub trait WholeStore:
    Store + KeyedStore + flow::FlowBackend + hook::HookBackend + AccessStore
{
}

impl<T> WholeStore for T where
    T: Store + KeyedStore + flow::FlowBackend + hook::HookBackend + AccessStore
{
}
