//! The main write path of orchestrations: enqueueing messages, and leasing and committing turns.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    Capabilities, Capability, FlowChange, FlowLine, FlowToken, InstanceId, KvKey,
    OrchestrationName, OwnerId, Timestamp,
};

use super::read::{InstanceState, KvEntry};
use super::work::{
    AbandonOutcome, Completion, CompletionReply, NewWork, RenewOutcome, WorkClaim, WorkClaimed,
    WorkItem, WorkKey, WorkRequest,
};
use crate::error::StoreError;
use crate::hook::{EmitOutcome, NewMessage};
use crate::queue::{PushItem, PushOutcome};

/// When a message or a work item can be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visible {
    /// Immediately.
    Now,
    /// This long after the commit.
    After(Duration),
    /// At this time by the database's clock.
    At(Timestamp),
}

/// A message to an instance.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// The instance that receives the message.
    pub instance: InstanceId,
    /// When the message can be claimed.
    pub visible: Visible,
    /// The message as encoded by the runtime; stores do not read it.
    pub payload: Bytes,
    /// The capability that the instance needs, if this message may begin an execution. A mailbox
    /// without a capability takes it over; a mailbox that has none cannot be claimed.
    pub starts: Option<Capability>,
    /// The instance that waits for the one that this message starts. Readers see it while the new
    /// instance is pending, and deleting the parent deletes the new instance too.
    pub parent: Option<InstanceId>,
    /// Refused with [`EnqueueOutcome::Exists`] if the instance exists or a start message is
    /// waiting.
    pub unique: bool,
    /// Stored even if the instance has ended; otherwise the outcome is [`EnqueueOutcome::Ended`].
    pub even_if_ended: bool,
    /// Identifies the message within its mailbox so that a turn can remove it, for example a timer
    /// by its execution and event.
    pub key: Option<(u64, u64)>,
}

/// The outcome of enqueueing one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueueOutcome {
    /// The message was stored.
    Queued,
    /// The instance exists or is waiting to be started; nothing was stored.
    Exists,
    /// The instance has ended; nothing was stored.
    Ended,
}

/// The result of an enqueue call.
#[derive(Debug, Clone, Default)]
pub struct EnqueueReply {
    /// One outcome per message, in order.
    pub outcomes: Vec<EnqueueOutcome>,
    /// Turns that were leased to the requests passed with the call, with the requests' indices.
    pub turns: Vec<(usize, TurnItem)>,
    /// Changes to publish to the waiters of this process. The store notifies other processes.
    pub changes: Vec<FlowChange>,
}

/// A dispatcher that can take a turn.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// Becomes the key of the token. After an unknown outcome, claiming again with the same key
    /// returns what it already holds and leases nothing new.
    pub key: Uuid,
    /// How long the lease lasts.
    pub lease: Duration,
    /// Which orchestrations the dispatcher can run.
    pub capabilities: Capabilities,
}

/// The claim of all waiting dispatchers of one line.
#[derive(Debug, Clone)]
pub struct TurnClaim {
    /// Which orchestrations they can run; the same for all of them.
    pub capabilities: Capabilities,
    /// The dispatchers in order of arrival. Their own capabilities are ignored.
    pub requests: Vec<TurnRequest>,
    /// Whether to report when the next turn is due even if every request is served.
    pub further: bool,
}

/// The result of a claim of turns in one line.
#[derive(Debug, Clone, Default)]
pub struct TurnClaimed {
    /// One entry per request, in order.
    pub turns: Vec<Option<TurnItem>>,
    /// Time until the line's next turn, if a request got none or `further` was set. Possibly early,
    /// never late.
    pub next_due: Option<Duration>,
}

/// A message that is delivered with a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMessage {
    /// The message's sequence number within its mailbox.
    pub seq: i64,
    /// How often the message was delivered, this time included.
    pub attempt: u32,
    /// The message as encoded by the runtime.
    pub payload: Bytes,
}

