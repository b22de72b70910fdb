//! Statistics over time.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{QueueName, Timestamp};
use wakeline_store::{
    DatabaseStats, MINUTE, NodePoint, NodeStats, QueuePoint, QueueStats, StatsQuery, StatsRange,
    StatsRecord, StatsStore, StoreError,
};

use super::MemoryStore;
use super::state::OracleState;

/// The recorded statistics, by node and slot.
#[derive(Debug, Clone, Default)]
pub(super) struct OracleStats {
    nodes: BTreeMap<(Uuid, u32), (Timestamp, NodeStats)>,
    queues: BTreeMap<(Uuid, u32, Option<QueueName>), (Timestamp, QueueStats)>,
}

#[async_trait]
impl StatsStore for MemoryStore {
    async fn record_stats(&self, record: StatsRecord) -> Result<(), StoreError> {
        self.state.lock().record(record, self.now());
        Ok(())
    }

    async fn queue_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<QueuePoint>), StoreError> {
        let range = query.range(self.now());
        Ok((range, self.state.lock().stats.queue_points(&query, range)))
    }

    async fn node_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<NodePoint>), StoreError> {
        let range = query.range(self.now());
        Ok((range, self.state.lock().stats.node_points(range)))
    }

    async fn database_stats(&self) -> Result<Option<DatabaseStats>, StoreError> {
        Ok(None)
    }
}

impl OracleState {
    fn record(&mut self, record: StatsRecord, now: Timestamp) {
        let StatsRecord { node, node_now, keep, slots } = record;
        let stats = &mut self.stats;
        for slot in slots {
            let age = i64::try_from(slot.age.as_micros()).unwrap_or(i64::MAX);
            let bucket = Timestamp((now.0 - age).div_euclid(MINUTE) * MINUTE);
            let entry = stats.nodes.entry((node, slot.number));
            entry.or_insert((bucket, NodeStats::default())).1 = slot.node;
            for (queue, counts) in slot.queues {
                let entry = stats.queues.entry((node, slot.number, queue));
                let counts = counts.corrected(node_now.0 - now.0);
                entry.or_insert((bucket, QueueStats::default())).1 = counts;
            }
        }
        stats.forget(keep, now);
    }
}

impl OracleStats {
    /// Removes statistics that are older than `keep`.
    pub(super) fn forget(&mut self, keep: Duration, now: Timestamp) {
        let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        let old = |bucket: &Timestamp| bucket.0 < now.0.saturating_sub(keep);
        self.nodes.retain(|_, (bucket, _)| !old(bucket));
        self.queues.retain(|_, (bucket, _)| !old(bucket));
    }

    fn queue_points(&self, query: &StatsQuery, range: StatsRange) -> Vec<QueuePoint> {
        // Parked waiters are summed over nodes, but not over time.
        let mut by_point: BTreeMap<(Timestamp, Option<QueueName>, Uuid), QueueStats> =
            BTreeMap::new();
        for ((node, _, queue), (bucket, counts)) in &self.queues {
            let other = query.queue.is_some() && query.queue != *queue;
            if other || *bucket < range.from || *bucket >= range.to {
                continue;
            }
            let sum = by_point.entry((range.point(*bucket), queue.clone(), *node)).or_default();
            let parked = sum.parked.max(counts.parked);
            sum.add(counts);
            sum.parked = parked;
        }
        let mut points: BTreeMap<(Timestamp, Option<QueueName>, Option<Uuid>), QueueStats> =
            BTreeMap::new();
        for ((at, queue, node), counts) in by_point {
            let node = query.by_node.then_some(node);
            points.entry((at, queue, node)).or_default().add(&counts);
        }
        let point = |((at, queue, node), counts)| QueuePoint { at, queue, node, counts };
        points.into_iter().map(point).collect()
    }

    fn node_points(&self, range: StatsRange) -> Vec<NodePoint> {
        let mut points: BTreeMap<(Timestamp, Uuid), NodeStats> = BTreeMap::new();
        for ((node, _), (bucket, counts)) in &self.nodes {
            if *bucket < range.from || *bucket >= range.to {
                continue;
            }
            let sum = points.entry((range.point(*bucket), *node)).or_default();
            sum.cpu += counts.cpu;
            sum.store_errors += counts.store_errors;
            sum.memory = sum.memory.max(counts.memory);
            sum.waiters = sum.waiters.max(counts.waiters);
        }
        points.into_iter().map(|((at, node), counts)| NodePoint { at, node, counts }).collect()
    }
}
