//! Which partition has which number, and what a push to it changes; makes those that are missing.
//!
//! # Where it sits
//! Pushes and transactions look up their partitions here before they lock anything.
//!
//! # Invariants
//! * A number is never used twice, so a stale entry is refused by the database, then forgotten.
//! * What a push will change is a guess after the last one, checked against what it did change.
//! * Missing queues and partitions are made in a commit of their own, in order.

use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::RwLock;
use wakeline_core::{Change, Namespace, PartitionName, QueueName, TaskName};
use wakeline_store::StoreError;

use super::Core;
use crate::rows::Columns;

/// Most partitions that are remembered.
const LEN_MAX: usize = 200_000;

/// Most queues whose changes are remembered.
const QUEUES_MAX: usize = 10_000;

/// Names a partition.
pub(crate) type PartitionKey = (QueueName, PartitionName);

/// Numbers of partitions by name.
#[derive(Default)]
pub(crate) struct Directory {
    ids: RwLock<HashMap<PartitionKey, i64>>,
    /// By queue, what the last push changed, without the partition.
    changes: RwLock<HashMap<QueueName, Change>>,
    /// Queues that were encrypted when last pushed to: a guess, which the database checks.
    encrypted: RwLock<HashSet<QueueName>>,
}

impl Directory {
    /// The number of a partition, if it is known here.
    pub(crate) fn get(&self, key: &PartitionKey) -> Option<i64> {
        self.ids.read().get(key).copied()
    }

    /// What a push to a partition will make available at once, as far as is known here.
    pub(crate) fn foresee(&self, key: &PartitionKey) -> Option<Change> {
        let change = self.changes.read().get(&key.0)?.clone();
        change.due_in.is_zero().then(|| Change { partition: Some(key.1.clone()), ..change })
    }

    /// Remembers what a push has changed.
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

    /// Whether a queue is encrypted, as far as is known here.
    pub(crate) fn is_encrypted(&self, queue: &QueueName) -> bool {
        self.encrypted.read().contains(queue)
    }

    /// Remembers whether a queue is encrypted.
    pub(crate) fn set_encrypted(&self, queue: &QueueName, encrypted: bool) {
        let mut known = self.encrypted.write();
        if known.len() > QUEUES_MAX {
            known.clear();
        }
        match encrypted {
            true => drop(known.insert(queue.clone())),
            false => drop(known.remove(queue)),
        }
    }

    /// The numbers of partitions that are known here, and the partitions that are not.
    pub(crate) fn look_up(
        &self,
        keys: Vec<PartitionKey>,
    ) -> (HashMap<PartitionKey, i64>, BTreeMap<PartitionKey, Scope>) {
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

    /// Forgets a partition that is no more.
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

/// What a queue belongs to if it has to be made.
pub(crate) type Scope = (Option<Namespace>, Option<TaskName>);

impl Core {
    /// Makes partitions, and their queues with the scopes given, where they are missing, unless
    /// they are for a producer and producers are refused just now.
    pub(crate) async fn make_partitions(
        &self,
        missing: BTreeMap<PartitionKey, Scope>,
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
