//! Message counts of queues and partitions on both sides.

use std::collections::BTreeMap;

use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{CountsStore, MessageCounts, Page, QueueCounts};

use super::compare::{Comparison, same};
use super::world::{QueueWorld, failed};

const ALL: Page = Page { limit: 1_000, offset: 0 };

impl QueueWorld<'_> {
    pub(super) async fn inspect_counts(&self, queue: &QueueName) -> Comparison {
        let oracle = self.oracle.queue_counts(Some(queue), ALL).await.map_err(failed)?;
        let store = self.store.queue_counts(Some(queue), ALL).await.map_err(failed)?;
        same(&format!("counts of {queue}"), plain(&oracle), plain(&store))?;
        let oracle = by_name(&self.oracle, queue).await?;
        let store = by_name(self.store.as_ref(), queue).await?;
        same(&format!("partitions of {queue}"), oracle, store)?;
        for group in self.names.groups.iter().map(Some).chain([None]) {
            let oracle = self.oracle.depth(queue, group, ALL).await.map_err(failed)?;
            let store = self.store.depth(queue, group, ALL).await.map_err(failed)?;
            let plain = |depth: Option<wakeline_store::Depth>| {
                depth.map(|mut depth| {
                    depth.partitions.sort();
                    depth
                })
            };
            same(&format!("depth of {queue} for {group:?}"), plain(oracle), plain(store))?;
        }
        Ok(())
    }
}

type PlainCounts = ([u64; 5], MessageCounts);

fn plain(all: &[QueueCounts]) -> Vec<PlainCounts> {
    let one = |one: &QueueCounts| {
        let QueueCounts { partitions, partitions_behind: behind, leases, .. } = *one;
        let counts = [partitions, behind, leases, one.partitions_leased, one.partitions_dead];
        (counts, one.messages)
    };
    all.iter().map(one).collect()
}

async fn by_name(
    store: &(impl CountsStore + ?Sized),
    queue: &QueueName,
) -> Result<BTreeMap<PartitionName, MessageCounts>, String> {
    let all = store.partition_counts(queue, ALL).await.map_err(failed)?;
    Ok(all.into_iter().map(|one| (one.partition, one.messages)).collect())
}
