//! Who may call, and what they did: API keys, and the audit of administrative acts.
//!
//! # Where it sits
//! `wakeline-access` decides by what is kept here; whoever serves a request says what is being done
//! with a [`Deed`], and stores record it.
//!
//! # Invariants
//! * A store knows no secret: keys come as digests.
//! * An act and its audit entry are one transaction. Writes of the administrative traits record the
//!   [`Deed`] that they are called under, unless nothing changed.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{GroupId, GroupName, PartitionId, QueueName, Scope, Timestamp};

use crate::admin::QueueDetail;
use crate::dead::RedriveJob;
use crate::error::StoreError;
use crate::flow::{DeleteReport, EnqueueOutcome, EnqueueReply, PruneReport};
use crate::hook::{Created, EventType, Job, ResendOutcome, RotateOutcome, UpdateOutcome};
use crate::messages::Intervened;
use crate::sealing::Rekeyed;

/// The SHA-256 of a key's secret.
pub type SecretDigest = [u8; 32];

/// A key to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Its id, made by the caller; part of the key as it is sent.
    pub id: String,
    /// What people call it; no two live keys share a name.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// The digest of its secret.
    pub digest: SecretDigest,
    /// How long it is valid; `None` for ever.
    pub valid_for: Option<Duration>,
}

/// A key as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// The digest of its secret.
    pub digest: SecretDigest,
    /// The digest of the secret before, and until when that is valid.
    pub former: Option<(SecretDigest, Timestamp)>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it is valid.
    pub expires_at: Option<Timestamp>,
    /// When it was used last, give or take a minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The store's time when this was read.
    pub read_at: Timestamp,
}

/// An administrative act, as the audit tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number; later ones are greater.
    pub number: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What: `queue.delete`, say.
    pub act: String,
    /// To what.
    pub target: String,
    /// More of it; may be empty.
    pub detail: String,
}

/// Which audit entries to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only before this number.
    pub before: Option<i64>,
    /// Only of this actor.
    pub actor: Option<String>,
    /// Only of this act.
    pub act: Option<String>,
    /// Only of this target.
    pub target: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// An administrative act under way: who does what to what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deed {
    /// Who.
    pub actor: String,
    /// What.
    pub act: &'static str,
    /// To what.
    pub target: String,
    /// More of it.
    pub detail: String,
}

tokio::task_local! {
    static DEED: RefCell<Deed>;
}

impl Deed {
    /// Runs a call under this deed: administrative writes in it record it. A task that the call
    /// spawns is on its own.
    pub async fn during<F: Future>(self, call: F) -> F::Output {
        DEED.scope(RefCell::new(self), call).await
    }

    /// The deed that the caller runs under. Stores ask for it when a call begins, because a call
    /// whose caller goes away ends elsewhere.
    pub fn current() -> Option<Self> {
        DEED.try_with(|deed| deed.borrow().clone()).ok()
    }

    /// Says more of the deed that the caller runs under, if it runs under one.
    pub fn tell(target: Option<String>, detail: Option<String>) {
        let _ = DEED.try_with(|deed| {
            let mut deed = deed.borrow_mut();
            deed.target = target.unwrap_or_else(|| std::mem::take(&mut deed.target));
            deed.detail = detail.unwrap_or_else(|| std::mem::take(&mut deed.detail));
        });
    }
}

/// What came of an administrative write: stores record a deed only if something changed.
pub trait Consequence {
    /// Whether something changed.
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

impl Consequence for Intervened {
    fn changed(&self) -> bool {
        *self == Self::Done
    }
}

impl Consequence for RedriveJob {
    fn changed(&self) -> bool {
        true
    }
}

impl Consequence for Job {
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
        self.resealed > 0
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

/// With what the caller tells its waiters: who has something to tell has changed something.
impl<T: Consequence, C> Consequence for (T, Vec<C>) {
    fn changed(&self) -> bool {
        self.0.changed() || !self.1.is_empty()
    }
}

/// API keys and the audit.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// Makes a key. False if a live key has its name, or any its id. Records the deed.
    async fn create_key(&self, key: NewKey) -> Result<bool, StoreError>;

    /// All keys by name, revoked and expired ones too.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// A key.
    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError>;

    /// Ends a key for good. False if there is none, or it was revoked before. Records the deed.
    async fn revoke_key(&self, id: &str) -> Result<bool, StoreError>;

    /// Gives a key another secret; the one that it has stays valid for a while, the one before
    /// that does not. False if there is none, or it is revoked. Records the deed.
    async fn rotate_key(
        &self,
        id: &str,
        digest: SecretDigest,
        overlap: Duration,
    ) -> Result<bool, StoreError>;

    /// Notes that keys are used, unless that was noted within the last minute.
    async fn touch_keys(&self, ids: Vec<String>) -> Result<(), StoreError>;

    /// The queues of partitions, in order; `None` where there is no such partition.
    async fn queues_of(
        &self,
        partitions: Vec<PartitionId>,
    ) -> Result<Vec<Option<QueueName>>, StoreError>;

    /// The names of groups, in order; `None` where there is no such group.
    async fn groups_of(&self, groups: Vec<GroupId>) -> Result<Vec<Option<GroupName>>, StoreError>;

    /// Audit entries, newest first.
    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>, StoreError>;

    /// Removes audit entries older than a span, at most so many, the oldest first. Returns how
    /// many.
    async fn prune_audit(&self, older_than: Duration, limit: u32) -> Result<u64, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_deed_is_known_to_what_runs_under_it_and_to_nothing_else() {
        assert_eq!(Deed::current(), None);
        let deed = Deed { actor: "key:ci".into(), act: "queue.delete", ..Deed::default() };
        let seen = deed.clone().during(async {
            Deed::tell(Some("orders".into()), None);
            tokio::task::yield_now().await;
            let spawned = tokio::spawn(async { Deed::current() }).await.expect("no panic");
            (Deed::current(), spawned)
        });
        let (here, spawned) = seen.await;
        assert_eq!(here, Some(Deed { target: "orders".into(), ..deed }));
        assert_eq!(spawned, None);
        Deed::tell(Some("nobody listens".into()), None);
    }
}
