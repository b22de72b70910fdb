//! What the oracle remembers of webhooks.
//!
//! # Invariants
//! * The number of a delivery is its place: deliveries are made in the order of their commits.
//! * What an application leaves when it is deleted is only a number of rows.

use std::collections::BTreeMap;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, EndpointRef, EventTypeName,
    HookMessageId, IdempotencyKey, JobId, MessageRef, Timestamp,
};
use wakeline_store::hook::{
    Application, Attempt, Endpoint, EndpointSecret, EventType, Job, StoredMessage, Trigger,
};

/// Everything about webhooks.
#[derive(Debug, Clone, Default)]
pub(in crate::oracle) struct Hook {
    pub(super) applications: BTreeMap<ApplicationId, Application>,
    pub(super) event_types: BTreeMap<EventTypeName, EventType>,
    pub(super) spots: BTreeMap<EndpointId, Spot>,
    pub(super) messages: BTreeMap<HookMessageId, Message>,
    pub(super) rows: BTreeMap<i64, Row>,
    pub(super) attempts: BTreeMap<AttemptId, Attempt>,
    pub(super) keys: BTreeMap<(Scope, IdempotencyKey), Known>,
    pub(super) jobs: BTreeMap<JobId, Work>,
    /// Rows that deleted applications left behind.
    pub(super) left: u64,
    /// Counts deliveries.
    pub(super) places: i64,
    /// Counts how often endpoints were served.
    pub(super) served: u64,
}

/// An endpoint and what decides whether it gets something.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) endpoint: Endpoint,
    /// The current one first.
    pub(super) secrets: Vec<EndpointSecret>,
    pub(super) deleted: bool,
    /// Where its attempts have moved its rate to.
    pub(super) rate_at: Timestamp,
    pub(super) throttled_until: Timestamp,
    pub(super) breaker: Breaker,
    /// When it was last served, as a number: those served longest ago come first.
    pub(super) served: (Timestamp, u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Breaker {
    Closed {
        failures: u32,
    },
    /// Half-open from that moment on.
    Open {
        until: Timestamp,
        successes: u32,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) stored: StoredMessage,
    pub(super) expires_at: Timestamp,
    pub(super) payload: Option<Bytes>,
}

/// A delivery.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) place: i64,
    pub(super) message: HookMessageId,
    pub(super) endpoint: EndpointId,
    pub(super) stage: Stage,
    /// Attempts that have ended.
    pub(super) attempts: u32,
    /// Those of the current schedule.
    pub(super) scheduled: u32,
    /// When the last attempt that has ended was claimed.
    pub(super) attempted_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting(Plan),
    Leased(Lease, Plan),
    Ended(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Delivered,
    Failed,
    Cancelled,
}

/// The attempt that comes next, or is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) due: Timestamp,
    /// Of a manual trigger or a job: behind all others.
    pub(super) behind: bool,
    /// Of a manual attempt: where the delivery goes back to if it fails.
    pub(super) manual: Option<Before>,
}

/// How a delivery stood before a manual attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Planned { due: Timestamp, behind: bool },
    Ended(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) attempt: AttemptId,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    /// Nothing follows this attempt.
    pub(super) cancelled: bool,
}

/// Idempotency keys of different scopes do not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Applications,
    EventTypes,
    Endpoints(ApplicationId),
    Messages(ApplicationId),
}

/// A request that was made before.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) print: [u8; 32],
    pub(super) made: Made,
    pub(super) at: Timestamp,
}

/// What a request made.
#[derive(Debug, Clone)]
pub(super) enum Made {
    Application(ApplicationId),
    EventType(EventTypeName),
    Endpoint(EndpointId),
    Message(HookMessageId),
}

/// A job and how far it has come.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) job: Job,
    /// The last that was looked at.
    pub(super) at: Option<(HookMessageId, EndpointId)>,
    /// Its number: the oldest goes on first.
    pub(super) place: i64,
}

impl Plan {
    pub(super) fn scheduled(due: Timestamp) -> Self {
        Self { due, behind: false, manual: None }
    }

    pub(super) fn trigger(self) -> Trigger {
        if self.manual.is_some() { Trigger::Manual } else { Trigger::Scheduled }
    }
}

impl Before {
    pub(super) fn stage(self) -> Stage {
        match self {
            Self::Planned { due, behind } => Stage::Waiting(Plan { due, behind, manual: None }),
            Self::Ended(end) => Stage::Ended(end),
        }
    }
}

impl Row {
    /// The plan of one that waits.
    pub(super) fn waiting(&self) -> Option<Plan> {
        match self.stage {
            Stage::Waiting(plan) => Some(plan),
            Stage::Leased(..) | Stage::Ended(_) => None,
        }
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        match self.stage {
            Stage::Leased(lease, _) => Some(lease),
            Stage::Waiting(_) | Stage::Ended(_) => None,
        }
    }

    /// The lease, if it has not expired.
    pub(super) fn live(&self, now: Timestamp) -> Option<Lease> {
        self.lease().filter(|lease| lease.until > now)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_))
    }

    /// Whether its next attempt is its first, by schedule.
    pub(super) fn is_fresh(&self) -> bool {
        self.attempts == 0 && self.waiting().is_some_and(|plan| plan.manual.is_none())
    }
}

impl Hook {
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

    /// An endpoint that is there.
    pub(super) fn find_endpoint(
        &self,
        application: &ApplicationRef,
        which: &EndpointRef,
    ) -> Option<EndpointId> {
        let owner = self.find_application(application)?;
        let is = |spot: &&Spot| match which {
            EndpointRef::Id(id) => spot.endpoint.id == *id,
            EndpointRef::Own(uid) => spot.endpoint.uid.as_ref() == Some(uid),
        };
        self.spots_of(owner).find(is).map(|spot| spot.endpoint.id)
    }

    pub(super) fn find_message(
        &self,
        application: &ApplicationRef,
        which: &MessageRef,
    ) -> Option<HookMessageId> {
        let owner = self.find_application(application)?;
        let is = |message: &&Message| match which {
            MessageRef::Id(id) => message.stored.id == *id,
            MessageRef::Own(own) => message.stored.event_id.as_ref() == Some(own),
        };
        self.messages_of(owner).find(is).map(|message| message.stored.id)
    }

    /// The endpoints of an application that are there.
    pub(super) fn spots_of(&self, owner: ApplicationId) -> impl Iterator<Item = &Spot> {
        let of = move |spot: &&Spot| spot.endpoint.application == owner && !spot.deleted;
        self.spots.values().filter(of)
    }

    pub(super) fn messages_of(&self, owner: ApplicationId) -> impl Iterator<Item = &Message> {
        self.messages.values().filter(move |message| message.stored.application == owner)
    }

    /// Deliveries of an endpoint, by place.
    pub(super) fn rows_of(&self, endpoint: EndpointId) -> impl Iterator<Item = &Row> {
        self.rows.values().filter(move |row| row.endpoint == endpoint)
    }

    pub(super) fn row_of(&self, message: HookMessageId, endpoint: EndpointId) -> Option<&Row> {
        self.rows_of(endpoint).find(|row| row.message == message)
    }

    pub(super) fn spot(&self, endpoint: EndpointId) -> &Spot {
        self.spots.get(&endpoint).expect("a delivery has its endpoint")
    }

    pub(super) fn spot_mut(&mut self, endpoint: EndpointId) -> &mut Spot {
        self.spots.get_mut(&endpoint).expect("a delivery has its endpoint")
    }

    pub(super) fn row_mut(&mut self, place: i64) -> &mut Row {
        self.rows.get_mut(&place).expect("the delivery was found before")
    }
}
