//! The basic types of webhook delivery: ids, event types and the patterns that match them,
//! channels, endpoint options, and the changes that a commit reports to waiters.
//!
//! # Invariants
//! * An id is a UUIDv7 behind a prefix that says what it identifies; its text sorts by time.
//! * A user's own id (`uid`) never has the form of a generated one, so that either can be used in a
//!   path.
//! * A pattern is a complete event type, or the beginning of one followed by a single `*`.

mod id;
mod line;
mod options;
mod pattern;

pub use id::{
    ApplicationId, ApplicationRef, AttemptId, DeliveryToken, EndpointId, EndpointRef, EventId,
    HookMessageId, IdempotencyKey, JobId, MessageRef, Uid, UidError,
};
pub use line::{HookChange, HookChangeKind, HookLine, HookTopic};
pub use options::{
    BreakerOptions, EndpointOptions, FifoOptions, HeaderStyle, MESSAGE_PAYLOAD_BYTES_MAX,
    MESSAGE_RETENTION_DEFAULT, RETRY_SCHEDULE_DEFAULT, StatusRange,
};
pub use pattern::{Channel, EventPattern, EventTypeName, HookTextError};
