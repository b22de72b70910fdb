//! API keys, and the audit log of administrative actions.
//!
//! # Where it sits
//! `wakeline-access` makes its decisions by the keys that are stored here. The server wraps each
//! administrative request in a [`AuditAction`], and stores write it to the audit log.
//!
//! # Invariants
//! * A store never sees a secret: keys are passed as digests.
//! * An action and its audit entry are one transaction. Writes of the administrative traits record
//!   the [`AuditAction`] that they run under, unless nothing changed.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{GroupId, GroupName, PartitionId, QueueName, Scope, Timestamp};

use crate::admin::QueueDetail;
use crate::dead::RedriveJob;
use crate::encryption::Rekeyed;
use crate::error::StoreError;
use crate::flow::{DeleteReport, EnqueueOutcome, EnqueueReply, PruneReport};
use crate::hook::{Created, DeliveryJob, EventType, ResendOutcome, RotateOutcome, UpdateOutcome};
use crate::messages::InterventionOutcome;

/// The SHA-256 of a key's secret.
pub type SecretDigest = [u8; 32];

/// An API key to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The key's id, chosen by the caller; it is part of the key as clients send it.
    pub id: String,
    /// The display name; no two live keys share one.
    pub name: String,
    /// The permissions that the key carries.
    pub scopes: Vec<Scope>,
    /// The SHA-256 digest of the key's secret.
    pub digest: SecretDigest,
    /// How long the key is valid; `None` means that it never expires.
    pub valid_for: Option<Duration>,
}

/// A stored API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The key's id, which is part of the key as clients send it.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The permissions that the key carries.
    pub scopes: Vec<Scope>,
    /// The digest of the current secret.
    pub digest: SecretDigest,
    /// The digest of the previous secret, and the time until which it stays valid.
    pub former: Option<(SecretDigest, Timestamp)>,
    /// When the key was created.
    pub created_at: Timestamp,
    /// When the key expires; `None` means never.
    pub expires_at: Option<Timestamp>,
    /// When the key was last used, accurate to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// When the key was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
    /// The store's clock when this row was read.
    pub read_at: Timestamp,
}

/// An administrative action as recorded in the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The entry's number; later entries have greater numbers.
    pub number: i64,
    /// When the action was committed.
    pub at: Timestamp,
    /// The caller, such as `key:ci`.
    pub actor: String,
    /// The name of the action, such as `queue.delete`.
    pub action: String,
    /// The name or id of the object that the action changed.
    pub target: String,
    /// Further details; may be empty.
    pub detail: String,
}

/// Which audit entries to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only entries before this number.
    pub before: Option<i64>,
    /// Only entries of this actor.
    pub actor: Option<String>,
    /// Only entries of this action.
    pub action: Option<String>,
    /// Only entries about this target.
    pub target: Option<String>,
    /// The maximum number of entries to return.
    pub limit: u32,
}

/// An administrative action in progress: who does what to which object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditAction {
    /// The caller, as authenticated by the server.
    pub actor: String,
    /// The name of the action, such as `queue.delete`.
    pub action: &'static str,
    /// The name or id of the object that is changed.
    pub target: String,
    /// Further details; may be empty.
    pub detail: String,
}

tokio::task_local! {
    static CURRENT_ACTION: RefCell<AuditAction>;
}

impl AuditAction {
    /// Runs a call under this action: administrative writes within it record the action. Tasks that
    /// the call spawns do not inherit it.
    pub async fn during<F: Future>(self, call: F) -> F::Output {
        CURRENT_ACTION.scope(RefCell::new(self), call).await
    }

    /// The action that the current task runs under. Stores read it when a call begins, because a
    /// call whose caller is dropped finishes in another task.
    pub fn current() -> Option<Self> {
        CURRENT_ACTION.try_with(|action| action.borrow().clone()).ok()
    }

    /// Replaces the target or the detail of the current action, if there is one.
    pub fn amend(target: Option<String>, detail: Option<String>) {
        let _ = CURRENT_ACTION.try_with(|action| {
            let mut action = action.borrow_mut();
            action.target = target.unwrap_or_else(|| std::mem::take(&mut action.target));
            action.detail = detail.unwrap_or_else(|| std::mem::take(&mut action.detail));
        });
    }
}

/// The result of an administrative write. Stores write an audit entry only if something changed.
pub trait Consequence {
    /// Whether the write changed something.
    fn changed(&self) -> bool;
}

impl Consequence for bool {
    fn changed(&self) -> bool {
        *self
    }
}

