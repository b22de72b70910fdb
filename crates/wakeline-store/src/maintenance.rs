//! Maintenance mode: pushes are held back or refused for a while, and pops are paused.
//!
//! # Where it sits
//! The mode is stored in the database and checked within the store's own transactions, so that it
//! takes effect on all nodes at once, including nodes that start later. Nodes keep no copy of it
//! in memory.
//!
//! # Invariants
//! * While pushes are held back or refused, no log grows: messages that the server itself would
//!   push (scheduled messages that are due, turns of orchestrations, redrives) are held back in
//!   both modes.
//! * Messages that are held back are durable, and their transaction ids count for deduplication.
//!   When pushes are open again, the messages get their offsets in the order in which they were
//!   accepted, before any later push to their partition.
//! * A pause of pops does not affect existing leases: they can be settled, extended and released.

use async_trait::async_trait;

use crate::access::Consequence;
use crate::error::StoreError;

/// How pushes are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PushGate {
    /// Pushes are stored and become available at once.
    #[default]
    Open,
    /// Pushes are stored and held back.
    Hold,
    /// Pushes of producers are refused.
    Refuse,
}

/// The current maintenance mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maintenance {
    /// How pushes are handled.
    pub pushes: PushGate,
    /// Whether claims return no messages.
    pub pops_paused: bool,
}

/// A change of the maintenance mode. A field that is `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetMaintenance {
    /// How pushes are to be handled.
    pub pushes: Option<PushGate>,
    /// Whether claims are to return no messages.
    pub pops_paused: Option<bool>,
}

impl SetMaintenance {
    /// The maintenance mode after the change.
    pub fn applied_to(self, before: Maintenance) -> Maintenance {
        Maintenance {
            pushes: self.pushes.unwrap_or(before.pushes),
            pops_paused: self.pops_paused.unwrap_or(before.pops_paused),
        }
    }
}

/// The result of a change of the maintenance mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintenanceSet {
    /// The mode before the change.
    pub before: Maintenance,
    /// The mode after the change.
    pub now: Maintenance,
}

impl Consequence for MaintenanceSet {
    fn changed(&self) -> bool {
        self.before != self.now
    }
}

/// The maintenance mode of the queues.
#[async_trait]
pub trait QueueMaintenance: Send + Sync {
    /// The current maintenance mode.
    async fn maintenance(&self) -> Result<Maintenance, StoreError>;

    /// Changes the maintenance mode, and records the action in the audit log. The store notifies
    /// other processes that anything may have changed; the caller notifies its own waiters.
    async fn set_maintenance(&self, set: SetMaintenance) -> Result<MaintenanceSet, StoreError>;

    /// The number of messages that are held back, or were held back and have no offset yet.
    async fn held_messages(&self) -> Result<u64, StoreError>;

    /// Gives offsets to some of the messages that were held back, if pushes are open. Returns how
    /// many; zero means that none is left. Claims and pushes do the same for the held messages that
    /// they encounter.
    async fn release_held(&self) -> Result<u64, StoreError>;
}
