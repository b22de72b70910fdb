//! One operation's view of the database: the connection, the moment, and what is known by name.
//!
//! # Where it sits
//! The writer makes one per command inside its transaction, a reader one per snapshot. All
//! operations of the queue are functions of a session.
//!
//! # Invariants
//! * What is cached was read inside this process's own transactions and is dropped whenever
//!   another process wrote (`PRAGMA data_version`) or a command was undone.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row};
use wakeline_core::{
    Change, FlowChange, FlowWhat, GroupName, HookChange, HookWhat, Namespace, PartitionName,
    QueueName, QueueOptions, Selector, TaskName, Timestamp,
};

use wakeline_store::{Maintenance, Sealing};

use crate::error::{Fault, Res, corrupt};
use crate::flow::Names;
use crate::hook::{EmitCheck, FanOuts, Known};
use crate::maintenance;
use crate::sidecar::Hints;

/// Cached partitions beyond this are forgotten, all at once.
const PARTITIONS_CACHED_MAX: usize = 100_000;
/// The same for queues and groups of whose leases other processes were told.
const LEASE_HINTS_MAX: usize = 10_000;

/// A queue as operations need it.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: i64,
    pub(crate) name: QueueName,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) task: Option<TaskName>,
    pub(crate) options: QueueOptions,
    /// Messages were scheduled in it at some time.
    pub(crate) scheduled: bool,
}

impl Queue {
    /// A hint for everyone who may be waiting for this queue.
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

    /// Whether groups may lose messages to a limit of time.
    pub(crate) fn passes_over(&self) -> bool {
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

/// Seconds as the microseconds that times are counted in.
pub(crate) fn micros(secs: u32) -> i64 {
    i64::from(secs) * 1_000_000
}

/// What is known by name.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    queues: HashMap<QueueName, Arc<Queue>>,
    queues_by_id: HashMap<i64, Arc<Queue>>,
    /// Whether `queues` holds all there are.
    complete: bool,
    groups: HashMap<(i64, GroupName), i64>,
    partitions: HashMap<(i64, PartitionName), i64>,
    data_version: i64,
    /// What is suspended.
    maintenance: Cell<Option<Maintenance>>,
    /// When other processes were last told of the end of a lease, by queue and group.
    lease_hints: HashMap<(QueueName, Option<GroupName>), i64>,
    /// The same for turns and activities: the end that they were told of last.
    flow_lease_hints: HashMap<FlowWhat, i64>,
    /// The same for deliveries.
    hook_lease_hints: HashMap<HookWhat, i64>,
    /// Numbers of capabilities and tags.
    pub(crate) names: Names,
    /// Applications and endpoints.
    pub(crate) hook: Known,
    /// What this process's transactions leave for later.
    pub(crate) fan_outs: FanOuts,
}

impl Cache {
    /// Forgets what was read.
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

    /// Forgets everything if another connection has written since the last call.
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
pub(crate) struct Session<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) cache: &'c mut Cache,
    /// Seals and opens the payloads of encrypted queues.
    pub(crate) sealing: &'c Sealing,
    /// The moment at which the operation happens.
    pub(crate) now: Timestamp,
    /// What other processes are told after the commit.
    pub(crate) hints: Hints,
    /// What was found out about the messages that the operation emits, before it.
    pub(crate) emit_checks: Vec<EmitCheck>,
    /// Set by an operation that was refused: its writes are undone, its answer stands.
    pub(crate) undo: bool,
}

impl<'c> Session<'c> {
    pub(crate) fn new(
        conn: &'c Connection,
        cache: &'c mut Cache,
        sealing: &'c Sealing,
        now: Timestamp,
    ) -> Self {
        let (hints, emit_checks) = (Hints::default(), Vec::new());
        Self { conn, cache, sealing, now, hints, emit_checks, undo: false }
    }

    /// Tells other processes after the commit.
    pub(crate) fn hint(&mut self, changes: &[Change]) {
        self.hints.queue.extend_from_slice(changes);
    }

    /// Tells other processes after the commit.
    pub(crate) fn hint_flow(&mut self, changes: &[FlowChange]) {
        self.hints.flow.extend_from_slice(changes);
    }

    /// Tells other processes when the lease of a turn or an activity ends, unless the end that
    /// they were told of last still lies ahead, by more than half a lease. Whoever looks then
    /// learns of the later ones.
    pub(crate) fn hint_flow_lease_end(&mut self, change: FlowChange) {
        if news(&mut self.cache.flow_lease_hints, &change.what, self.now, change.due_in) {
            self.hints.flow.push(change);
        }
    }

