//! The hot path of orchestrations: messages in, turns leased, turns committed.

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
    /// At once.
    Now,
    /// So long after the commit.
    After(Duration),
    /// At a moment by the database's clock.
    At(Timestamp),
}

/// A message to an instance.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// To whom.
    pub instance: InstanceId,
    /// When it can be claimed.
    pub visible: Visible,
    /// What the runtime put in.
    pub payload: Bytes,
    /// What the instance needs, if this message may begin an execution. A lane that needs nothing
    /// yet takes it over; a lane that does not know what it needs is claimed by nobody.
    pub starts: Option<Capability>,
    /// Who waits for the instance that it starts: readers see it while that is pending, and a
    /// deletion of the parent takes it along.
    pub parent: Option<InstanceId>,
    /// Refused, with [`EnqueueOutcome::Exists`], if the instance exists or a start is waiting.
    pub unique: bool,
    /// Kept even if the instance has ended; otherwise that is [`EnqueueOutcome::Ended`].
    pub even_if_ended: bool,
    /// Names the message within its lane, so that a turn can take it back: a timer, say, by its
    /// execution and event.
    pub key: Option<(u64, u64)>,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueueOutcome {
    /// Stored.
    Queued,
    /// The instance exists, or waits to be started; nothing was stored.
    Exists,
    /// The instance has ended; nothing was stored.
    Ended,
}

/// Answer to an enqueue.
#[derive(Debug, Clone, Default)]
pub struct EnqueueReply {
    /// One per envelope, in order.
    pub outcomes: Vec<EnqueueOutcome>,
    /// Turns that were leased to the requests that came along, with the requests' indices.
    pub turns: Vec<(usize, TurnItem)>,
    /// What the caller tells its own waiters. Other processes are told by the store.
    pub changes: Vec<FlowChange>,
}

/// One dispatcher that can take a turn.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// Becomes the key of the token. Claiming again with it after an unknown outcome returns what
    /// it holds and leases nothing new.
    pub key: Uuid,
    /// How long the lease lasts.
    pub lease: Duration,
    /// Which instances it can run.
    pub capabilities: Capabilities,
}

/// The dispatchers of one line.
#[derive(Debug, Clone)]
pub struct TurnClaim {
    /// Which instances they can run: the same for all of them.
    pub capabilities: Capabilities,
    /// The dispatchers, in order of arrival. Their own capabilities are not looked at.
    pub requests: Vec<TurnRequest>,
    /// Whether to say what is next even if every request is served.
    pub further: bool,
}

/// What a claim found in one line.
#[derive(Debug, Clone, Default)]
pub struct TurnClaimed {
    /// One per request, in order.
    pub turns: Vec<Option<TurnItem>>,
    /// If a request went without, or the claim was to look further: time until the line's next
    /// turn. Possibly early, never late.
    pub next_due: Option<Duration>,
}

/// A message that a turn took along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMessage {
    /// Its place in the lane.
    pub seq: i64,
    /// How often it was taken, this time included.
    pub attempt: u32,
    /// What the runtime put in.
    pub payload: Bytes,
}

/// The events of one turn, as the runtime encoded them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryBatch {
    /// Number of the first event; the first of an execution is 1.
    pub first: u64,
    /// Number of the last event.
    pub last: u64,
    /// The events.
    pub events: Bytes,
}

/// The history of the current execution, as far as a claim brings it along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InlineHistory {
    /// All of it.
    Whole(Vec<HistoryBatch>),
    /// It is long: read it with [`super::FlowReader::history`] if it is not remembered.
    TooLong,
}

/// A leased turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnItem {
    /// Proves the lease.
    pub token: FlowToken,
    /// The most often taken of its messages.
    pub attempt: u32,
    /// Whose turn.
    pub instance: InstanceId,
    /// The orchestration's name; `None` before the first commit of a turn.
    pub name: Option<OrchestrationName>,
    /// Who waits for it, and for which event.
    pub parent: Option<(InstanceId, u64)>,
    /// What the lane needs at present.
    pub capability: Option<Capability>,
    /// The current execution; 0 before the first commit of a turn.
    pub execution: u64,
    /// The last event of the current execution; 0 if it has none.
    pub last_event: u64,
    /// How the current execution stands; `None` if there is none yet.
    pub state: Option<InstanceState>,
    /// Visible messages in order of arrival; at least one.
    pub messages: Vec<LaneMessage>,
    /// The events so far.
    pub history: InlineHistory,
    /// The key-value state as of the start of the execution, ordered by key.
    pub kv: Vec<KvEntry>,
    /// The database's clock at the claim.
    pub now: Timestamp,
    /// How long the lease lasts.
    pub lease_for: Duration,
}

/// The instance that a first turn makes.
#[derive(Debug, Clone)]
pub struct InstanceBirth {
    /// The orchestration's name.
    pub name: OrchestrationName,
    /// Who waits for it, and for which event.
    pub parent: Option<(InstanceId, u64)>,
}

/// What an execution needs from now on.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// For the lane: which dispatchers may take its turns.
    pub capability: Capability,
    /// For readers: the version of the code.
    pub version: Option<String>,
}

