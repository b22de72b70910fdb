//! Listing, holding back, ending, deleting.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use wakeline_core::{InstanceId, KvKey, Timestamp, error_chain};
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, EarlyMailbox, ExecutionDetail, FindUnclaimed, FlowDepths,
    InstanceFilter, InstanceStats, ListInstances, ListMailboxes, PruneOptions, PruneReport,
    Suspension, Unclaimed,
};

use super::{Client, ClientError, Instance};
use crate::closing::close_tree;
use crate::error::{FailureKind, FlowError};
use crate::event::Event;
use crate::json::Json;
use crate::provider::{EventPage, MailboxItem, PendingActivity};

/// What waits longer than this for a worker is shown with its instance: claims take milliseconds.
pub const UNCLAIMED_AFTER: Duration = Duration::from_secs(30);

impl Client {
    /// Holds an instance back: it takes no turns until it is resumed. False if it has ended, or is
    /// held back already.
    pub async fn suspend(&self, instance: &str, reason: &str) -> Result<bool, ClientError> {
        let suspension = Suspension::Operator { reason: reason.to_owned() };
        let id = InstanceId::new(instance)?;
        Ok(self.admin("suspend instances")?.suspend(&id, suspension).await?)
    }

    /// Lets an instance go on. False if it was not held back.
    pub async fn resume(&self, instance: &str) -> Result<bool, ClientError> {
        Ok(self.admin("resume instances")?.resume(&InstanceId::new(instance)?).await?)
    }

    /// Ends an instance at once, without its code, also one that waits for its first turn. Children
    /// that it started are closed by their policies ([`ClosePolicy`](crate::ClosePolicy)): by
    /// default they are terminated too, with all below them. False if it is unknown or has ended.
    pub async fn terminate(&self, instance: &str, reason: &str) -> Result<bool, ClientError> {
        let id = InstanceId::new(instance)?;
        let error = FlowError::new(FailureKind::Terminated, reason);
        let ended = self.admin("terminate instances")?.terminate(&id, error, None).await?;
        if ended && let Err(error) = close_tree(self.provider.as_ref(), &id).await {
            // Its own message makes runtimes do it.
            let error = error_chain(&error);
            tracing::warn!(%instance, error, "could not close all children at once");
        }
        Ok(ended)
    }

    /// A page of instances, newest first, and where the next one begins.
    pub async fn list(
        &self,
        filter: ListInstances,
    ) -> Result<(Vec<Instance>, Option<(Timestamp, InstanceId)>), ClientError> {
        let page = self.admin("list instances")?.list(filter).await?;
        let instances: Result<_, _> = page.instances.into_iter().map(Instance::of).collect();
        let mut instances: Vec<Instance> = instances?;
        self.note_unclaimed(instances.iter_mut()).await?;
        Ok((instances, page.next))
    }

    /// Turns and activities that could be claimed for at least so long and that no worker claimed,
    /// longest first: most often no worker has registered their code.
    pub async fn unclaimed(
        &self,
        waited_min: Duration,
        limit: u32,
    ) -> Result<Vec<Unclaimed>, ClientError> {
        let find = FindUnclaimed { instances: None, waited_min, limit };
        Ok(self.admin("find unclaimed work")?.unclaimed(find).await?)
    }

    /// Says of instances that go on what of them nobody claims.
    pub(super) async fn note_unclaimed(
        &self,
        instances: impl Iterator<Item = &mut Instance>,
    ) -> Result<(), ClientError> {
        let mut open: BTreeMap<InstanceId, &mut Instance> = instances
            .filter(|one| !one.state.is_ended() && one.suspended.is_none())
            .map(|one| (one.instance.clone(), one))
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let asked = Some(open.keys().cloned().collect());
        // What waits longest is enough.
        let find = FindUnclaimed { instances: asked, waited_min: UNCLAIMED_AFTER, limit: 1 };
        for unclaimed in self.admin("find unclaimed work")?.unclaimed(find).await? {
            if let Some(instance) = open.get_mut(&unclaimed.instance) {
                instance.unclaimed.get_or_insert(unclaimed);
            }
        }
        Ok(())
    }