impl Consequence for u64 {
    fn changed(&self) -> bool {
        *self > 0
    }
}

impl Consequence for QueueDetail {
    fn changed(&self) -> bool {
        true
    }
}

impl Consequence for InterventionOutcome {
    fn changed(&self) -> bool {
        *self == Self::Done
    }
}

impl Consequence for RedriveJob {
    fn changed(&self) -> bool {
        true
    }
}

impl Consequence for DeliveryJob {
    fn changed(&self) -> bool {
        true
    }
}

impl Consequence for EventType {
    fn changed(&self) -> bool {
        true
    }
}

impl Consequence for DeleteReport {
    fn changed(&self) -> bool {
        self.instances > 0
    }
}

impl Consequence for EnqueueReply {
    fn changed(&self) -> bool {
        self.outcomes.contains(&EnqueueOutcome::Queued)
    }
}

impl Consequence for Rekeyed {
    fn changed(&self) -> bool {
        self.reencrypted > 0
    }
}

impl Consequence for PruneReport {
    fn changed(&self) -> bool {
        self.executions > 0
    }
}

impl Consequence for ResendOutcome {
    fn changed(&self) -> bool {
        *self == Self::Due
    }
}

impl Consequence for RotateOutcome {
    fn changed(&self) -> bool {
        *self == Self::Rotated
    }
}

impl<T> Consequence for Created<T> {
    fn changed(&self) -> bool {
        matches!(self, Self::New(_))
    }
}

impl<T> Consequence for UpdateOutcome<T> {
    fn changed(&self) -> bool {
        matches!(self, Self::Updated(_))
    }
}

impl<T: Consequence> Consequence for Option<T> {
    fn changed(&self) -> bool {
        self.as_ref().is_some_and(T::changed)
    }
}

/// A result together with the changes to publish to waiters: a change to publish counts as a
/// change.
impl<T: Consequence, C> Consequence for (T, Vec<C>) {
    fn changed(&self) -> bool {
        self.0.changed() || !self.1.is_empty()
    }
}

/// API keys and the audit log.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// Creates a key. Returns false if a live key has the same name, or any key the same id. Writes
    /// an audit entry.
    async fn create_key(&self, key: NewKey) -> Result<bool, StoreError>;

    /// All keys ordered by name, including revoked and expired ones.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// The key with this id, revoked and expired ones included.
    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError>;

    /// Revokes a key permanently. Returns false if it does not exist or is revoked already. Writes
    /// an audit entry.
    async fn revoke_key(&self, id: &str) -> Result<bool, StoreError>;

    /// Gives a key a new secret. The current secret stays valid for `overlap`; the one before that
    /// becomes invalid. Returns false if the key does not exist or is revoked. Writes an audit
    /// entry.
    async fn rotate_key(
        &self,
        id: &str,
        digest: SecretDigest,
        overlap: Duration,
    ) -> Result<bool, StoreError>;

    /// Records that keys are in use, unless that was recorded within the last minute.
    async fn touch_keys(&self, ids: Vec<String>) -> Result<(), StoreError>;

    /// The queues that partitions belong to, in order; `None` where a partition does not exist.
    async fn queues_of(
        &self,
        partitions: Vec<PartitionId>,
    ) -> Result<Vec<Option<QueueName>>, StoreError>;

    /// The names of groups, in order; `None` where a group does not exist.
    async fn groups_of(&self, groups: Vec<GroupId>) -> Result<Vec<Option<GroupName>>, StoreError>;

    /// A page of audit entries, newest first.
    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>, StoreError>;

    /// Removes up to `limit` audit entries older than a span, oldest first. Returns how many were
    /// removed.
    async fn prune_audit(&self, older_than: Duration, limit: u32) -> Result<u64, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_action_is_visible_in_its_own_task_and_not_in_spawned_ones() {
        assert_eq!(AuditAction::current(), None);
        let action = AuditAction {
            actor: "key:ci".into(),
            action: "queue.delete",
            ..AuditAction::default()
        };
        let seen = action.clone().during(async {
            AuditAction::amend(Some("orders".into()), None);
            tokio::task::yield_now().await;
            let spawned = tokio::spawn(async { AuditAction::current() }).await.expect("no panic");
            (AuditAction::current(), spawned)
        });
        let (here, spawned) = seen.await;
        assert_eq!(here, Some(AuditAction { target: "orders".into(), ..action }));
        assert_eq!(spawned, None);
        AuditAction::amend(Some("no action is current".into()), None);
    }
}
