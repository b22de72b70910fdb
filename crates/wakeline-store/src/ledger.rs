//! The ledger of deliveries: to which worker messages were delivered, when, and how each delivery
//! ended.

use wakeline_core::{GroupName, Timestamp};

/// How a delivery ended. Every delivery ends in exactly one of these ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryOutcome {
    /// The delivery has not ended: its lease is live.
    Open,
    /// The consumer acknowledged the message.
    Acked,
    /// The consumer reported a failure, or gave the message up.
    Failed,
    /// The lease expired before the message was settled.
    Expired,
    /// The message was given back without counting the attempt, or its group was moved.
    Released,
}

/// One delivery of a message, as part of a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LedgerEntry {
    /// When the message was delivered.
    pub offered_at: Timestamp,
    /// When the lease ended, by settling or by expiring; `None` while it is live.
    pub ended_at: Option<Timestamp>,
    /// The group that the message was delivered to.
    pub group: GroupName,
    /// The worker that claimed the message, if it gave a name.
    pub worker: Option<String>,
    /// When the lease expires or would have expired, after its last extension.
    pub leased_until: Timestamp,
    /// How the delivery ended for this message.
    pub outcome: DeliveryOutcome,
    /// The first offset of the lease.
    pub first_offset: i64,
    /// The last offset of the lease.
    pub last_offset: i64,
    /// The number of messages that were delivered together.
    pub messages: u64,
}
