//! The arguments and results of calls to the hub: patience, outcomes, the source of hints, and the
//! state of the listener.

use std::time::Duration;

use serde::Serialize;

/// How long a poll is willing to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Do not wait: claim once and answer.
    Now,
    /// Wait up to this long, capped by `max_wait_time`. Zero is the same as [`Patience::Now`].
    Wait(Duration),
}

/// The result of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOutcome<C> {
    /// The poll got something.
    Claimed(C),
    /// There was nothing within the poll's patience.
    Empty,
    /// The hub is shutting down; poll another node.
    Drained,
}

/// The reason why a poll failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeError<E> {
    /// As many polls are waiting as this node accepts. Try again later.
    #[error("too many polls are waiting on this node: try again later, or on another node")]
    TooMany {
        /// The time to wait before the next attempt.
        retry_after: Duration,
    },
    /// The claim failed, and there was no time left to try again.
    #[error("the claim failed: {0}")]
    Claim(E),
}

/// Where a hint comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HintSource {
    /// A commit of this process, reported directly.
    InProcess,
    /// A hint that was sent by another process.
    Notify,
}

/// Whether hints of other processes can reach this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Link {
    /// Hints arrive. The hub assumes this until [`crate::Hub::link`] reports otherwise.
    Up,
    /// Hints may be lost.
    Down {
        /// The reason, in words, for the log and for health pages.
        reason: String,
    },
    /// Hints are switched off, or are not available here.
    Off {
        /// The reason, in words, for the log and for health pages.
        reason: String,
    },
}
