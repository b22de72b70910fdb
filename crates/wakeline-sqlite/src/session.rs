//! One operation's view of the database: the connection, the current time and cached rows.
//!
//! # Where it sits
//! The writer creates one session per command inside its transaction, a reader one per snapshot.
//! All operations of the store are functions of a session.
//!
//! # Invariants
//! * The cache holds only what this process read inside its own transactions. It is cleared
//!   whenever another process wrote (`PRAGMA data_version`) or a command was rolled back.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row};
use wakeline_core::{
    Change, FlowChange, FlowChangeKind, GroupName, HookChange, HookChangeKind, Namespace,
    PartitionName, QueueName, QueueOptions, Selector, TaskName, Timestamp,
};

use wakeline_store::{Maintenance, PayloadEncryption};

use crate::error::{Res, StoreFault, corrupt};
use crate::flow::NameCache;
use crate::hook::{EmitCheck, FanOuts, HookCache};
use crate::maintenance;
use crate::sidecar::Hints;

/// When more partitions than this are cached, all of them are dropped from the cache.
const PARTITIONS_CACHED_MAX: usize = 100_000;
/// The same limit for the lease ends that other processes were notified of.
const LEASE_HINTS_MAX: usize = 10_000;

/// A queue with its decoded options.
#[derive(Debug)]
pub(crate) struct QueueRow {
    pub(crate) id: i64,
    pub(crate) name: QueueName,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) task: Option<TaskName>,
    pub(crate) options: QueueOptions,
    /// Whether messages have ever been scheduled in this queue.
    pub(crate) scheduled: bool,
}

impl QueueRow {
    /// A hint for all waiters on this queue.
    pub(crate) fn change(&self, due_in: std::time::Duration) -> Change {
        Change {
            queue: self.name.clone(),
            partition: None,
            namespace: self.namespace.clone(),
            task: self.task.clone(),
            group: None,
            due_in,
        }
    }

    pub(crate) fn delay_micros(&self) -> i64 {
        micros(self.options.delay_secs)
    }

    pub(crate) fn window_micros(&self) -> i64 {
        micros(self.options.window_secs)
    }

    /// Whether a time limit lets groups skip messages that are too old.
    pub(crate) fn skips_old_messages(&self) -> bool {
        self.options.ttl_secs > 0 || self.options.wait_secs_max > 0
    }

    pub(crate) fn lease_micros(&self) -> i64 {
        micros(self.options.lease_secs)
    }

    fn matches(&self, selector: &Selector) -> bool {
        match selector {
            Selector::Queue(queue) | Selector::Partition(queue, _) => *queue == self.name,
            Selector::Filter { namespace, task } => {
                (namespace.is_none() || *namespace == self.namespace)
                    && (task.is_none() || *task == self.task)
            }
        }
    }
}

/// Converts seconds to microseconds, the unit of stored times.
pub(crate) fn micros(secs: u32) -> i64 {
    i64::from(secs) * 1_000_000
}

/// Rows by name, and other things that sessions of one connection share.
#[derive(Debug, Default)]
pub(crate) struct SessionCache {
    queues: HashMap<QueueName, Arc<QueueRow>>,
    queues_by_id: HashMap<i64, Arc<QueueRow>>,
    /// Whether `queues` holds all queues.
    complete: bool,
    groups: HashMap<(i64, GroupName), i64>,
    partitions: HashMap<(i64, PartitionName), i64>,
    data_version: i64,
    /// The maintenance state, if it was read.
    maintenance: Cell<Option<Maintenance>>,
    /// When other processes were last notified of a lease's end, by queue and group.
    lease_hints: HashMap<(QueueName, Option<GroupName>), i64>,
    /// The lease end of turns and activities that other processes were notified of last.
    flow_lease_hints: HashMap<FlowChangeKind, i64>,
    /// The same for leases of deliveries.
    hook_lease_hints: HashMap<HookChangeKind, i64>,
    /// Row ids of capabilities and tags.
    pub(crate) names: NameCache,
    /// Cached applications and endpoints.
    pub(crate) hook: HookCache,
    /// The fan-outs that this process's transactions deferred.
    pub(crate) fan_outs: FanOuts,
}

impl SessionCache {
    /// Drops everything that was read from the database.
    pub(crate) fn clear(&mut self) {
        let lease_hints = std::mem::take(&mut self.lease_hints);
        let flow_lease_hints = std::mem::take(&mut self.flow_lease_hints);
        let hook_lease_hints = std::mem::take(&mut self.hook_lease_hints);
        let data_version = self.data_version;
        *self = Self {
            data_version,
            fan_outs: self.fan_outs,
            lease_hints,
            flow_lease_hints,
            hook_lease_hints,
            ..Self::default()
        };
    }

