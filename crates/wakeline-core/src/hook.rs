//! The nouns of webhook delivery: ids, event types and the patterns that match them, channels,
//! endpoint options, and what a commit may have changed for those who wait.
//!
//! # Invariants
//! * An id is a UUIDv7 behind a prefix that says what it names; its text sorts by time.
//! * A user's own id (`uid`) never looks like one of ours, so that either can stand in a path.
//! * A pattern is a whole event type, or a beginning of one followed by a single `*`.

mod id;
mod line;
mod options;
mod pattern;

pub use id::{
    ApplicationId, ApplicationRef, AttemptId, DeliveryToken, EndpointId, EndpointRef, EventId,
    HookMessageId, IdempotencyKey, JobId, MessageRef, Uid, UidError,
};
pub use line::{HookChange, HookLine, HookTopic, HookWhat};
pub use options::{
    BreakerOptions, EndpointOptions, FifoOptions, HeaderStyle, MESSAGE_PAYLOAD_BYTES_MAX,
    MESSAGE_RETENTION_DEFAULT, RETRY_SCHEDULE_DEFAULT, StatusRange,
};
pub use pattern::{Channel, EventPattern, EventTypeName, HookTextError};
