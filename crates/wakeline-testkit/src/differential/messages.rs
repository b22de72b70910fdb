//! Messages on both sides: interventions, deletions and lists.

use wakeline_core::{Change, PartitionId, PartitionName, QueueName, TransactionId};
use wakeline_store::{
    Intervention, ListedMessage, MessageFilter, MessageKey, MessageState, Page, QueueMessages,
    Store,
};

use super::compare::{Comparison, same};
use super::op::MessageTarget;
use super::side::{Handle, QueueSkew};
use super::world::{QueueWorld, failed};

impl QueueWorld<'_> {
    pub(super) async fn intervene(
        &mut self,
        hold: usize,
        message: usize,
        bury: bool,
    ) -> Result<Vec<Change>, String> {
        let Some(hold) = self.hold(hold).cloned() else { return Ok(Vec::new()) };
        let Some(id) = hold.messages.get(message).cloned() else { return Ok(Vec::new()) };
        let group = &self.names.groups[hold.group];
        let key = |handle: &Handle| MessageKey {
            partition: handle.partition,
            transaction_id: id.clone(),
        };
        let what = || {
            if bury {
                Intervention::GiveUp { error: Some("by hand".to_owned()) }
            } else {
                Intervention::Retry
            }
        };
        let oracle = self.oracle.intervene(key(&hold.oracle), group, what()).await;
        let store = self.store.intervene(key(&hold.store), group, what()).await;
        let (oracle, (store, changes)) = (oracle.map_err(failed)?.0, store.map_err(failed)?);
        same("outcome of the intervention", oracle, store)?;
        Ok(changes)
    }

    /// Deletes messages of a partition, one after the other.
    pub(super) async fn delete_messages(
        &mut self,
        place: MessageTarget,
        picks: &[usize],
    ) -> Result<Vec<Change>, String> {
        let (queue, name) =
            (&self.names.queues[place.queue], &self.names.partitions[place.partition]);
        let store: &dyn Store = self.store.as_ref();
        let ids = partition_id(&self.oracle, queue, name)
            .await?
            .zip(partition_id(store, queue, name).await?);
        let Some((of_oracle, of_store)) = ids else { return Ok(Vec::new()) };
        let mut all_changes = Vec::new();
        for pick in picks {
            let filter = MessageFilter {
                queue: Some(queue.clone()),
                partition: Some(name.clone()),
                ..Default::default()
            };
            let stored = self.oracle.browse(filter, None, 1_000).await.map_err(failed)?.messages;
            let id = if stored.is_empty() {
                TransactionId::new("recurring-0").expect("a short id")
            } else {
                stored[pick % stored.len()].transaction_id.clone()
            };
            let key = |partition| MessageKey { partition, transaction_id: id.clone() };
            let oracle = self.oracle.delete_message(key(of_oracle)).await.map_err(failed)?;
            let (existed, changes) = store.delete_message(key(of_store)).await.map_err(failed)?;
            same("whether the message existed", oracle.0, existed)?;
            all_changes.extend(changes);
        }
        Ok(all_changes)
    }

    pub(super) async fn clear(&mut self, queue: usize, dead_letters: bool) -> Comparison {
        let queue = &self.names.queues[queue];
        let oracle = self.oracle.clear_queue(queue, dead_letters).await.map_err(failed)?;
        let store = self.store.clear_queue(queue, dead_letters).await.map_err(failed)?;
        same("number of cleared messages", oracle, store)
    }

    /// Compares the lists of all messages of a queue.
    pub(super) async fn inspect_list(&self, queue: &QueueName) -> Comparison {
        let oracle = list(&self.oracle, queue, QueueSkew(0)).await?;
        let store: &dyn Store = self.store.as_ref();
        let store = list(store, queue, self.skew).await?;
        // A store may create the group of queue mode together with its queue.
        let known: Vec<_> = oracle.iter().flat_map(|one| &one.groups).map(|one| &one.0).collect();
        let mut plain = store.clone();
        for message in &mut plain {
            message.groups.retain(|(group, _)| known.contains(&group));
        }
        same("listed messages", oracle, plain)
    }
}

async fn partition_id<S: QueueMessages + ?Sized>(
    store: &S,
    queue: &QueueName,
    name: &PartitionName,
) -> Result<Option<PartitionId>, String> {
    let page = Page { limit: 100, offset: 0 };
    let all = store.partitions(Some(queue), page).await.map_err(failed)?;
    Ok(all.into_iter().find(|one| one.partition == *name).map(|one| one.partition_id))
}

async fn list<S: QueueMessages + ?Sized>(
    store: &S,
    queue: &QueueName,
    skew: QueueSkew,
) -> Result<Vec<ListedMessage>, String> {
    let filter = MessageFilter { queue: Some(queue.clone()), ..MessageFilter::default() };
    let pending = MessageFilter { state: Some(MessageState::Pending), ..filter.clone() };
    let mut listed = browse_all(store, &filter).await?;
    let some = browse_all(store, &pending).await?;
    let fits = listed.iter().filter(|one| one.state() == MessageState::Pending).count();
    same("number of pending messages", fits, some.len())?;
    for message in &mut listed {
        message.partition_id = wakeline_core::PartitionId(0);
        message.created_at = skew.to_oracle(message.created_at);
    }
    listed.sort_by(|a, b| (&a.partition, a.offset).cmp(&(&b.partition, b.offset)));
    Ok(listed)
}

async fn browse_all<S: QueueMessages + ?Sized>(
    store: &S,
    filter: &MessageFilter,
) -> Result<Vec<ListedMessage>, String> {
    let (mut listed, mut place) = (Vec::new(), None);
    loop {
        let page = store.browse(filter.clone(), place, 100).await.map_err(failed)?;
        listed.extend(page.messages);
        place = page.next;
        if place.is_none() {
            return Ok(listed);
        }
    }
}
