//! The oracle's state of webhooks.
//!
//! # Invariants
//! * Deliveries have sequence numbers in the order in which they are created.
//! * Only the number of the rows of deleted applications is kept, not the rows.

use std::collections::BTreeMap;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, EndpointRef, EventTypeName,
    HookMessageId, IdempotencyKey, JobId, MessageRef, Timestamp,
};
use wakeline_store::hook::{
    Application, Attempt, DeliveryJob, Endpoint, EndpointSecret, EventType, StoredMessage, Trigger,
};

/// The oracle's whole state of webhooks.
#[derive(Debug, Clone, Default)]
pub(in crate::oracle) struct OracleHook {
    pub(super) applications: BTreeMap<ApplicationId, Application>,
    pub(super) event_types: BTreeMap<EventTypeName, EventType>,
    pub(super) endpoint_entries: BTreeMap<EndpointId, OracleEndpoint>,
    pub(super) messages: BTreeMap<HookMessageId, OracleHookMessage>,
    pub(super) rows: BTreeMap<i64, OracleDelivery>,
    pub(super) attempts: BTreeMap<AttemptId, Attempt>,
    pub(super) keys: BTreeMap<(KeyScope, IdempotencyKey), KnownKey>,
    pub(super) jobs: BTreeMap<JobId, JobProgress>,
    /// The number of rows of deleted applications that maintenance has not removed yet.
    pub(super) left: u64,
    /// The last sequence number given to a delivery or job.
    pub(super) places: i64,
    /// How often endpoints were served.
    pub(super) served: u64,
}

