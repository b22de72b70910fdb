//! Caches the numbers of partitions and the changes that a push to them causes, and creates missing
//! partitions.
//!
//! # Where it sits
//! Pushes and transactions look up their partitions here before they lock anything.
//!
//! # Invariants
//! * A number is never reused, so the database rejects a stale entry, which is then forgotten.
//! * The predicted change of a push is the change of the last push; it is compared with the actual
//!   change afterwards.
//! * Missing queues and partitions are created in a transaction of their own, in order.

use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::RwLock;
use wakeline_core::{Change, Namespace, PartitionName, QueueName, TaskName};
use wakeline_store::StoreError;

use super::QueueCore;
use crate::rows::Columns;

/// The maximum number of partitions in the cache.
const LEN_MAX: usize = 200_000;

/// The maximum number of queues whose changes are cached.
const QUEUES_MAX: usize = 10_000;

/// The queue and the name of a partition.
pub(crate) type PartitionKey = (QueueName, PartitionName);

/// The cached numbers of partitions by name.
#[derive(Default)]
pub(crate) struct Directory {
    ids: RwLock<HashMap<PartitionKey, i64>>,
    /// The change of the last push to each queue, without the partition.
    changes: RwLock<HashMap<QueueName, Change>>,
    /// Queues that were encrypted at the last push. They may have changed; the database checks it.
    encrypted: RwLock<HashSet<QueueName>>,
}

impl Directory {
    /// Returns the number of a partition if it is cached.
    pub(crate) fn get(&self, key: &PartitionKey) -> Option<i64> {
        self.ids.read().get(key).copied()
    }

    /// Returns the change that a push to a partition will probably cause, if it takes effect
    /// immediately.
    pub(crate) fn foresee(&self, key: &PartitionKey) -> Option<Change> {
        let change = self.changes.read().get(&key.0)?.clone();
        change.due_in.is_zero().then(|| Change { partition: Some(key.1.clone()), ..change })
    }

    /// Records the change that a push has caused.
    pub(crate) fn learn(&self, change: &Change) {
        let known = Change { partition: None, ..change.clone() };
        if self.changes.read().get(&known.queue) == Some(&known) {
            return;
        }
        let mut changes = self.changes.write();
        if changes.len() > QUEUES_MAX {
            changes.clear();
        }
        changes.insert(known.queue.clone(), known);
    }

    /// Returns whether a queue was encrypted when this node last pushed to it.
    pub(crate) fn is_encrypted(&self, queue: &QueueName) -> bool {
        self.encrypted.read().contains(queue)
    }

    /// Records whether a queue is encrypted.
    pub(crate) fn set_encrypted(&self, queue: &QueueName, encrypted: bool) {
        let mut known = self.encrypted.write();
        if known.len() > QUEUES_MAX {
            known.clear();
        }
        if encrypted {
            known.insert(queue.clone());
        } else {
            known.remove(queue);
        }
    }

    /// Returns the numbers of the partitions that are cached, and the partitions that are not.
    pub(crate) fn look_up(
        &self,
        keys: Vec<PartitionKey>,
    ) -> (HashMap<PartitionKey, i64>, BTreeMap<PartitionKey, DerivedScope>) {
        let mut found = HashMap::with_capacity(keys.len());
        let mut missing = BTreeMap::new();
        for key in keys {
            match self.get(&key) {
                Some(id) => drop(found.insert(key, id)),
                None => {
                    let scope = key.0.derived_scope();
                    missing.insert(key, scope);
                }
            }
        }
        (found, missing)
    }

    /// Forgets a partition that no longer exists.
    pub(crate) fn forget(&self, key: &PartitionKey) {
        self.ids.write().remove(key);
    }

    fn remember(&self, found: impl Iterator<Item = (PartitionKey, i64)>) {
        let mut ids = self.ids.write();
        if ids.len() > LEN_MAX {
            ids.clear();
        }
        ids.extend(found);
    }
}

/// The namespace and the task of a queue if it has to be created.
pub(crate) type DerivedScope = (Option<Namespace>, Option<TaskName>);

impl QueueCore {
    /// Creates missing partitions, and missing queues with the given scopes. Fails for producers
    /// while maintenance refuses them.
    pub(crate) async fn make_partitions(
        &self,
        missing: BTreeMap<PartitionKey, DerivedScope>,
        producer: bool,
    ) -> Result<Vec<(PartitionKey, i64)>, StoreError> {
        const OPERATION: &str = "make partitions";
        let mut queues = Vec::with_capacity(missing.len());
        let mut namespaces = Vec::with_capacity(missing.len());
        let mut tasks = Vec::with_capacity(missing.len());
        let mut partitions = Vec::with_capacity(missing.len());
        for ((queue, partition), (namespace, task)) in &missing {
            queues.push(queue.as_str());
            namespaces.push(namespace.as_ref().map(Namespace::as_str));
            tasks.push(task.as_ref().map(TaskName::as_str));
            partitions.push(partition.as_str());
        }
        let rows = self
            .general(
                OPERATION,
                &self.sql.partition_create,
                &[&queues, &namespaces, &tasks, &partitions, &producer],
            )
            .await?;
        let keys: Vec<&PartitionKey> = missing.keys().collect();
        let mut made = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let ord: i32 = columns.take()?;
            let index = usize::try_from(ord - 1).expect("ordinals begin at 1");
            let Some(id) = columns.take::<Option<i64>>()? else {
                return Err(StoreError::Maintenance { operation: OPERATION });
            };
            made.push((keys[index].clone(), id));
        }
        self.directory.remember(made.iter().cloned());
        Ok(made)
    }
}
