//! How queues and partitions stand, on both sides.

use std::collections::BTreeMap;

use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{Page, QueueTallies, QueueTally, Tally};

use super::compare::{Same, same};
use super::world::{World, failed};

const ALL: Page = Page { limit: 1_000, offset: 0 };

impl World<'_> {
    pub(super) async fn inspect_tally(&self, queue: &QueueName) -> Same {
        let oracle = self.oracle.queue_tallies(Some(queue), ALL).await.map_err(failed)?;
        let store = self.store.queue_tallies(Some(queue), ALL).await.map_err(failed)?;
        same(&format!("tally of {queue}"), plain(&oracle), plain(&store))?;
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

type Counts = ([u64; 5], Tally);

fn plain(all: &[QueueTally]) -> Vec<Counts> {
    let one = |one: &QueueTally| {
        let QueueTally { partitions, partitions_behind: behind, leases, .. } = *one;
        let counts = [partitions, behind, leases, one.partitions_leased, one.partitions_dead];
        (counts, one.tally)
    };
    all.iter().map(one).collect()
}

async fn by_name(
    store: &(impl QueueTallies + ?Sized),
    queue: &QueueName,
) -> Result<BTreeMap<PartitionName, Tally>, String> {
    let all = store.partition_tallies(queue, ALL).await.map_err(failed)?;
    Ok(all.into_iter().map(|one| (one.partition, one.tally)).collect())
}