    /// Tells other processes after the commit.
    pub(crate) fn hint_hook(&mut self, changes: &[HookChange]) {
        self.hints.hook.extend_from_slice(changes);
    }

    /// Tells other processes when the lease of a delivery ends, as for turns.
    pub(crate) fn hint_hook_lease_end(&mut self, change: HookChange) {
        if news(&mut self.cache.hook_lease_hints, &change.what, self.now, change.due_in) {
            self.hints.hook.push(change);
        }
    }

    /// Tells other processes when a lease ends: at most once per half a lease for a queue and
    /// group. Whoever looks then learns of the later ones.
    pub(crate) fn hint_lease_end(&mut self, change: Change, lease_micros: i64) {
        if self.cache.lease_hints.len() >= LEASE_HINTS_MAX {
            self.cache.lease_hints.clear();
        }
        let key = (change.queue.clone(), change.group.clone());
        let told = self.cache.lease_hints.get(&key);
        if told.is_none_or(|told| self.now.0 - told > lease_micros / 2) {
            self.cache.lease_hints.insert(key, self.now.0);
            self.hints.queue.push(change);
        }
    }

    /// What is suspended.
    pub(crate) fn maintenance(&self) -> Res<Maintenance> {
        if let Some(known) = self.cache.maintenance.get() {
            return Ok(known);
        }
        let read = maintenance::read(self)?;
        self.cache.maintenance.set(Some(read));
        Ok(read)
    }

    /// Forgets what was read of that: it has changed.
    pub(crate) fn forget_maintenance(&self) {
        self.cache.maintenance.set(None);
    }

    /// Runs a part of an operation that leaves nothing behind if it fails.
    pub(crate) fn attempt<T>(&mut self, part: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        self.conn.prepare_cached("SAVEPOINT part")?.execute([])?;
        let done = part(self);
        if done.is_err() {
            self.conn.prepare_cached("ROLLBACK TO part")?.execute([])?;
        }
        self.conn.prepare_cached("RELEASE part")?.execute([])?;
        done
    }

    /// A queue by its name.
    pub(crate) fn queue(&mut self, name: &QueueName) -> Res<Option<Arc<Queue>>> {
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

    /// A queue by its id.
    pub(crate) fn queue_by_id(&mut self, id: i64) -> Res<Option<Arc<Queue>>> {
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

    /// The queues that a selector speaks of, in order of their names.
    pub(crate) fn matching(&mut self, selector: &Selector) -> Res<Vec<Arc<Queue>>> {
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

    /// A group of a queue.
    pub(crate) fn group(&mut self, queue: &Queue, name: &GroupName) -> Res<Option<i64>> {
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

    /// A partition of a queue.
    pub(crate) fn partition(&mut self, queue: &Queue, name: &PartitionName) -> Res<Option<i64>> {
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

    /// Forgets what was read of a queue: it has changed.
    pub(crate) fn forget_queue(&mut self, queue: &Queue) {
        self.cache.queues.remove(&queue.name);
        self.cache.queues_by_id.remove(&queue.id);
        self.cache.complete = false;
    }

    fn remember(&mut self, queue: Queue) -> Arc<Queue> {
        let queue = Arc::new(queue);
        self.cache.queues.insert(queue.name.clone(), Arc::clone(&queue));
        self.cache.queues_by_id.insert(queue.id, Arc::clone(&queue));
        queue
    }
}

/// Whether others are to be told of the end of a lease; then it is remembered that they were.
fn news<W: Clone + Eq + std::hash::Hash>(
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
    let news = ends.get(what).is_none_or(|told| *told > end || end - told > half);
    if news {
        ends.insert(what.clone(), end);
    }
    news
}

/// Columns: queue_id, name, namespace, task, options, scheduled.
fn decode_queue(row: &Row<'_>) -> Res<Queue> {
    let id: i64 = row.get(0)?;
    let bad = || corrupt("queue", id);
    let name: String = row.get(1)?;
    let namespace: Option<String> = row.get(2)?;
    let task: Option<String> = row.get(3)?;
    let options: String = row.get(4)?;
    Ok(Queue {
        id,
        name: QueueName::new(name).map_err(bad())?,
        namespace: namespace.map(Namespace::new).transpose().map_err(bad())?,
        task: task.map(TaskName::new).transpose().map_err(bad())?,
        options: serde_json::from_str(&options).map_err(|error| Fault::Corrupt {
            what: "queue",
            id: id.to_string(),
            source: error.into(),
        })?,
        scheduled: row.get(5)?,
    })
}