    /// Clears the cache if another connection has written since the last call.
    pub(crate) fn validate(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut read = conn.prepare_cached(include_str!("../sql/queries/data_version.sql"))?;
        let version: i64 = read.query_row([], |row| row.get(0))?;
        if version != self.data_version {
            self.clear();
            self.data_version = version;
        }
        Ok(())
    }
}

/// One operation's view of the database.
pub(crate) struct DbSession<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) cache: &'c mut SessionCache,
    /// Encrypts and decrypts the payloads of encrypted queues.
    pub(crate) encryption: &'c PayloadEncryption,
    /// The time of the operation by the store's clock.
    pub(crate) now: Timestamp,
    /// Hints that are sent to other processes after the commit.
    pub(crate) hints: Hints,
    /// What was checked about the emitted webhook messages before the operation.
    pub(crate) emit_checks: Vec<EmitCheck>,
    /// Set by an operation that was refused: its writes are rolled back, its result is returned.
    pub(crate) undo: bool,
}

impl<'c> DbSession<'c> {
    pub(crate) fn new(
        conn: &'c Connection,
        cache: &'c mut SessionCache,
        encryption: &'c PayloadEncryption,
        now: Timestamp,
    ) -> Self {
        let (hints, emit_checks) = (Hints::default(), Vec::new());
        Self { conn, cache, encryption, now, hints, emit_checks, undo: false }
    }

    /// Notifies other processes of queue changes after the commit.
    pub(crate) fn hint(&mut self, changes: &[Change]) {
        self.hints.queue.extend_from_slice(changes);
    }

    /// Notifies other processes of workflow changes after the commit.
    pub(crate) fn hint_flow(&mut self, changes: &[FlowChange]) {
        self.hints.flow.extend_from_slice(changes);
    }

    /// Notifies other processes of when the lease of a turn or an activity ends, unless the end
    /// that they were notified of last is still more than half a lease ahead. The process that
    /// looks at that time learns of the later ones.
    pub(crate) fn hint_flow_lease_end(&mut self, change: FlowChange) {
        if should_notify(&mut self.cache.flow_lease_hints, &change.what, self.now, change.due_in) {
            self.hints.flow.push(change);
        }
    }

    /// Notifies other processes of webhook changes after the commit.
    pub(crate) fn hint_hook(&mut self, changes: &[HookChange]) {
        self.hints.hook.extend_from_slice(changes);
    }

    /// Notifies other processes of when the lease of a delivery ends, as for turns.
    pub(crate) fn hint_hook_lease_end(&mut self, change: HookChange) {
        if should_notify(&mut self.cache.hook_lease_hints, &change.what, self.now, change.due_in) {
            self.hints.hook.push(change);
        }
    }

    /// Notifies other processes of when a lease ends, at most once per half a lease time for a
    /// queue and group. The process that looks at that time learns of the later ones.
    pub(crate) fn hint_lease_end(&mut self, change: Change, lease_micros: i64) {
        if self.cache.lease_hints.len() >= LEASE_HINTS_MAX {
            self.cache.lease_hints.clear();
        }
        let key = (change.queue.clone(), change.group.clone());
        let notified_at = self.cache.lease_hints.get(&key);
        if notified_at.is_none_or(|at| self.now.0 - at > lease_micros / 2) {
            self.cache.lease_hints.insert(key, self.now.0);
            self.hints.queue.push(change);
        }
    }

    /// The maintenance state: whether pushes or pops are suspended.
    pub(crate) fn maintenance(&self) -> Res<Maintenance> {
        if let Some(known) = self.cache.maintenance.get() {
            return Ok(known);
        }
        let read = maintenance::read(self)?;
        self.cache.maintenance.set(Some(read));
        Ok(read)
    }

    /// Drops the cached maintenance state after it changed.
    pub(crate) fn forget_maintenance(&self) {
        self.cache.maintenance.set(None);
    }

    /// Runs a part of an operation, and rolls back its writes if it fails.
    pub(crate) fn attempt<T>(&mut self, part: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        self.conn.prepare_cached("SAVEPOINT part")?.execute([])?;
        let done = part(self);
        if done.is_err() {
            self.conn.prepare_cached("ROLLBACK TO part")?.execute([])?;
        }
        self.conn.prepare_cached("RELEASE part")?.execute([])?;
        done
    }

    /// Looks up a queue by name.
    pub(crate) fn queue(&mut self, name: &QueueName) -> Res<Option<Arc<QueueRow>>> {
        if let Some(queue) = self.cache.queues.get(name) {
            return Ok(Some(Arc::clone(queue)));
        }
        let sql = include_str!("../sql/queries/queue_by_name.sql");
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([name.as_str()])?;
        match rows.next()? {
            Some(row) => Ok(Some(self.remember(decode_queue(row)?))),
            None => Ok(None),
        }
    }

