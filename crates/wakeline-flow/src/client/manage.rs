//! Management calls of the client: list, suspend, resume, terminate, delete.

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

/// Turns and activities that have waited longer than this for a worker are reported with their
/// instance. Claims normally take milliseconds.
pub const UNCLAIMED_AFTER: Duration = Duration::from_secs(30);

impl Client {
    /// Suspends an instance: it takes no turns until it is resumed. Returns false if it has ended
    /// or is already suspended.
    pub async fn suspend(&self, instance: &str, reason: &str) -> Result<bool, ClientError> {
        let suspension = Suspension::Operator { reason: reason.to_owned() };
        let id = InstanceId::new(instance)?;
        Ok(self.admin("suspend instances")?.suspend(&id, suspension).await?)
    }

    /// Resumes a suspended instance. Returns false if it was not suspended.
    pub async fn resume(&self, instance: &str) -> Result<bool, ClientError> {
        Ok(self.admin("resume instances")?.resume(&InstanceId::new(instance)?).await?)
    }

    /// Ends an instance at once without running its code, even one that waits for its first turn.
    /// The children that it started are closed according to their policies
    /// ([`ClosePolicy`](crate::ClosePolicy)): by default they are terminated too, with all their
    /// descendants. Returns false if the instance is unknown or has ended.
    pub async fn terminate(&self, instance: &str, reason: &str) -> Result<bool, ClientError> {
        let id = InstanceId::new(instance)?;
        let error = FlowError::new(FailureKind::Terminated, reason);
        let ended = self.admin("terminate instances")?.terminate(&id, error, None).await?;
        if ended && let Err(error) = close_tree(self.provider.as_ref(), &id).await {
            // The instance has a message in its mailbox that makes a runtime close them.
            let error = error_chain(&error);
            tracing::warn!(
                %instance, error,
                "could not close all children of an instance: the rest is closed later"
            );
        }
        Ok(ended)
    }

    /// Returns a page of instances, newest first, and the position of the next page.
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

    /// Returns turns and activities that have been claimable for at least `waited_min` and that no
    /// worker has claimed, longest wait first. Most often no worker has registered their code.
    pub async fn unclaimed(
        &self,
        waited_min: Duration,
        limit: u32,
    ) -> Result<Vec<Unclaimed>, ClientError> {
        let find = FindUnclaimed { instances: None, waited_min, limit };
        Ok(self.admin("find unclaimed work")?.unclaimed(find).await?)
    }

    /// Adds to each running instance the turn or activity that no worker claims, if there is one.
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
        let ids = Some(open.keys().cloned().collect());
        // The longest wait of each instance is enough.
        let find = FindUnclaimed { instances: ids, waited_min: UNCLAIMED_AFTER, limit: 1 };
        for unclaimed in self.admin("find unclaimed work")?.unclaimed(find).await? {
            if let Some(instance) = open.get_mut(&unclaimed.instance) {
                instance.unclaimed.get_or_insert(unclaimed);
            }
        }
        Ok(())
    }

    /// Returns the history of an execution; of the current one if none is given.
    pub async fn history(
        &self,
        instance: &str,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ClientError> {
        Ok(self.provider.read(&InstanceId::new(instance)?, execution).await?)
    }

    /// Returns a page of a history that begins at an event and has about `bytes_max` bytes.
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

    /// Returns at most `limit` activities of an instance that have not ended, oldest first, with
    /// the number of attempts, the last error and the time of the next attempt.
    pub async fn pending_activities(
        &self,
        instance: &str,
        limit: u32,
    ) -> Result<Vec<PendingActivity>, ClientError> {
        let id = InstanceId::new(instance)?;
        Ok(self.admin("read activities")?.pending_activities(&id, limit).await?)
    }

    /// Lists ids that were never started but have events waiting, in the order of the ids, with the
    /// number of events and the time of the first. [`Client::raise_event_early`] creates such
    /// mailboxes; [`Client::delete`] with `force` removes them.
    pub async fn early_mailboxes(
        &self,
        list: ListMailboxes,
    ) -> Result<Vec<EarlyMailbox>, ClientError> {
        Ok(self.admin("list mailboxes")?.early_mailboxes(list).await?)
    }

    /// Returns at most `limit` messages, in order, that wait for an instance or for an id that was
    /// never started.
    pub async fn mailbox(
        &self,
        instance: &str,
        limit: u32,
    ) -> Result<Vec<MailboxItem>, ClientError> {
        Ok(self.admin("read mailboxes")?.mailbox(&InstanceId::new(instance)?, limit).await?)
    }

    /// Returns the executions of an instance, oldest first.
    pub async fn executions(&self, instance: &str) -> Result<Vec<ExecutionDetail>, ClientError> {
        Ok(self.admin("list executions")?.executions(&InstanceId::new(instance)?).await?)
    }

    /// Returns a value of the instance's key-value state.
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

    /// Returns the instance's whole key-value state.
    pub async fn kv_all(&self, instance: &str) -> Result<BTreeMap<String, Json>, ClientError> {
        let values = self.admin("read values")?.kv(&InstanceId::new(instance)?, None).await?;
        let decode = |entry: wakeline_store::flow::KvEntry| {
            serde_json::from_slice(&entry.value).map(|value| (entry.key.to_string(), value))
        };
        let all: Result<_, _> = values.into_iter().map(decode).collect();
        all.map_err(ClientError::codec("a value"))
    }

    /// Returns an instance and all its descendants, parents before children.
    pub async fn tree(&self, instance: &str) -> Result<Vec<InstanceId>, ClientError> {
        Ok(self.admin("read trees")?.tree(&InstanceId::new(instance)?).await?)
    }

    /// Returns how many events, messages, activities and values an instance holds.
    pub async fn stats(&self, instance: &str) -> Result<Option<InstanceStats>, ClientError> {
        Ok(self.admin("read statistics")?.stats(&InstanceId::new(instance)?).await?)
    }

    /// Returns how many messages and activities wait in the whole store, and how many instances are
    /// in each state.
    pub async fn depths(&self) -> Result<FlowDepths, ClientError> {
        Ok(self.admin("read depths")?.depths().await?)
    }

    /// Deletes an instance with all its descendants. `force` also deletes one that has not ended.
    pub async fn delete(&self, instance: &str, force: bool) -> Result<DeleteReport, ClientError> {
        let command = DeleteInstances { instances: vec![InstanceId::new(instance)?], force };
        Ok(self.admin("delete instances")?.delete(command).await?)
    }

    /// Deletes ended instances that have no parent, with all their descendants.
    pub async fn delete_matching(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteReport, ClientError> {
        Ok(self.admin("delete instances")?.delete_matching(filter).await?)
    }

    /// Deletes old executions of the instances that match.
    pub async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, ClientError> {
        Ok(self.admin("prune instances")?.prune(filter, options).await?)
    }
}