/// An endpoint, and the state that decides when it gets deliveries.
#[derive(Debug, Clone)]
pub(super) struct OracleEndpoint {
    pub(super) endpoint: Endpoint,
    /// The secrets, with the current one first.
    pub(super) secrets: Vec<EndpointSecret>,
    pub(super) deleted: bool,
    /// The time up to which its rate limit is used.
    pub(super) rate_at: Timestamp,
    pub(super) throttled_until: Timestamp,
    pub(super) breaker: OracleBreaker,
    /// When it was last served, with a number that orders equal times: the endpoint that was served
    /// longest ago comes first.
    pub(super) served: (Timestamp, u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum OracleBreaker {
    Closed {
        failures: u32,
    },
    /// Half-open from `until` on.
    Open {
        until: Timestamp,
        successes: u32,
    },
}

#[derive(Debug, Clone)]
pub(super) struct OracleHookMessage {
    pub(super) stored: StoredMessage,
    pub(super) expires_at: Timestamp,
    pub(super) payload: Option<Bytes>,
}

/// A delivery.
#[derive(Debug, Clone)]
pub(super) struct OracleDelivery {
    pub(super) place: i64,
    pub(super) message: HookMessageId,
    pub(super) endpoint: EndpointId,
    pub(super) stage: DeliveryStage,
    /// The number of attempts that have ended.
    pub(super) attempts: u32,
    /// The number of ended attempts of the current schedule.
    pub(super) scheduled: u32,
    /// When the last ended attempt was claimed.
    pub(super) attempted_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryStage {
    Waiting(AttemptPlan),
    Leased(OracleDeliveryLease, AttemptPlan),
    Ended(DeliveryEnd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryEnd {
    Delivered,
    Failed,
    Cancelled,
}

/// The next attempt, or the one in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AttemptPlan {
    pub(super) due: Timestamp,
    /// Whether it was caused by a manual trigger or a job, so that it comes after all others.
    pub(super) behind: bool,
    /// For a manual attempt, the stage to which the delivery returns if the attempt fails.
    pub(super) manual: Option<BeforeManual>,
}

/// The stage of a delivery before a manual attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BeforeManual {
    Planned { due: Timestamp, behind: bool },
    Ended(DeliveryEnd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OracleDeliveryLease {
    pub(super) attempt: AttemptId,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    /// Whether the delivery was cancelled, so that no attempt follows.
    pub(super) cancelled: bool,
}

/// The scope of an idempotency key. Equal keys of different scopes are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyScope {
    Applications,
    EventTypes,
    Endpoints(ApplicationId),
    Messages(ApplicationId),
}

/// A stored idempotency key, with its request and the object that the request created.
#[derive(Debug, Clone)]
pub(super) struct KnownKey {
    pub(super) digest: [u8; 32],
    pub(super) made: MadeObject,
    pub(super) at: Timestamp,
}

/// The object that a request created.
#[derive(Debug, Clone)]
pub(super) enum MadeObject {
    Application(ApplicationId),
    EventType(EventTypeName),
    Endpoint(EndpointId),
    Message(HookMessageId),
}

/// A job and its progress.
#[derive(Debug, Clone)]
pub(super) struct JobProgress {
    pub(super) job: DeliveryJob,
    /// The last delivery that the job visited.
    pub(super) at: Option<(HookMessageId, EndpointId)>,
    /// Its sequence number: the oldest job runs first.
    pub(super) place: i64,
}

impl AttemptPlan {
    pub(super) fn scheduled(due: Timestamp) -> Self {
        Self { due, behind: false, manual: None }
    }

    pub(super) fn trigger(self) -> Trigger {
        if self.manual.is_some() { Trigger::Manual } else { Trigger::Scheduled }
    }
}

impl BeforeManual {
    pub(super) fn stage(self) -> DeliveryStage {
        match self {
            Self::Planned { due, behind } => {
                DeliveryStage::Waiting(AttemptPlan { due, behind, manual: None })
            }
            Self::Ended(end) => DeliveryStage::Ended(end),
        }
    }
}

impl OracleDelivery {
    /// Returns the plan if the delivery waits.
    pub(super) fn waiting(&self) -> Option<AttemptPlan> {
        match self.stage {
            DeliveryStage::Waiting(plan) => Some(plan),
            DeliveryStage::Leased(..) | DeliveryStage::Ended(_) => None,
        }
    }

    pub(super) fn lease(&self) -> Option<OracleDeliveryLease> {
        match self.stage {
            DeliveryStage::Leased(lease, _) => Some(lease),
            DeliveryStage::Waiting(_) | DeliveryStage::Ended(_) => None,
        }
    }

    /// Returns the lease, unless it has expired.
    pub(super) fn live(&self, now: Timestamp) -> Option<OracleDeliveryLease> {
        self.lease().filter(|lease| lease.until > now)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, DeliveryStage::Ended(_))
    }

    /// Returns whether its next attempt is its first scheduled one.
    pub(super) fn is_fresh(&self) -> bool {
        self.attempts == 0 && self.waiting().is_some_and(|plan| plan.manual.is_none())
    }
}

impl OracleHook {
    pub(super) fn next_place(&mut self) -> i64 {
        self.places += 1;
        self.places
    }

    pub(super) fn find_application(&self, which: &ApplicationRef) -> Option<ApplicationId> {
        match which {
            ApplicationRef::Id(id) => self.applications.contains_key(id).then_some(*id),
            ApplicationRef::Own(uid) => {
                let has = |one: &&Application| one.uid.as_ref() == Some(uid);
                self.applications.values().find(has).map(|one| one.id)
            }
        }
    }

    /// Finds an endpoint that is not deleted.
    pub(super) fn find_endpoint(
        &self,
        application: &ApplicationRef,
        which: &EndpointRef,
    ) -> Option<EndpointId> {
        let owner = self.find_application(application)?;
        let is = |entry: &&OracleEndpoint| match which {
            EndpointRef::Id(id) => entry.endpoint.id == *id,
            EndpointRef::Own(uid) => entry.endpoint.uid.as_ref() == Some(uid),
        };
        self.endpoint_entries_of(owner).find(is).map(|entry| entry.endpoint.id)
    }

    pub(super) fn find_message(
        &self,
        application: &ApplicationRef,
        which: &MessageRef,
    ) -> Option<HookMessageId> {
        let owner = self.find_application(application)?;
        let is = |message: &&OracleHookMessage| match which {
            MessageRef::Id(id) => message.stored.id == *id,
            MessageRef::Own(own) => message.stored.event_id.as_ref() == Some(own),
        };
        self.messages_of(owner).find(is).map(|message| message.stored.id)
    }

    /// Returns the endpoints of an application that are not deleted.
    pub(super) fn endpoint_entries_of(
        &self,
        owner: ApplicationId,
    ) -> impl Iterator<Item = &OracleEndpoint> {
        let of =
            move |entry: &&OracleEndpoint| entry.endpoint.application == owner && !entry.deleted;
        self.endpoint_entries.values().filter(of)
    }

    pub(super) fn messages_of(
        &self,
        owner: ApplicationId,
    ) -> impl Iterator<Item = &OracleHookMessage> {
        self.messages.values().filter(move |message| message.stored.application == owner)
    }

    /// Returns the deliveries of an endpoint, in the order of their sequence numbers.
    pub(super) fn rows_of(&self, endpoint: EndpointId) -> impl Iterator<Item = &OracleDelivery> {
        self.rows.values().filter(move |row| row.endpoint == endpoint)
    }

    pub(super) fn row_of(
        &self,
        message: HookMessageId,
        endpoint: EndpointId,
    ) -> Option<&OracleDelivery> {
        self.rows_of(endpoint).find(|row| row.message == message)
    }

    pub(super) fn endpoint_entry(&self, endpoint: EndpointId) -> &OracleEndpoint {
        self.endpoint_entries.get(&endpoint).expect("each delivery has an endpoint")
    }

    pub(super) fn endpoint_entry_mut(&mut self, endpoint: EndpointId) -> &mut OracleEndpoint {
        self.endpoint_entries.get_mut(&endpoint).expect("each delivery has an endpoint")
    }

    pub(super) fn row_mut(&mut self, place: i64) -> &mut OracleDelivery {
        self.rows.get_mut(&place).expect("the delivery was found before")
    }
}
