//! Whether there is room for a push, and into which lane it goes.
//!
//! # Where it sits
//! Every push and transaction passes here before its store call, while nothing is written yet: a
//! refused one leaves no trace. What reaches the store by other ways is not held back here:
//! messages of orchestrations, timers (which have a key, and may only move one that was set
//! before), scheduled messages that fall due. They all count. SQL pushes wait in the store.
//!
//! # Invariants
//! * A push to a queue without limits and lanes costs a lookup in memory. That it has none is read
//!   once, and again when the queue is changed, or after a minute in case that was not heard.
//! * What counts against a limit is read at most once a second and queue, and this node's own
//!   pushes are added meanwhile. So limits are overrun only by what other nodes push within a
//!   second, and by what is under way during the read.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wakeline_core::{Change, PartitionName, QueueName, lane_of};
use wakeline_store::{PushItem, Room, ScheduleItem, Store, StoreError};

use crate::error::QueueError;

/// How long what is known of a queue with limits or lanes holds.
const LIMITED_FOR: Duration = Duration::from_secs(1);

/// How long it holds that a queue has none.
const PLAIN_FOR: Duration = Duration::from_secs(60);

/// Most queues that are remembered.
const QUEUES_MAX: usize = 10_000;

/// Readers of different queues seldom wait for each other.
const READERS: usize = 16;

/// What this node knows of the room in queues.
pub(crate) struct Rooms {
    store: Arc<dyn Store>,
    known: Mutex<Known>,
    /// One reader of a queue at a time; the others find what it read.
    readers: [tokio::sync::Mutex<()>; READERS],
}

#[derive(Default)]
struct Known {
    queues: HashMap<QueueName, Seen>,
    /// Counts what was forgotten: what was read before that is not kept.
    forgotten: u64,
}

/// A queue as it was read, with what this node pushed since.
struct Seen {
    room: Room,
    partitions: HashMap<PartitionName, u64>,
    at: Instant,
}

impl Seen {
    fn is_plain(&self) -> bool {
        self.room.len_max == 0 && self.room.partition_len_max == 0 && self.room.lanes == 0
    }

    fn holds(&self) -> bool {
        self.at.elapsed() < if self.is_plain() { PLAIN_FOR } else { LIMITED_FOR }
    }

    /// Whether it says what is needed to judge pushes to these partitions.
    fn covers(&self, partitions: &[PartitionName]) -> bool {
        let counted = |name: &PartitionName| self.partitions.contains_key(name);
        self.holds() && (self.room.partition_len_max == 0 || partitions.iter().all(counted))
    }
}

/// The messages of a push for one queue.
#[derive(Default)]
struct Wanted {
    items: Vec<usize>,
    partitions: BTreeMap<PartitionName, u64>,
}

