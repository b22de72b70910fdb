//! Checks whether a queue has capacity for a push, and selects the lane that a message goes to.
//!
//! # Where it sits
//! Every push and transaction is checked here before its store call, while nothing is written yet,
//! so a refused one leaves no trace. What reaches the store by other ways is not refused here:
//! messages of orchestrations, timers (which have a key, and may only move one that was set
//! before), and scheduled messages that fall due. They all count. SQL pushes wait in the store.
//!
//! # Invariants
//! * A push to a queue without limits and lanes costs a lookup in memory. That the queue has none
//!   is read once, and again when the queue is changed, or after a minute in case the notice of a
//!   change was lost.
//! * What counts against a limit is read at most once a second and queue, and this node's own
//!   pushes are added in between. So limits are exceeded only by what other nodes push within a
//!   second, and by what is in flight during the read.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wakeline_core::{Change, PartitionName, QueueName, lane_partition};
use wakeline_store::{PushItem, QueueCapacity, ScheduleItem, Store, StoreError};

use crate::error::QueueError;

/// How long the cached state of a queue with limits or lanes is valid.
const LIMITED_TTL: Duration = Duration::from_secs(1);

/// How long the cached state of a queue without limits and lanes is valid.
const PLAIN_TTL: Duration = Duration::from_secs(60);

/// The maximum number of queues in the cache.
const QUEUES_MAX: usize = 10_000;

/// The number of locks, so that readers of different queues seldom wait for each other.
const READERS: usize = 16;

/// The capacity of queues, as far as this node knows it.
pub(crate) struct CapacityCache {
    store: Arc<dyn Store>,
    cached: Mutex<CachedQueues>,
    /// Only one task at a time reads a queue; the others find what it has read.
    readers: [tokio::sync::Mutex<()>; READERS],
}

#[derive(Default)]
struct CachedQueues {
    queues: HashMap<QueueName, CachedCapacity>,
    /// Counts invalidations: what was read before one is not kept.
    forgotten: u64,
}

/// The capacity of a queue as it was read, plus what this node has pushed since.
struct CachedCapacity {
    capacity: QueueCapacity,
    partitions: HashMap<PartitionName, u64>,
    at: Instant,
}

impl CachedCapacity {
    fn is_plain(&self) -> bool {
        self.capacity.len_max == 0
            && self.capacity.partition_len_max == 0
            && self.capacity.lanes == 0
    }

    fn holds(&self) -> bool {
        self.at.elapsed() < if self.is_plain() { PLAIN_TTL } else { LIMITED_TTL }
    }

    /// Returns whether it contains what is needed to check pushes to these partitions.
    fn covers(&self, partitions: &[PartitionName]) -> bool {
        let counted = |name: &PartitionName| self.partitions.contains_key(name);
        self.holds() && (self.capacity.partition_len_max == 0 || partitions.iter().all(counted))
    }
}

/// The messages of a push for one queue.
#[derive(Default)]
struct PushDemand {
    items: Vec<usize>,
    partitions: BTreeMap<PartitionName, u64>,
}

impl CapacityCache {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, cached: Mutex::default(), readers: Default::default() }
    }

    /// Assigns messages to their lanes and counts them, or refuses all of them.
    pub(crate) async fn admit(
        &self,
        pushes: &mut [PushItem],
        delayed: &mut [ScheduleItem],
    ) -> Result<(), QueueError> {
        let without_key = delayed.iter().filter(|one| one.key.is_none()).map(|one| &one.message);
        if self.all_plain(pushes.iter().chain(without_key)) {
            return Ok(());
        }
        let without_key = delayed.iter_mut().filter(|one| one.key.is_none());
        let mut items: Vec<&mut PushItem> =
            pushes.iter_mut().chain(without_key.map(|one| &mut one.message)).collect();
        let mut wanted: BTreeMap<QueueName, PushDemand> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            wanted.entry(item.queue.clone()).or_default().items.push(index);
        }
        for (queue, wanted) in &mut wanted {
            let lanes = self.read(queue, &[]).await?;
            for index in &wanted.items {
                let item = &mut items[*index];
                if lanes > 0 && item.partition == PartitionName::default_partition() {
                    item.partition = lane_partition(&item.transaction_id, lanes);
                }
                *wanted.partitions.entry(item.partition.clone()).or_default() += 1;
            }
            let partitions: Vec<_> = wanted.partitions.keys().cloned().collect();
            self.read(queue, &partitions).await?;
        }
        self.cached.lock().count_in(&wanted).inspect_err(|error| {
            if let QueueError::QueueFull { partition, .. } = error {
                let limit = if partition.is_some() { "partition" } else { "queue" };
                metrics::counter!("wakeline_queue_pushes_refused_total", "limit" => limit)
                    .increment(1);
            }
        })
    }

    fn all_plain<'a>(&self, mut items: impl Iterator<Item = &'a PushItem>) -> bool {
        let cached = self.cached.lock();
        let mut last = None;
        items.all(|item| {
            let seen = last == Some(&item.queue)
                || cached
                    .queues
                    .get(&item.queue)
                    .is_some_and(|seen| seen.is_plain() && seen.holds());
            last = Some(&item.queue);
            seen
        })
    }

    /// Reads what is needed to check these partitions of a queue, unless it is cached. Returns the
    /// number of the queue's lanes.
    async fn read(&self, queue: &QueueName, names: &[PartitionName]) -> Result<u32, StoreError> {
        let lanes = || {
            let cached = self.cached.lock();
            let seen = cached.queues.get(queue).filter(|seen| seen.covers(names));
            seen.map(|seen| seen.capacity.lanes)
        };
        if let Some(lanes) = lanes() {
            return Ok(lanes);
        }
        let _one = self.readers[shard(queue)].lock().await;
        if let Some(lanes) = lanes() {
            return Ok(lanes);
        }
        let forgotten = self.cached.lock().forgotten;
        // A queue that does not exist is created by the push, without limits.
        let capacity = self.store.capacity(queue, names).await?.unwrap_or_default();
        let lanes = capacity.lanes;
        let mut cached = self.cached.lock();
        if cached.forgotten == forgotten {
            cached.learn(queue, names, capacity);
        }
        Ok(lanes)
    }

    /// Invalidates queues that were changed: a change that concerns all their partitions and
    /// groups.
    pub(crate) fn changed(&self, changes: &[Change]) {
        for change in changes {
            if change.partition.is_none() && change.group.is_none() {
                self.forget(&change.queue);
            }
        }
    }

    /// Invalidates a queue.
    pub(crate) fn forget(&self, queue: &QueueName) {
        let mut cached = self.cached.lock();
        cached.queues.remove(queue);
        cached.forgotten += 1;
    }

    /// Invalidates everything, because notices of changes may have been lost.
    pub(crate) fn forget_all(&self) {
        let mut cached = self.cached.lock();
        cached.queues.clear();
        cached.forgotten += 1;
    }
}