/// The events of one turn, as encoded by the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryBatch {
    /// The number of the first event; an execution's events are numbered from 1.
    pub first: u64,
    /// The number of the last event.
    pub last: u64,
    /// The encoded events.
    pub events: Bytes,
}

/// The history of the current execution, as far as a claim includes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InlineHistory {
    /// The complete history.
    Complete(Vec<HistoryBatch>),
    /// The history is too long to include: read it with [`super::FlowReader::history`] unless it is
    /// cached.
    TooLong,
}

/// A leased turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnItem {
    /// The fencing token that proves the lease.
    pub token: FlowToken,
    /// The highest attempt number among its messages.
    pub attempt: u32,
    /// The instance that the turn belongs to.
    pub instance: InstanceId,
    /// The orchestration's name; `None` before the first commit of a turn.
    pub name: Option<OrchestrationName>,
    /// The parent instance that waits for this one, and the event that it waits for.
    pub parent: Option<(InstanceId, u64)>,
    /// The capability that the mailbox currently requires.
    pub capability: Option<Capability>,
    /// The current execution; 0 before the first commit of a turn.
    pub execution: u64,
    /// The last event of the current execution; 0 if it has none.
    pub last_event: u64,
    /// The state of the current execution; `None` if there is none yet.
    pub state: Option<InstanceState>,
    /// The visible messages in order of arrival; at least one.
    pub messages: Vec<LaneMessage>,
    /// The history so far.
    pub history: InlineHistory,
    /// The key-value state at the start of the execution, ordered by key.
    pub kv: Vec<KvEntry>,
    /// The database's clock when the turn was claimed.
    pub now: Timestamp,
    /// How long the lease lasts.
    pub lease_for: Duration,
}

/// The instance that its first turn creates.
#[derive(Debug, Clone)]
pub struct NewInstance {
    /// The orchestration's name.
    pub name: OrchestrationName,
    /// The parent instance that waits for this one, and the event that it waits for.
    pub parent: Option<(InstanceId, u64)>,
}

/// The capability that an execution requires from now on.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// Decides which dispatchers may take its turns.
    pub capability: Capability,
    /// The version of the code, as shown to readers.
    pub version: Option<String>,
}

/// The state in which a turn leaves the execution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ExecutionEnd {
    /// The execution continues.
    #[default]
    Open,
    /// The execution has ended and none follows: the instance has ended.
    Ended {
        /// The final state: completed, failed, cancelled or terminated.
        state: InstanceState,
        /// The result or the error, as encoded by the runtime.
        output: Option<Bytes>,
    },
    /// The execution has ended, and a message of this commit begins the next one.
    ContinuedAsNew {
        /// The input of the next execution, as encoded by the runtime.
        output: Option<Bytes>,
    },
}

/// A change of the status text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusChange {
    /// The status text is now this.
    Set(String),
    /// There is no status text any more.
    Clear,
}

/// A change of the key-value state. Changes are applied in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvChange {
    /// Sets a key to a value.
    Set(KvKey, Bytes),
    /// Removes a key.
    Clear(KvKey),
    /// Removes all keys.
    ClearAll,
}

