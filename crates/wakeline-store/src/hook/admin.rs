//! Administration of deliveries: resending, cancelling, expiring, and bulk jobs.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, EndpointRef, EventTypeName, HookChange,
    JobId, MessageRef, Timestamp,
};

use super::read::DeliveryState;
use crate::error::StoreError;

/// The outcome of requesting another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResendOutcome {
    /// The attempt is due now.
    Due,
    /// An attempt is in flight; nothing changed.
    InFlight,
    /// The message, endpoint or delivery does not exist.
    Missing,
    /// The payload has expired.
    Expired,
    /// The endpoint is disabled.
    Disabled,
}

/// Selects the deliveries that a job applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Only to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Only of messages of these types; empty means all.
    pub event_types: Vec<EventTypeName>,
    /// Only of messages stored at or after this time.
    pub since: Option<Timestamp>,
    /// Only of messages stored before this time.
    pub until: Option<Timestamp>,
    /// Only in these states; empty means all that the job can change.
    pub states: Vec<DeliveryState>,
}

/// The kinds of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Restarts the whole retry schedule of failed deliveries.
    Recover,
    /// Creates deliveries for messages that match the endpoint's current filters but have none.
    ReplayMissing,
    /// Makes one more attempt for each delivery.
    Resend,
    /// Cancels waiting deliveries.
    Cancel,
}

/// A job to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// The job's id, chosen by the caller.
    pub id: JobId,
    /// What the job does.
    pub kind: JobKind,
    /// The deliveries that the job applies to.
    pub filter: DeliveryFilter,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// The job has deliveries left to process.
    Running,
    /// The job has processed all its deliveries.
    Finished,
}

/// A bulk job on the deliveries of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryJob {
    /// The job's id, kind and filter.
    pub spec: JobSpec,
    /// The application that the job belongs to.
    pub application: ApplicationId,
    /// The state of the job.
    pub state: JobState,
    /// The number of messages or deliveries examined so far.
    pub seen: u64,
    /// The number of deliveries changed or created so far.
    pub changed: u64,
    /// When the job was created.
    pub created_at: Timestamp,
    /// When the job last made progress.
    pub updated_at: Timestamp,
}

/// The result of one unit of background work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookBackgroundReport {
    /// The number of rows changed or removed.
    pub rows: u64,
    /// When the next unit is due: zero if there is more now, `None` if no work is known.
    pub next_due: Option<Duration>,
    /// Changes to publish to the waiters of this process.
    pub changes: Vec<HookChange>,
}

/// A position in a scan of old messages. Only the store that created it can interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiryPosition {
    /// The time of the last message that was examined.
    pub at: Timestamp,
    /// The id of the last message examined among those of the same time.
    pub id: Uuid,
}

/// Selects messages whose retention has ended.
#[derive(Debug, Clone, Copy)]
pub struct ExpireMessages {
    /// Only messages emitted longer ago than this, and whose payload has been removed.
    pub older_than: Duration,
    /// The position to continue from; `None` starts from the beginning.
    pub after: Option<ExpiryPosition>,
    /// The approximate maximum of rows to remove, and of messages to examine.
    pub rows: u32,
}

/// What one batch of a scan of old messages removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpiredMessages {
    /// The number of removed messages.
    pub messages: u64,
    /// The number of their deliveries.
    pub deliveries: u64,
    /// The number of their attempts.
    pub attempts: u64,
    /// The position to continue from; `None` at the end.
    pub next: Option<ExpiryPosition>,
}

/// Administration of webhook deliveries.
#[async_trait]
pub trait HookAdmin: Send + Sync {
    /// Makes one more attempt for a delivery now, whatever its state.
    async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<(ResendOutcome, Vec<HookChange>), StoreError>;

    /// Cancels the waiting deliveries of a message, all of them or the one to an endpoint. An
    /// attempt in flight is still recorded, but not followed by another. Returns how many were
    /// cancelled and the changes to publish, because deliveries behind the head of an ordered
    /// endpoint may become available. `None` if the message does not exist.
    async fn cancel(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
    ) -> Result<Option<(u64, Vec<HookChange>)>, StoreError>;

    /// Removes the payload of a message, as if it had expired. Returns false if the message does
    /// not exist.
    async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, StoreError>;

    /// Removes the response of an attempt. Returns false if the attempt does not exist.
    async fn expunge_response(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<bool, StoreError>;

    /// Creates a job; `None` if the application does not exist.
    async fn start_job(
        &self,
        application: &ApplicationRef,
        job: JobSpec,
    ) -> Result<Option<(DeliveryJob, Vec<HookChange>)>, StoreError>;

    /// A job of any application, by its id.
    async fn job(&self, job: JobId) -> Result<Option<DeliveryJob>, StoreError>;

    /// Does one unit of background work on at most `rows` rows, in one short transaction. In order
    /// of precedence: the oldest unfinished job, expired payloads, leftovers of deleted
    /// applications, expired idempotency keys and finished jobs.
    async fn run_background(&self, rows: u32) -> Result<HookBackgroundReport, StoreError>;

    /// Removes old messages with their deliveries and attempts, one batch per short transaction. A
    /// message is kept while it has a waiting or in-flight delivery, or while its payload is kept.
    async fn expire_messages(&self, command: ExpireMessages)
    -> Result<ExpiredMessages, StoreError>;
}
