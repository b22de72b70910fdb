//! What callers of the hub say and hear: patience, outcomes, where hints come from, the link.

use std::time::Duration;

use serde::Serialize;

/// How long a poll is willing to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Not at all: claim once and answer.
    Now,
    /// Up to this long, capped by `max_wait_time`. Zero is [`Patience::Now`].
    Wait(Duration),
}

/// How a poll ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken<G> {
    /// It got something.
    Granted(G),
    /// There was nothing within its patience.
    Empty,
    /// The hub is shutting down; ask another node.
    Drained,
}

/// Why a poll failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeError<E> {
    /// As many polls wait as this node takes. Come back later.
    #[error("too many polls are waiting on this node: try again later, or on another node")]
    TooMany {
        /// How long to stay away.
        retry_after: Duration,
    },
    /// The claim failed, and there was no time left to try again.
    #[error("the claim failed: {0}")]
    Claim(E),
}

/// Where a hint comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HintSource {
    /// A commit of this process.
    InProcess,
    /// Another process.
    Notify,
}

/// Whether hints of other processes can reach this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Link {
    /// They arrive. The hub assumes this until it is told otherwise.
    Up,
    /// They may be lost.
    Down {
        /// Why, in words for the log and for health.
        reason: String,
    },
    /// They are switched off, or cannot be had here.
    Off {
        /// Why, in words for the log and for health.
        reason: String,
    },
}