    /// Looks up a queue by id.
    pub(crate) fn queue_by_id(&mut self, id: i64) -> Res<Option<Arc<QueueRow>>> {
        if let Some(queue) = self.cache.queues_by_id.get(&id) {
            return Ok(Some(Arc::clone(queue)));
        }
        let mut statement =
            self.conn.prepare_cached(include_str!("../sql/queries/queue_by_id.sql"))?;
        let mut rows = statement.query([id])?;
        match rows.next()? {
            Some(row) => Ok(Some(self.remember(decode_queue(row)?))),
            None => Ok(None),
        }
    }

    /// The queues that a selector matches, ordered by name.
    pub(crate) fn matching(&mut self, selector: &Selector) -> Res<Vec<Arc<QueueRow>>> {
        if let Selector::Queue(name) | Selector::Partition(name, _) = selector {
            return Ok(self.queue(name)?.into_iter().collect());
        }
        if !self.cache.complete {
            let mut statement =
                self.conn.prepare_cached(include_str!("../sql/queries/queue_all.sql"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let queue = decode_queue(row)?;
                self.remember(queue);
            }
            self.cache.complete = true;
        }
        let mut queues: Vec<_> = (self.cache.queues.values())
            .filter(|queue| queue.matches(selector))
            .map(Arc::clone)
            .collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(queues)
    }

    /// Looks up the id of a group of a queue.
    pub(crate) fn group(&mut self, queue: &QueueRow, name: &GroupName) -> Res<Option<i64>> {
        let key = (queue.id, name.clone());
        if let Some(id) = self.cache.groups.get(&key) {
            return Ok(Some(*id));
        }
        let mut statement =
            self.conn.prepare_cached(include_str!("../sql/queries/group_by_name.sql"))?;
        let id = statement.query_row((queue.id, name.as_str()), |row| row.get(0)).optional()?;
        if let Some(id) = id {
            self.cache.groups.insert(key, id);
        }
        Ok(id)
    }

    /// Looks up the id of a partition of a queue.
    pub(crate) fn partition(&mut self, queue: &QueueRow, name: &PartitionName) -> Res<Option<i64>> {
        let key = (queue.id, name.clone());
        if let Some(id) = self.cache.partitions.get(&key) {
            return Ok(Some(*id));
        }
        let mut statement =
            self.conn.prepare_cached(include_str!("../sql/queries/partition_by_name.sql"))?;
        let id = statement.query_row((queue.id, name.as_str()), |row| row.get(0)).optional()?;
        if let Some(id) = id {
            if self.cache.partitions.len() >= PARTITIONS_CACHED_MAX {
                self.cache.partitions.clear();
            }
            self.cache.partitions.insert(key, id);
        }
        Ok(id)
    }

    /// Drops a queue from the cache after it changed.
    pub(crate) fn forget_queue(&mut self, queue: &QueueRow) {
        self.cache.queues.remove(&queue.name);
        self.cache.queues_by_id.remove(&queue.id);
        self.cache.complete = false;
    }

    fn remember(&mut self, queue: QueueRow) -> Arc<QueueRow> {
        let queue = Arc::new(queue);
        self.cache.queues.insert(queue.name.clone(), Arc::clone(&queue));
        self.cache.queues_by_id.insert(queue.id, Arc::clone(&queue));
        queue
    }
}

/// Whether other processes should be notified of a lease's end. If so, the end is remembered.
fn should_notify<W: Clone + Eq + std::hash::Hash>(
    ends: &mut HashMap<W, i64>,
    what: &W,
    now: Timestamp,
    due_in: std::time::Duration,
) -> bool {
    if ends.len() >= LEASE_HINTS_MAX {
        ends.clear();
    }
    let end = now.plus(due_in).0;
    let half = (end - now.0) / 2;
    let notify = ends.get(what).is_none_or(|known| *known > end || end - known > half);
    if notify {
        ends.insert(what.clone(), end);
    }
    notify
}

/// Columns: queue_id, name, namespace, task, options, scheduled.
fn decode_queue(row: &Row<'_>) -> Res<QueueRow> {
    let id: i64 = row.get(0)?;
    let bad = || corrupt("queue", id);
    let name: String = row.get(1)?;
    let namespace: Option<String> = row.get(2)?;
    let task: Option<String> = row.get(3)?;
    let options: String = row.get(4)?;
    Ok(QueueRow {
        id,
        name: QueueName::new(name).map_err(bad())?,
        namespace: namespace.map(Namespace::new).transpose().map_err(bad())?,
        task: task.map(TaskName::new).transpose().map_err(bad())?,
        options: serde_json::from_str(&options).map_err(|error| StoreFault::Corrupt {
            what: "queue",
            id: id.to_string(),
            source: error.into(),
        })?,
        scheduled: row.get(5)?,
    })
}
