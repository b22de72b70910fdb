//! The lines in which webhook tasks wait, and the hints that they receive.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::id::EndpointId;

/// What is claimed together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HookLine {
    /// Deliveries that this server sends.
    Push,
    /// First attempts of such deliveries, for senders that have capacity for nothing else. It is a
    /// line of its own, because that it is empty says nothing about [`HookLine::Push`].
    PushFresh,
    /// Deliveries of an endpoint that its owner pulls.
    Pull(EndpointId),
    /// Background work: jobs, and payloads that expire.
    Background,
}

/// What a hint refers to. [`HookLine::PushFresh`] is not a topic: its waiters receive the hints of
/// [`HookLine::Push`].
pub type HookTopic = HookLine;

impl HookLine {
    /// Returns the topic whose hints concern this line.
    pub fn topic(&self) -> HookTopic {
        match self {
            Self::PushFresh => Self::Push,
            other => other.clone(),
        }
    }
}

/// A hint: something may have become available. It carries no data.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HookChange {
    /// What may be available.
    pub what: HookChangeKind,
    /// The time from now until there is something to claim.
    pub due_in: Duration,
}

/// What a [`HookChange`] refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookChangeKind {
    /// A delivery that this server sends.
    Push,
    /// A delivery of an endpoint that its owner pulls.
    Pull(EndpointId),
    /// Background work.
    #[serde(rename = "chores")]
    Background,
    /// The event types: a node that caches them reads them again.
    EventTypes,
}

impl HookChange {
    /// Creates a hint for something that is available now.
    pub fn now(what: HookChangeKind) -> Self {
        Self { what, due_in: Duration::ZERO }
    }

    /// Returns the topic of the lines that are concerned, if the change is about something to
    /// claim.
    pub fn line(&self) -> Option<HookTopic> {
        match self.what {
            HookChangeKind::Push => Some(HookLine::Push),
            HookChangeKind::Pull(endpoint) => Some(HookLine::Pull(endpoint)),
            HookChangeKind::Background => Some(HookLine::Background),
            HookChangeKind::EventTypes => None,
        }
    }
}