/// Everything that a turn did. It is committed in one transaction or not at all.
#[derive(Debug, Clone)]
pub struct TurnCommit {
    /// The fencing token that proves the lease; a stale one changes nothing.
    pub token: FlowToken,
    /// The execution that the other fields apply to; created if it does not exist.
    pub execution: u64,
    /// The instance to create if this is its first turn; ignored if it exists.
    pub new_instance: Option<NewInstance>,
    /// The capability that the execution requires, if that changed.
    pub pinned: Option<Pinned>,
    /// New events, which must directly follow the last stored one.
    pub history: Option<HistoryBatch>,
    /// Changes of the status text, in order; each one increments the status version.
    pub status: Vec<StatusChange>,
    /// Changes of the key-value state, in order.
    pub kv: Vec<KvChange>,
    /// The state of the execution after this turn.
    pub end: ExecutionEnd,
    /// Activities to schedule.
    pub work: Vec<NewWork>,
    /// Activities of this instance to cancel. Applied after `work`, so an activity in both lists is
    /// not stored.
    pub cancelled_work: Vec<WorkKey>,
    /// Messages to send: timers to the instance itself, starts and completions to others.
    pub messages: Vec<Envelope>,
    /// Keys of messages in the instance's own mailbox to remove.
    pub cancelled_messages: Vec<(u64, u64)>,
    /// Whether to remove all messages and activities of the instance; used when it has ended.
    pub clear: bool,
    /// Messages to push to queues.
    pub pushes: Vec<PushItem>,
    /// Webhook messages to emit to the endpoints of applications.
    pub emits: Vec<NewMessage>,
    /// Dispatchers that can take a turn which this commit makes available.
    pub turn_requests: Vec<TurnRequest>,
    /// Workers that can take an activity which this commit makes available.
    pub work_requests: Vec<WorkRequest>,
}

/// The outcome of a turn's commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// Everything was committed.
    Committed {
        /// One outcome per message, in order.
        messages: Vec<EnqueueOutcome>,
        /// One outcome per push, in order.
        pushes: Vec<PushOutcome>,
        /// One outcome per webhook message, in order.
        emits: Vec<EmitOutcome>,
    },
    /// The lease has expired or was ended; nothing changed.
    Stale,
    /// The events do not follow the last stored one; nothing changed.
    Conflict {
        /// The last event that is stored for the execution.
        last_event: u64,
    },
}

/// The result of a turn's commit.
#[derive(Debug, Clone)]
pub struct TurnReply {
    /// The outcome of the commit.
    pub outcome: TurnOutcome,
    /// Turns that were leased to the requests passed with the call, with the requests' indices.
    pub turns: Vec<(usize, TurnItem)>,
    /// Activities that were leased to the requests passed with the call, with the requests'
    /// indices.
    pub work: Vec<(usize, WorkItem)>,
    /// Changes to publish to the orchestration waiters of this process.
    pub changes: Vec<FlowChange>,
    /// Changes to publish to the queue waiters of this process.
    pub queue_changes: Vec<wakeline_core::Change>,
    /// Changes to publish to the delivery waiters of this process.
    pub hook_changes: Vec<wakeline_core::HookChange>,
}

/// The main write path of orchestrations. Concurrent calls of one kind may share a commit.
#[async_trait]
pub trait FlowStore: Send + Sync {
    /// Stores messages in mailboxes without creating instances. `requests` are dispatchers that can
    /// take a turn which this makes available.
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError>;

    /// Leases turns: one call, one commit, one outcome per line.
    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError>;

    /// Commits a turn and ends its lease.
    async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnReply, StoreError>;

    /// Schedules an activity outside of a turn, for set-up code and tests.
    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError>;

    /// Leases activities: one call, one commit, one outcome per line.
    async fn claim_work(&self, lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError>;

    /// Removes a leased activity and sends its result to the instance, in one commit. `requests`
    /// are dispatchers that can take the turn which this makes available.
    async fn complete_work(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> Result<CompletionReply, StoreError>;

    /// Extends leases of turns and activities to `span` from now. One outcome per token.
    async fn renew(
        &self,
        tokens: Vec<FlowToken>,
        span: Duration,
    ) -> Result<Vec<RenewOutcome>, StoreError>;

    /// Gives back a leased turn or activity: what the lease holds becomes visible after `delay`.
    /// With `uncounted` the attempt does not count.
    async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError>;

    /// Extends the live sessions of these owners that were active within `idle` to `span` from now.
    /// A span of zero ends all their sessions instead and notifies waiting workers. Returns how
    /// many were changed. An empty list of owners instead removes expired sessions of any owner for
    /// which no activity waits.
    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError>;

    /// Reads, without claiming, how long until each line has an item: zero if it has one now. An
    /// outcome line has an item only if its instance has ended.
    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError>;
}
