//! What waits for webhook work, and what hints say to it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::id::EndpointId;

/// What is claimed together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HookLine {
    /// Deliveries that this server sends.
    Push,
    /// The first attempts among them, for senders that have room for nothing else: a line of its
    /// own, because that it is empty says nothing about [`HookLine::Push`].
    PushFresh,
    /// Deliveries of an endpoint that its owner fetches.
    Pull(EndpointId),
    /// Work in the background: jobs, payloads that expire.
    Chores,
}

/// What hints speak of: what can be waited for, without [`HookLine::PushFresh`], which hears those
/// of [`HookLine::Push`].
pub type HookTopic = HookLine;

impl HookLine {
    /// What hints say that concern it.
    pub fn topic(&self) -> HookTopic {
        match self {
            Self::PushFresh => Self::Push,
            other => other.clone(),
        }
    }
}

/// A hint: something may have become available. Carries no data.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HookChange {
    /// What may be available.
    pub what: HookWhat,
    /// How long from now until there is something to claim.
    pub due_in: Duration,
}

/// What a [`HookChange`] speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookWhat {
    /// A delivery that this server sends.
    Push,
    /// A delivery of an endpoint that its owner fetches.
    Pull(EndpointId),
    /// Work in the background.
    Chores,
    /// The event types: whoever keeps them in memory reads them again.
    EventTypes,
}

impl HookChange {
    /// Something is available now.
    pub fn now(what: HookWhat) -> Self {
        Self { what, due_in: Duration::ZERO }
    }

    /// The topic of the lines that are concerned, if the change is about something to claim.
    pub fn line(&self) -> Option<HookTopic> {
        match self.what {
            HookWhat::Push => Some(HookLine::Push),
            HookWhat::Pull(endpoint) => Some(HookLine::Pull(endpoint)),
            HookWhat::Chores => Some(HookLine::Chores),
            HookWhat::EventTypes => None,
        }
    }
}