    /// The history of an execution, or of the current one.
    pub async fn history(
        &self,
        instance: &str,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ClientError> {
        Ok(self.provider.read(&InstanceId::new(instance)?, execution).await?)
    }

    /// A piece of a history, from an event on, about so many bytes long.
    pub async fn history_page(
        &self,
        instance: &str,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<EventPage, ClientError> {
        let (admin, id) = (self.admin("page histories")?, InstanceId::new(instance)?);
        Ok(admin.history_page(&id, execution, from_event, bytes_max).await?)
    }

    /// Activities of an instance that have not ended, oldest first: how often they were tried, why
    /// the last try failed, and when the next one is. At most so many.
    pub async fn pending_activities(
        &self,
        instance: &str,
        limit: u32,
    ) -> Result<Vec<PendingActivity>, ClientError> {
        let id = InstanceId::new(instance)?;
        Ok(self.admin("read activities")?.pending_activities(&id, limit).await?)
    }

    /// Ids under which events wait and that were never started, in their order: with how many wait,
    /// and since when. [`Client::raise_event_early`] makes them, and [`Client::delete`] with
    /// `force` removes them.
    pub async fn early_mailboxes(
        &self,
        list: ListMailboxes,
    ) -> Result<Vec<EarlyMailbox>, ClientError> {
        Ok(self.admin("list mailboxes")?.early_mailboxes(list).await?)
    }

    /// Messages that wait for an instance, or under an id that was never started, in order. At
    /// most so many.
    pub async fn mailbox(
        &self,
        instance: &str,
        limit: u32,
    ) -> Result<Vec<MailboxItem>, ClientError> {
        Ok(self.admin("read mailboxes")?.mailbox(&InstanceId::new(instance)?, limit).await?)
    }

    /// The executions of an instance, oldest first.
    pub async fn executions(&self, instance: &str) -> Result<Vec<ExecutionDetail>, ClientError> {
        Ok(self.admin("list executions")?.executions(&InstanceId::new(instance)?).await?)
    }

    /// A value of the key-value state.
    pub async fn kv_get<T: DeserializeOwned>(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<T>, ClientError> {
        let (id, key) = (InstanceId::new(instance)?, KvKey::new(key)?);
        let values = self.admin("read values")?.kv(&id, Some(&key)).await?;
        let value = values.first().map(|entry| serde_json::from_slice(&entry.value));
        value.transpose().map_err(ClientError::codec("the value"))
    }

    /// The whole key-value state.
    pub async fn kv_all(&self, instance: &str) -> Result<BTreeMap<String, Json>, ClientError> {
        let values = self.admin("read values")?.kv(&InstanceId::new(instance)?, None).await?;
        let decode = |entry: wakeline_store::flow::KvEntry| {
            serde_json::from_slice(&entry.value).map(|value| (entry.key.to_string(), value))
        };
        let all: Result<_, _> = values.into_iter().map(decode).collect();
        all.map_err(ClientError::codec("a value"))
    }

    /// An instance and all below it, parents before children.
    pub async fn tree(&self, instance: &str) -> Result<Vec<InstanceId>, ClientError> {
        Ok(self.admin("read trees")?.tree(&InstanceId::new(instance)?).await?)
    }

    /// How much an instance holds.
    pub async fn stats(&self, instance: &str) -> Result<Option<InstanceStats>, ClientError> {
        Ok(self.admin("read statistics")?.stats(&InstanceId::new(instance)?).await?)
    }

    /// How much waits in all.
    pub async fn depths(&self) -> Result<FlowDepths, ClientError> {
        Ok(self.admin("read depths")?.depths().await?)
    }

    /// Deletes an instance with all below it.
    pub async fn delete(&self, instance: &str, force: bool) -> Result<DeleteReport, ClientError> {
        let command = DeleteInstances { instances: vec![InstanceId::new(instance)?], force };
        Ok(self.admin("delete instances")?.delete(command).await?)
    }

    /// Deletes ended instances that have no parent, with all below them.
    pub async fn delete_matching(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteReport, ClientError> {
        Ok(self.admin("delete instances")?.delete_matching(filter).await?)
    }

    /// Removes old executions.
    pub async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, ClientError> {
        Ok(self.admin("prune instances")?.prune(filter, options).await?)
    }
}