/// How a turn leaves the execution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ExecutionEnd {
    /// It goes on.
    #[default]
    Open,
    /// It has ended and was followed by none: the instance has ended.
    Ended {
        /// How: completed, failed, cancelled or terminated.
        state: InstanceState,
        /// The result or the error, as the runtime encoded it.
        output: Option<Bytes>,
    },
    /// The next execution begins with a message of this commit.
    ContinuedAsNew {
        /// Its input, as the runtime encoded it.
        output: Option<Bytes>,
    },
}

/// A change of the status text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusChange {
    /// It has this text now.
    Set(String),
    /// It has none now.
    Clear,
}

/// A change of the key-value state, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvChange {
    /// The key has this value now.
    Set(KvKey, Bytes),
    /// The key has no value now.
    Clear(KvKey),
    /// No key has a value now.
    ClearAll,
}

/// Everything that a turn did: one transaction, or nothing of it.
#[derive(Debug, Clone)]
pub struct TurnCommit {
    /// Proves the lease; a stale one changes nothing.
    pub token: FlowToken,
    /// The execution that the rest is about; made if it does not exist.
    pub execution: u64,
    /// The instance, if this is its first turn. Ignored if it exists.
    pub birth: Option<InstanceBirth>,
    /// What the execution needs, if that changed.
    pub pinned: Option<Pinned>,
    /// New events; they must follow the last one.
    pub history: Option<HistoryBatch>,
    /// Changes of the status text, in order; each makes a new version.
    pub status: Vec<StatusChange>,
    /// Changes of the key-value state, in order.
    pub kv: Vec<KvChange>,
    /// How the execution stands afterwards.
    pub end: ExecutionEnd,
    /// Activities to run.
    pub work: Vec<NewWork>,
    /// Activities of this instance to take back; done after `work`, so that one of both is none.
    pub cancelled_work: Vec<WorkKey>,
    /// Messages: timers to itself, starts and completions to others.
    pub messages: Vec<Envelope>,
    /// Keys of messages in the own lane to take back.
    pub cancelled_messages: Vec<(u64, u64)>,
    /// Removes all messages of the own lane and all its work. Meant for an instance that ended.
    pub clear: bool,
    /// Messages to queues.
    pub pushes: Vec<PushItem>,
    /// Messages to endpoints of applications.
    pub emits: Vec<NewMessage>,
    /// Dispatchers that can take a turn which this commit makes available.
    pub turn_requests: Vec<TurnRequest>,
    /// Workers that can take an activity which this commit makes available.
    pub work_requests: Vec<WorkRequest>,
}

/// How a turn's commit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// All of it happened.
    Committed {
        /// One per message, in order.
        messages: Vec<EnqueueOutcome>,
        /// One per push, in order.
        pushes: Vec<PushOutcome>,
        /// One per message to endpoints, in order.
        emits: Vec<EmitOutcome>,
    },
    /// The lease has expired or was ended; nothing changed.
    Stale,
    /// The events do not follow the last one; nothing changed.
    Conflict {
        /// The last event that the execution has.
        last_event: u64,
    },
}

/// Answer to a turn's commit.
#[derive(Debug, Clone)]
pub struct TurnReply {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// Turns that were leased to the requests that came along, with the requests' indices.
    pub turns: Vec<(usize, TurnItem)>,
    /// Activities that were leased to the requests that came along, with the requests' indices.
    pub work: Vec<(usize, WorkItem)>,
    /// What the caller tells its own waiters.
    pub changes: Vec<FlowChange>,
    /// What the caller tells its own waiters of queues.
    pub queue_changes: Vec<wakeline_core::Change>,
    /// What the caller tells its own waiters of deliveries.
    pub hook_changes: Vec<wakeline_core::HookChange>,
}

/// The hot path of orchestrations. Concurrent calls of one kind may share a commit.
#[async_trait]
pub trait FlowStore: Send + Sync {
    /// Puts messages into lanes. Makes no instance. `requests` are dispatchers that can take a
    /// turn which this makes available.
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError>;

    /// Leases turns: one call, one commit, one outcome per line.
    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError>;

    /// Commits a turn and ends its lease.
    async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnReply, StoreError>;

    /// Puts an activity into the queue of work outside of a turn, for set-ups and tests.
    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError>;

    /// Leases activities: one call, one commit, one outcome per line.
    async fn claim_work(&self, lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError>;

    /// Removes a leased activity and tells its instance, in one commit. `requests` are
    /// dispatchers that can take the turn which this makes available.
    async fn complete_work(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> Result<CompletionReply, StoreError>;

    /// Moves the end of leases of either kind to `span` from now. One outcome per token.
    async fn renew(
        &self,
        tokens: Vec<FlowToken>,
        span: Duration,
    ) -> Result<Vec<RenewOutcome>, StoreError>;

    /// Gives a leased turn or activity back: what the lease holds becomes visible after `delay`;
    /// `uncounted` takes the attempt back.
    async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError>;

    /// Moves the end of the sessions of these owners to `span` from now: those that are live and
    /// were active within `idle`. A span of zero ends them instead, whether they were active or
    /// not, and workers that wait are told. Returns how many. An empty list of owners instead
    /// removes the sessions of anyone that have expired and for which no activity waits.
    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError>;

    /// Reads, without claiming, how long until each line has something: zero if it has now. An
    /// outcome line has nothing unless its instance ended.
    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError>;
}
