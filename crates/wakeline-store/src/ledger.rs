//! The ledger: to whom messages were delivered, when, and how that ended.

use wakeline_core::{GroupName, Timestamp};

/// How a delivery ended. Each ends as exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryOutcome {
    /// Not yet: its lease is live.
    Open,
    /// The consumer completed it.
    Acked,
    /// The consumer said that it failed, or gave it up.
    Failed,
    /// The lease ran out first.
    Expired,
    /// It was given back, uncounted; or its group was moved meanwhile.
    Released,
}

/// One delivery of a message: its part in a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LedgerEntry {
    /// When it was offered.
    pub offered_at: Timestamp,
    /// When the lease ended; `None` while it is live. One that ran out ended then.
    pub ended_at: Option<Timestamp>,
    /// On behalf of which group.
    pub group: GroupName,
    /// To whom.
    pub worker: Option<String>,
    /// Until when the lease lasted, or was to last; as it was last extended.
    pub leased_until: Timestamp,
    /// How it ended for this message.
    pub outcome: DeliveryOutcome,
    /// The first offset of the lease.
    pub first_offset: i64,
    /// The last one.
    pub last_offset: i64,
    /// Messages that were delivered together.
    pub messages: u64,
}