impl Rooms {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Mutex::default(), readers: Default::default() }
    }

    /// Puts messages into their lanes, and counts them in; or refuses all of them.
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
        let mut wanted: BTreeMap<QueueName, Wanted> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            wanted.entry(item.queue.clone()).or_default().items.push(index);
        }
        for (queue, wanted) in &mut wanted {
            let lanes = self.read(queue, &[]).await?;
            for index in &wanted.items {
                let item = &mut items[*index];
                if lanes > 0 && item.partition == PartitionName::default_partition() {
                    item.partition = lane_of(&item.transaction_id, lanes);
                }
                *wanted.partitions.entry(item.partition.clone()).or_default() += 1;
            }
            let partitions: Vec<_> = wanted.partitions.keys().cloned().collect();
            self.read(queue, &partitions).await?;
        }
        self.known.lock().count_in(&wanted).inspect_err(|error| {
            if let QueueError::QueueFull { partition, .. } = error {
                let limit = if partition.is_some() { "partition" } else { "queue" };
                metrics::counter!("wakeline_queue_pushes_refused_total", "limit" => limit)
                    .increment(1);
            }
        })
    }

    fn all_plain<'a>(&self, mut items: impl Iterator<Item = &'a PushItem>) -> bool {
        let known = self.known.lock();
        let mut last = None;
        items.all(|item| {
            let seen = last == Some(&item.queue)
                || known
                    .queues
                    .get(&item.queue)
                    .is_some_and(|seen| seen.is_plain() && seen.holds());
            last = Some(&item.queue);
            seen
        })
    }

    /// Sees to it that these partitions of a queue can be judged. Returns the queue's lanes.
    async fn read(&self, queue: &QueueName, names: &[PartitionName]) -> Result<u32, StoreError> {
        let lanes = || {
            let known = self.known.lock();
            let seen = known.queues.get(queue).filter(|seen| seen.covers(names));
            seen.map(|seen| seen.room.lanes)
        };
        if let Some(lanes) = lanes() {
            return Ok(lanes);
        }
        let _one = self.readers[shard(queue)].lock().await;
        if let Some(lanes) = lanes() {
            return Ok(lanes);
        }
        let forgotten = self.known.lock().forgotten;
        // A queue that does not exist is made by the push, without limits.
        let room = self.store.room(queue, names).await?.unwrap_or_default();
        let lanes = room.lanes;
        let mut known = self.known.lock();
        if known.forgotten == forgotten {
            known.learn(queue, names, room);
        }
        Ok(lanes)
    }

    /// Forgets queues that were changed: a change that concerns all their partitions and groups.
    pub(crate) fn changed(&self, changes: &[Change]) {
        for change in changes {
            if change.partition.is_none() && change.group.is_none() {
                self.forget(&change.queue);
            }
        }
    }

    /// Forgets a queue.
    pub(crate) fn forget(&self, queue: &QueueName) {
        let mut known = self.known.lock();
        known.queues.remove(queue);
        known.forgotten += 1;
    }

    /// Forgets everything: changes may not have been heard of.
    pub(crate) fn forget_all(&self) {
        let mut known = self.known.lock();
        known.queues.clear();
        known.forgotten += 1;
    }
}

fn shard(queue: &QueueName) -> usize {
    let mut hasher = DefaultHasher::new();
    queue.hash(&mut hasher);
    usize::try_from(hasher.finish() % READERS as u64).expect("below a small number")
}

impl Known {
    fn learn(&mut self, queue: &QueueName, names: &[PartitionName], room: Room) {
        if self.queues.len() >= QUEUES_MAX {
            self.queues.clear();
        }
        let lens = names.iter().cloned().zip(room.partition_lens.iter().copied());
        let fresh = Seen { partitions: lens.collect(), room, at: Instant::now() };
        match self.queues.entry(queue.clone()) {
            // More partitions of what holds still. Its age stays, so that it is read anew in time.
            Entry::Occupied(mut seen) if seen.get().holds() && !names.is_empty() => {
                seen.get_mut().partitions.extend(fresh.partitions);
            }
            Entry::Occupied(mut seen) => drop(seen.insert(fresh)),
            Entry::Vacant(place) => drop(place.insert(fresh)),
        }
    }

    /// Counts all of it in, if all of it fits.
    fn count_in(&mut self, wanted: &BTreeMap<QueueName, Wanted>) -> Result<(), QueueError> {
        for (queue, wanted) in wanted {
            let Some(seen) = self.queues.get(queue) else { continue };
            let len = wanted.items.len() as u64;
            fits(seen.room.len, len, seen.room.len_max, (queue, None))?;
            for (name, len) in &wanted.partitions {
                let Some(there) = seen.partitions.get(name) else { continue };
                fits(*there, *len, seen.room.partition_len_max, (queue, Some(name)))?;
            }
        }
        for (queue, wanted) in wanted {
            let Some(seen) = self.queues.get_mut(queue) else { continue };
            seen.room.len += wanted.items.len() as u64;
            for (name, len) in &wanted.partitions {
                if let Some(there) = seen.partitions.get_mut(name) {
                    *there += len;
                }
            }
        }
        Ok(())
    }
}

fn fits(
    there: u64,
    more: u64,
    most: u64,
    (queue, partition): (&QueueName, Option<&PartitionName>),
) -> Result<(), QueueError> {
    if most == 0 || there.saturating_add(more) <= most {
        return Ok(());
    }
    if more > most {
        let option = if partition.is_some() { "maxPartitionSize" } else { "maxSize" };
        let reason = format!("has {more} messages for queue {queue}, whose {option} is {most}");
        return Err(StoreError::Invalid { field: "items", reason }.into());
    }
    Err(QueueError::QueueFull {
        queue: queue.clone(),
        partition: partition.cloned(),
        retry_after: LIMITED_FOR,
    })
}
