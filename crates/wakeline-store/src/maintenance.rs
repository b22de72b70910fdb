//! Maintenance: pushes that are held back or refused for a while, pops that pause.
//!
//! # Where it sits
//! Kept by the store and judged in its own transactions, so that all nodes obey at once, and one
//! that starts later, too. Nothing of it is in a node's memory.
//!
//! # Invariants
//! * While pushes do not go through, no log grows: what the server itself would push (scheduled
//!   messages that are due, turns of orchestrations, redrives) is held back in either mode.
//! * What is held back is durable, and its transaction ids count. Once pushes go through again it
//!   gets its offsets in the order in which it was accepted, before any later push to its
//!   partition.
//! * A pause takes nothing from who holds a lease: it can be settled, extended and released.

use async_trait::async_trait;

use crate::access::Consequence;
use crate::error::StoreError;

/// What becomes of pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PushGate {
    /// They are stored.
    #[default]
    Open,
    /// They are stored and held back.
    Hold,
    /// Those of producers are refused.
    Refuse,
}

/// What is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maintenance {
    /// What becomes of pushes.
    pub pushes: PushGate,
    /// Whether claims of messages get nothing.
    pub pops_paused: bool,
}

/// A change of what is suspended. What is not given stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetMaintenance {
    /// What is to become of pushes.
    pub pushes: Option<PushGate>,
    /// Whether claims of messages are to get nothing.
    pub pops_paused: Option<bool>,
}

impl SetMaintenance {
    /// What stands after the change.
    pub fn applied_to(self, before: Maintenance) -> Maintenance {
        Maintenance {
            pushes: self.pushes.unwrap_or(before.pushes),
            pops_paused: self.pops_paused.unwrap_or(before.pops_paused),
        }
    }
}

/// How a change of what is suspended went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintenanceSet {
    /// What stood before.
    pub before: Maintenance,
    /// What stands now.
    pub now: Maintenance,
}

impl Consequence for MaintenanceSet {
    fn changed(&self) -> bool {
        self.before != self.now
    }
}

/// Maintenance.
#[async_trait]
pub trait QueueMaintenance: Send + Sync {
    /// What is suspended.
    async fn maintenance(&self) -> Result<Maintenance, StoreError>;

    /// Suspends, or resumes. Other processes are told by the store that anything may have changed;
    /// the caller tells its own waiters. Records the deed.
    async fn set_maintenance(&self, set: SetMaintenance) -> Result<MaintenanceSet, StoreError>;

    /// How many messages are held back, or were and have no offset yet.
    async fn held_messages(&self) -> Result<u64, StoreError>;

    /// Gives some of what was held back its offsets, if pushes go through. Returns how many: none
    /// is left once that is zero. Claims and pushes do the same for what they come across.
    async fn release_held(&self) -> Result<u64, StoreError>;
}