fn shard(queue: &QueueName) -> usize {
    let mut hasher = DefaultHasher::new();
    queue.hash(&mut hasher);
    usize::try_from(hasher.finish() % READERS as u64).expect("below a small number")
}

impl CachedQueues {
    fn learn(&mut self, queue: &QueueName, names: &[PartitionName], capacity: QueueCapacity) {
        if self.queues.len() >= QUEUES_MAX {
            self.queues.clear();
        }
        let lens = names.iter().cloned().zip(capacity.partition_lens.iter().copied());
        let fresh = CachedCapacity { partitions: lens.collect(), capacity, at: Instant::now() };
        match self.queues.entry(queue.clone()) {
            // More partitions of an entry that is still valid. Its age stays, so that it expires in
            // time.
            Entry::Occupied(mut seen) if seen.get().holds() && !names.is_empty() => {
                seen.get_mut().partitions.extend(fresh.partitions);
            }
            Entry::Occupied(mut seen) => drop(seen.insert(fresh)),
            Entry::Vacant(place) => drop(place.insert(fresh)),
        }
    }

    /// Counts all messages if all of them fit; otherwise counts none.
    fn count_in(&mut self, wanted: &BTreeMap<QueueName, PushDemand>) -> Result<(), QueueError> {
        for (queue, wanted) in wanted {
            let Some(seen) = self.queues.get(queue) else { continue };
            let len = wanted.items.len() as u64;
            let QueueCapacity { len: stored, len_max, .. } = seen.capacity;
            LenCheck { stored, added: len, len_max }.check(queue, None)?;
            for (name, len) in &wanted.partitions {
                let Some(there) = seen.partitions.get(name) else { continue };
                let len_max = seen.capacity.partition_len_max;
                LenCheck { stored: *there, added: *len, len_max }.check(queue, Some(name))?;
            }
        }
        for (queue, wanted) in wanted {
            let Some(seen) = self.queues.get_mut(queue) else { continue };
            seen.capacity.len += wanted.items.len() as u64;
            for (name, len) in &wanted.partitions {
                if let Some(there) = seen.partitions.get_mut(name) {
                    *there += len;
                }
            }
        }
        Ok(())
    }
}

/// Whether a push fits into a queue or a partition.
struct LenCheck {
    /// The number of messages that are there.
    stored: u64,
    /// The number of messages that the push adds.
    added: u64,
    /// The maximum number of messages, or 0 if there is none.
    len_max: u64,
}

impl LenCheck {
    /// Returns an error that names the queue or the partition if the push does not fit.
    fn check(
        &self,
        queue: &QueueName,
        partition: Option<&PartitionName>,
    ) -> Result<(), QueueError> {
        let Self { stored, added, len_max } = *self;
        if len_max == 0 || stored.saturating_add(added) <= len_max {
            return Ok(());
        }
        if added > len_max {
            let option = if partition.is_some() { "maxPartitionSize" } else { "maxSize" };
            let reason =
                format!("has {added} messages for queue {queue}, whose {option} is {len_max}");
            return Err(StoreError::Invalid { field: "items", reason }.into());
        }
        Err(QueueError::QueueFull {
            queue: queue.clone(),
            partition: partition.cloned(),
            retry_after: LIMITED_TTL,
        })
    }
}
