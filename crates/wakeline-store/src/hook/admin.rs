//! Interventions: sending again, cancelling, expiring; and the jobs that do so in bulk.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, EndpointRef, EventTypeName, HookChange,
    JobId, MessageRef, Timestamp,
};

use super::read::DeliveryState;
use crate::error::StoreError;

/// How asking for another attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResendOutcome {
    /// It is due now.
    Due,
    /// An attempt is under way; nothing changed.
    InFlight,
    /// There is no such message, endpoint or delivery.
    Missing,
    /// The payload has expired.
    Expired,
    /// The endpoint is disabled.
    Disabled,
}

/// Which deliveries a job is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Only to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Only of messages of these types; empty is all.
    pub event_types: Vec<EventTypeName>,
    /// Only of messages stored at or after.
    pub since: Option<Timestamp>,
    /// Only of messages stored before.
    pub until: Option<Timestamp>,
    /// Only in these states; empty is all that the job can change.
    pub states: Vec<DeliveryState>,
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Gives failed deliveries their whole schedule again.
    Recover,
    /// Makes deliveries for messages that the endpoint would get today but has none of.
    ReplayMissing,
    /// Makes one more attempt.
    Resend,
    /// Cancels what waits.
    Cancel,
}

/// A job to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Its id, made by the caller.
    pub id: JobId,
    /// What it does.
    pub kind: JobKind,
    /// To which deliveries.
    pub filter: DeliveryFilter,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It goes on.
    Running,
    /// It is done.
    Finished,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What it is.
    pub spec: JobSpec,
    /// Whose.
    pub application: ApplicationId,
    /// How it stands.
    pub state: JobState,
    /// Messages or deliveries looked at so far.
    pub seen: u64,
    /// Deliveries changed or made so far.
    pub changed: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last went on.
    pub updated_at: Timestamp,
}

/// What one piece of background work came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChoreReport {
    /// Rows that it changed or removed.
    pub rows: u64,
    /// When the next piece is due: zero if there is more now, `None` if nothing is in sight.
    pub next_due: Option<Duration>,
    /// What the caller tells its own waiters.
    pub changes: Vec<HookChange>,
}

/// Where a pass through old messages stands. Only the store that made it understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePlace {
    /// The age of the last message that was looked at.
    pub at: Timestamp,
    /// Which of that age.
    pub id: Uuid,
}

/// Which messages are past their time.
#[derive(Debug, Clone, Copy)]
pub struct ExpireMessages {
    /// Those that were emitted longer ago, and whose payload is gone.
    pub older_than: Duration,
    /// Goes on behind this place; `None` from the beginning.
    pub after: Option<MessagePlace>,
    /// Removes about so many rows, and looks at so many messages.
    pub rows: u32,
}

/// What a piece of a pass through old messages removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpiredMessages {
    /// Messages.
    pub messages: u64,
    /// Their deliveries.
    pub deliveries: u64,
    /// Their attempts.
    pub attempts: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<MessagePlace>,
}

/// Interventions.
#[async_trait]
pub trait HookAdmin: Send + Sync {
    /// One more attempt for a delivery, now, whatever became of it.
    async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<(ResendOutcome, Vec<HookChange>), StoreError>;

    /// Cancels what waits of a message: all of it, or for one endpoint. An attempt that is under
    /// way ends in the log, and nothing follows it. Returns how many, and what the caller tells its
    /// own waiters: what stood behind the head of an endpoint in order may go now. `None` if there
    /// is no such message.
    async fn cancel(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
    ) -> Result<Option<(u64, Vec<HookChange>)>, StoreError>;

    /// Removes the payload of a message, as if it had expired. False if there is no such message.
    async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, StoreError>;

    /// Removes what an endpoint answered in an attempt. False if there is no such attempt.
    async fn expunge_response(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<bool, StoreError>;

    /// Makes a job; `None` if there is no such application.
    async fn start_job(
        &self,
        application: &ApplicationRef,
        job: JobSpec,
    ) -> Result<Option<(Job, Vec<HookChange>)>, StoreError>;

    /// A job of any application.
    async fn job(&self, job: JobId) -> Result<Option<Job>, StoreError>;

    /// Does a piece of background work in one short commit, on at most `rows` rows: the oldest
    /// unfinished job, else payloads that expired, else what deleted applications left, else
    /// idempotency keys and finished jobs that are past their time.
    async fn do_chores(&self, rows: u32) -> Result<ChoreReport, StoreError>;

    /// Removes old messages with their deliveries and attempts, by a piece in a short transaction.
    /// One with a delivery that is waiting or under way stays, and so does one whose payload is
    /// kept.
    async fn expire_messages(&self, command: ExpireMessages)
    -> Result<ExpiredMessages, StoreError>;
}
