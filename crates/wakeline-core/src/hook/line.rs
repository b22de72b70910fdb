//! What waits for webhook work, and what hints say to it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::id::EndpointId;

/// What is claimed together. Each is its own topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HookLine {
    /// Deliveries that this server sends.
    Push,
    /// Deliveries of an endpoint that its owner fetches.
    Pull(EndpointId),
    /// Work in the background: jobs, payloads that expire.
    Chores,
}

/// What hints speak of: exactly what can be waited for.
pub type HookTopic = HookLine;

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

    /// The line that is concerned, if the change is about something to claim.
    pub fn line(&self) -> Option<HookLine> {
        match self.what {
            HookWhat::Push => Some(HookLine::Push),
            HookWhat::Pull(endpoint) => Some(HookLine::Pull(endpoint)),
            HookWhat::Chores => Some(HookLine::Chores),
            HookWhat::EventTypes => None,
        }
    }
}
