//! duroxide's management functions: lists, statistics, deleting and pruning.

use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};
use duroxide::{Event, INITIAL_EXECUTION_ID};
use wakeline_core::InstanceId;
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, ExecutionDetail, InstanceDetail, InstanceFilter as StoredFilter,
    InstanceState, ListInstances, PruneOptions as StoredOptions, PruneReport,
};

use crate::envelope::{millis, timestamp};
use crate::error::{missing, of_store, permanent};
use crate::names;
use crate::provider::DuroxideProvider;
use crate::read::PAGE_LEN;

#[async_trait]
impl<S: Send + Sync + 'static> ProviderAdmin for DuroxideProvider<S> {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        let all = self.list("list_instances", ListInstances::default()).await?;
        Ok(all.iter().map(id).collect())
    }

    /// An instance between two executions is in two lists: it is running, and its previous
    /// execution has continued as new.
    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        const OP: &str = "list_instances_by_status";
        let states = match status {
            "Running" | "ContinuedAsNew" => vec![InstanceState::Running],
            "Completed" => vec![InstanceState::Completed],
            "Failed" => FAILED.to_vec(),
            _ => return Ok(Vec::new()),
        };
        let all = self.list(OP, ListInstances { states, ..ListInstances::default() }).await?;
        if status != "ContinuedAsNew" {
            return Ok(all.iter().map(id).collect());
        }
        let mut between = Vec::new();
        for detail in &all {
            let last = self.executions(OP, &detail.instance).await?.pop();
            if last.is_some_and(|last| last.state == InstanceState::ContinuedAsNew) {
                between.push(id(detail));
            }
        }
        Ok(between)
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        const OP: &str = "list_executions";
        let executions = self.executions(OP, &names::instance(OP, instance)?).await?;
        Ok(executions.into_iter().map(|execution| execution.execution).collect())
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.history("read_history_with_execution_id", instance, Some(execution_id)).await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.history("read_history", instance, None).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        let detail = self.detail("latest_execution_id", instance).await?;
        Ok(detail.map_or(INITIAL_EXECUTION_ID, |detail| detail.execution))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        const OP: &str = "get_instance_info";
        let detail = self.detail(OP, instance).await?.ok_or_else(|| missing(OP, instance))?;
        let current = self.execution(OP, &detail.instance, detail.execution).await?;
        let (state, output) = match current {
            Some(current) => (current.state, current.output),
            None => (detail.state, detail.output.clone()),
        };
        Ok(InstanceInfo {
            instance_id: instance.to_owned(),
            orchestration_name: names::unescape(detail.name.as_str()),
            orchestration_version: detail.version.unwrap_or_else(|| "unknown".to_owned()),
            current_execution_id: detail.execution,
            status: status(state).to_owned(),
            output: output.map(|output| text(&output)),
            created_at: millis(detail.created_at),
            updated_at: millis(detail.updated_at),
            parent_instance_id: detail.parent.map(|parent| names::unescape(parent.as_str())),
        })
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        const OP: &str = "get_execution_info";
        let id = names::instance(OP, instance)?;
        let found = self.execution(OP, &id, execution_id).await?;
        let found = found.ok_or_else(|| {
            permanent(OP, format!("execution {execution_id} of instance {instance} not found"))
        })?;
        Ok(ExecutionInfo {
            execution_id,
            status: status(found.state).to_owned(),
            output: found.output.map(|output| text(&output)),
            started_at: millis(found.started_at),
            completed_at: found.ended_at.map(millis),
            event_count: usize::try_from(found.events).unwrap_or(usize::MAX),
        })
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        let depths = self.store().depths().await.map_err(of_store("get_system_metrics"))?;
        let count = |wanted: &[InstanceState]| {
            let counts = InstanceState::ALL.iter().zip(depths.instances);
            counts.filter(|(state, _)| wanted.contains(state)).map(|(_, count)| count).sum()
        };
        Ok(SystemMetrics {
            total_instances: depths.instances.iter().sum::<u64>()
                - count(&[InstanceState::Pending]),
            total_executions: depths.executions,
            running_instances: count(&[InstanceState::Running]),
            completed_instances: count(&[InstanceState::Completed]),
            failed_instances: count(&FAILED),
            total_events: depths.events,
        })
    }

    /// All messages that are not yet due count as timers.
    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        let depths = self.store().depths().await.map_err(of_store("get_queue_depths"))?;
        let size = |count| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(QueueDepths {
            orchestrator_queue: size(depths.messages.saturating_sub(depths.delayed)),
            worker_queue: size(depths.work),
            timer_queue: size(depths.delayed),
        })
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        const OP: &str = "list_children";
        let parent = Some(names::instance(OP, instance_id)?);
        let children = self.list(OP, ListInstances { parent, ..ListInstances::default() }).await?;
        Ok(children.iter().map(id).collect())
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        const OP: &str = "get_parent_id";
        let detail = self.detail(OP, instance_id).await?.ok_or_else(|| missing(OP, instance_id))?;
        Ok(detail.parent.map(|parent| names::unescape(parent.as_str())))
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ProviderError> {
        const OP: &str = "get_instance_tree";
        let tree = self.tree(OP, &names::instance(OP, instance_id)?).await?;
        let mut all_ids: Vec<_> = tree.iter().map(|id| names::unescape(id.as_str())).collect();
        if all_ids.is_empty() {
            all_ids.push(instance_id.to_owned());
        }
        Ok(InstanceTree { root_id: instance_id.to_owned(), all_ids })
    }

    /// Deletes all of the instances or none. An instance whose children are not included is
    /// refused, because they would be orphans.
    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        const OP: &str = "delete_instances_atomic";
        let instances: Result<Vec<_>, _> = ids.iter().map(|id| names::instance(OP, id)).collect();
        let instances = instances?;
        for instance in &instances {
            let tree = self.tree(OP, instance).await?;
            if let Some(orphan) = tree.iter().find(|id| !instances.contains(id)) {
                let reason = format!(
                    "instance {instance} has a child {orphan}, which must be deleted with it"
                );
                return Err(permanent(OP, reason));
            }
        }
        self.finish_deletions(OP).await?;
        let command = DeleteInstances { instances, force };
        let report = self.store().delete_instances(command).await.map_err(of_store(OP))?;
        if let Some(running) = report.running.first() {
            let reason = format!("instance {running} is still running; cancel it, or use force");
            return Err(permanent(OP, reason));
        }
        if let Some(orphan) = report.orphans.first() {
            let reason = format!("instance {orphan} has a parent, which must be deleted with it");
            return Err(permanent(OP, reason));
        }
        Ok(deleted(&report))
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        const OP: &str = "delete_instance_bulk";
        let filter = stored_filter(OP, filter)?;
        self.finish_deletions(OP).await?;
        let report = self.store().delete_matching(filter).await.map_err(of_store(OP))?;
        Ok(deleted(&report))
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        const OP: &str = "prune_executions";
        let detail = self.detail(OP, instance_id).await?.ok_or_else(|| missing(OP, instance_id))?;
        let instances = Some(vec![detail.instance]);
        let filter = StoredFilter { instances, ended_before: None, limit: 1 };
        self.finish_deletions(OP).await?;
        let report = self.store().prune(filter, stored_options(options)).await;
        report.map(pruned).map_err(of_store(OP))
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        const OP: &str = "prune_executions_bulk";
        let filter = stored_filter(OP, filter)?;
        self.finish_deletions(OP).await?;
        let report = self.store().prune(filter, stored_options(options)).await;
        report.map(pruned).map_err(of_store(OP))
    }
}

