//! API keys, and the audit log of administrative actions.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{GroupId, GroupName, PartitionId, QueueName, Timestamp};
use wakeline_store::{
    AccessStore, ApiKey, AuditAction, AuditEntry, AuditFilter, Consequence, NewKey, SecretDigest,
    StoreError,
};

use super::MemoryStore;
use super::state::OracleState;

/// The use of a key is recorded at most once in this time.
const TOUCH: Duration = Duration::from_secs(60);

/// The API keys and the audit log of the oracle.
#[derive(Debug, Clone, Default)]
pub(super) struct OracleAccess {
    keys: BTreeMap<String, ApiKey>,
    audit: Vec<AuditEntry>,
    numbers: i64,
}

impl OracleAccess {
    /// Records the audit action of the caller, unless the operation changed nothing.
    pub(super) fn record(&mut self, outcome: &impl Consequence, at: Timestamp) {
        let Some(action) = AuditAction::current().filter(|_| outcome.changed()) else { return };
        let AuditAction { actor, action, target, detail } = action;
        self.numbers += 1;
        let (number, action) = (self.numbers, action.to_owned());
        self.audit.push(AuditEntry { number, at, actor, action, target, detail });
    }

    fn create(&mut self, new: NewKey, now: Timestamp) -> bool {
        let same_name = |key: &ApiKey| key.name == new.name && key.revoked_at.is_none();
        if self.keys.contains_key(&new.id) || self.keys.values().any(same_name) {
            return false;
        }
        let key = ApiKey {
            id: new.id.clone(),
            name: new.name,
            scopes: new.scopes,
            digest: new.digest,
            former: None,
            created_at: now,
            expires_at: new.valid_for.map(|span| now.plus(span)),
            last_used_at: None,
            revoked_at: None,
            read_at: now,
        };
        self.keys.insert(new.id, key);
        true
    }

    /// Returns the key, unless it is missing or revoked.
    fn live(&mut self, id: &str) -> Option<&mut ApiKey> {
        self.keys.get_mut(id).filter(|key| key.revoked_at.is_none())
    }

    fn touch(&mut self, id: &str, now: Timestamp) {
        let Some(key) = self.keys.get_mut(id) else { return };
        if key.last_used_at.is_none_or(|last| last.plus(TOUCH) <= now) {
            key.last_used_at = Some(now);
        }
    }

    fn list(&self, filter: &AuditFilter) -> Vec<AuditEntry> {
        let is = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|w| w == own);
        (self.audit.iter().rev())
            .filter(|entry| filter.before.is_none_or(|before| entry.number < before))
            .filter(|entry| is(&filter.actor, &entry.actor) && is(&filter.action, &entry.action))
            .filter(|entry| is(&filter.target, &entry.target))
            .take(filter.limit as usize)
            .cloned()
            .collect()
    }

    fn prune(&mut self, older_than: Duration, limit: u32, now: Timestamp) -> u64 {
        let old = |entry: &&AuditEntry| entry.at.plus(older_than) < now;
        let gone = self.audit.iter().take_while(old).take(limit as usize).count();
        self.audit.drain(..gone);
        gone as u64
    }
}

impl MemoryStore {
    /// Runs an administrative write, and records the caller's audit action with it.
    pub(super) fn recorded<T: Consequence>(
        &self,
        operation: impl FnOnce(&mut OracleState, Timestamp) -> T,
    ) -> T {
        let mut state = self.state.lock();
        let now = self.now();
        let outcome = operation(&mut state, now);
        state.access.record(&outcome, now);
        outcome
    }
}

#[async_trait]
impl AccessStore for MemoryStore {
    async fn create_key(&self, key: NewKey) -> Result<bool, StoreError> {
        Ok(self.recorded(|state, now| state.access.create(key, now)))
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let (state, read_at) = (self.state.lock(), self.now());
        let keys = state.access.keys.values().cloned();
        let mut keys: Vec<_> = keys.map(|key| ApiKey { read_at, ..key }).collect();
        keys.sort_by(|a, b| (&a.name, a.created_at, &a.id).cmp(&(&b.name, b.created_at, &b.id)));
        Ok(keys)
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        let (state, read_at) = (self.state.lock(), self.now());
        Ok(state.access.keys.get(id).map(|key| ApiKey { read_at, ..key.clone() }))
    }

    async fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.recorded(|state, now| match state.access.live(id) {
            Some(key) => {
                key.revoked_at = Some(now);
                true
            }
            None => false,
        }))
    }

    async fn rotate_key(
        &self,
        id: &str,
        digest: SecretDigest,
        overlap: Duration,
    ) -> Result<bool, StoreError> {
        Ok(self.recorded(|state, now| match state.access.live(id) {
            Some(key) => {
                key.former = Some((std::mem::replace(&mut key.digest, digest), now.plus(overlap)));
                true
            }
            None => false,
        }))
    }

    async fn touch_keys(&self, ids: Vec<String>) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        for id in &ids {
            state.access.touch(id, self.now());
        }
        Ok(())
    }

    async fn queues_of(
        &self,
        partitions: Vec<PartitionId>,
    ) -> Result<Vec<Option<QueueName>>, StoreError> {
        let state = self.state.lock();
        let queue_of = |id: &PartitionId| {
            let mut queues = state.queues.iter();
            let found = queues.find(|(_, queue)| queue.partitions.values().any(|p| p.id == *id));
            found.map(|(name, _)| name.clone())
        };
        Ok(partitions.iter().map(queue_of).collect())
    }

    async fn groups_of(&self, groups: Vec<GroupId>) -> Result<Vec<Option<GroupName>>, StoreError> {
        let state = self.state.lock();
        let name_of = |id: &GroupId| {
            let mut all = state.queues.values().flat_map(|queue| &queue.groups);
            all.find(|(_, group)| group.id == *id).map(|(name, _)| name.clone())
        };
        Ok(groups.iter().map(name_of).collect())
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.state.lock().access.list(&filter))
    }

    async fn prune_audit(&self, older_than: Duration, limit: u32) -> Result<u64, StoreError> {
        let mut state = self.state.lock();
        Ok(state.access.prune(older_than, limit, self.now()))
    }
}
