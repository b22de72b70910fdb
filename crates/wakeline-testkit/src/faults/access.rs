//! Calls of keys and of the audit log, with planned faults.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{GroupId, GroupName, PartitionId, QueueName};
use wakeline_store::{
    AccessStore, ApiKey, AuditEntry, AuditFilter, Backend, NewKey, SecretDigest, StoreError,
};

use super::FaultingStore;

passes! { AccessStore:
    fn create_key(key: NewKey) -> bool;
    fn keys() -> Vec<ApiKey>;
    fn key(id: &str) -> Option<ApiKey>;
    fn revoke_key(id: &str) -> bool;
    fn rotate_key(id: &str, digest: SecretDigest, overlap: Duration) -> bool;
    fn touch_keys(ids: Vec<String>) -> ();
    fn queues_of(partitions: Vec<PartitionId>) -> Vec<Option<QueueName>>;
    fn groups_of(groups: Vec<GroupId>) -> Vec<Option<GroupName>>;
    fn audit(filter: AuditFilter) -> Vec<AuditEntry>;
    fn prune_audit(older_than: Duration, limit: u32) -> u64;
}