impl<S> DuroxideProvider<S> {
    /// Continues interrupted deletions and prunings, because a program may have neither a server
    /// nor a runtime of our own, which would do this when they start.
    async fn finish_deletions(&self, operation: &'static str) -> Result<(), ProviderError> {
        loop {
            let due = self.store().clear_deleted().await.map_err(of_store(operation))?;
            if due != Some(Duration::ZERO) {
                return Ok(());
            }
        }
    }

    async fn execution(
        &self,
        operation: &'static str,
        instance: &InstanceId,
        execution: u64,
    ) -> Result<Option<ExecutionDetail>, ProviderError> {
        let all = self.executions(operation, instance).await?;
        Ok(all.into_iter().find(|other| other.execution == execution))
    }

    async fn tree(
        &self,
        operation: &'static str,
        instance: &InstanceId,
    ) -> Result<Vec<InstanceId>, ProviderError> {
        self.store().tree(instance).await.map_err(of_store(operation))
    }
}

/// The states that duroxide considers failures.
const FAILED: [InstanceState; 3] =
    [InstanceState::Failed, InstanceState::Cancelled, InstanceState::Terminated];

fn id(detail: &InstanceDetail) -> String {
    names::unescape(detail.instance.as_str())
}

fn status(state: InstanceState) -> &'static str {
    match state {
        InstanceState::Pending | InstanceState::Running => "Running",
        InstanceState::Completed => "Completed",
        InstanceState::Failed | InstanceState::Cancelled | InstanceState::Terminated => "Failed",
        InstanceState::ContinuedAsNew => "ContinuedAsNew",
    }
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

fn stored_filter(
    operation: &'static str,
    filter: InstanceFilter,
) -> Result<StoredFilter, ProviderError> {
    let named = |ids: Vec<String>| ids.iter().map(|id| names::instance(operation, id)).collect();
    Ok(StoredFilter {
        instances: filter.instance_ids.map(named).transpose()?,
        ended_before: filter.completed_before.map(timestamp),
        limit: filter.limit.unwrap_or(PAGE_LEN),
    })
}

fn stored_options(options: PruneOptions) -> StoredOptions {
    let PruneOptions { keep_last, completed_before } = options;
    StoredOptions { keep_last, ended_before: completed_before.map(timestamp) }
}

fn deleted(report: &DeleteReport) -> DeleteInstanceResult {
    DeleteInstanceResult {
        instances_deleted: report.instances,
        executions_deleted: report.executions,
        events_deleted: report.events,
        queue_messages_deleted: report.messages,
    }
}

fn pruned(report: PruneReport) -> PruneResult {
    PruneResult {
        instances_processed: report.instances,
        executions_deleted: report.executions,
        events_deleted: report.events,
    }
}
