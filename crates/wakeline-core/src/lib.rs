//! The basic types and rules of Wakeline: names, ids, leases, queue options; orchestration
//! instances, their capabilities, tags and tokens; webhook applications, endpoints, and event
//! types. Also the lines and topics of all three: a line is what waiters claim from in one call
//! (like the queue and the group of a pop), and a topic is what a hint about new work refers to.
//!
//! # Where it sits
//! At the bottom of the dependency graph: every other crate uses these types. This crate does no
//! I/O and does not depend on a runtime.
//!
//! # Invariants
//! * A name or id that exists is valid: validation happens once, in the constructors.
//! * Nothing here reads a clock: times come from the database, durations from the caller.

mod access;
mod error_chain;
mod flow;
mod hook;
mod id;
mod json;
mod lease;
mod line;
mod message_lifetime;
mod name;
mod nearest;
mod options;
mod patch;
mod time;

pub use access::{Realm, Scope, ScopeError, Scopes, Verb};
pub use error_chain::error_chain;
pub use flow::{
    ActivityFilter, ActivityName, ActivityNames, ActivityRoute, Capabilities, Capability,
    FlowChange, FlowChangeKind, FlowLine, FlowToken, FlowTopic, InstanceId, KvKey,
    OrchestrationName, OwnerId, SessionId, Tag, TagFilter,
};
pub use hook::{
    ApplicationId, ApplicationRef, AttemptId, BreakerOptions, Channel, DeliveryToken, EndpointId,
    EndpointOptions, EndpointRef, EventId, EventPattern, EventTypeName, FifoOptions, HeaderStyle,
    HookChange, HookChangeKind, HookLine, HookMessageId, HookTextError, HookTopic, IdempotencyKey,
    JobId, MESSAGE_PAYLOAD_BYTES_MAX, MESSAGE_RETENTION_DEFAULT, MessageRef,
    RETRY_SCHEDULE_DEFAULT, StatusRange, Uid, UidError,
};
pub use id::{DeadLetterId, IdError, MessageId, NodeId, PartitionId, RedriveId, TransactionId};
pub use json::{JsonTooDeep, check_json_depth};
pub use lease::{CursorId, GroupId, LeaseId, LeaseToken};
pub use line::{Change, QueueLine, Selector, Subscription, Topic};
pub use message_lifetime::Loss;
pub use name::{
    GroupName, NAME_BYTES_MAX, NameError, Namespace, PartitionName, QueueName, TaskName, TimerKey,
    TraceName,
};
pub use nearest::nearest;
pub use options::{
    Fencing, MessageOrder, QueueOptions, RetryBackoff, RetryDecision, Verdict, lane_partition,
};
pub use patch::OptionsPatch;
pub use time::Timestamp;
