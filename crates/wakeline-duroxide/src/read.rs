//! Reads instances: histories, values and statistics.

use std::collections::HashMap;

use duroxide::providers::ProviderError;
use duroxide::{Event, EventKind, SystemStats};
use wakeline_core::InstanceId;
use wakeline_store::flow::{
    ExecutionDetail, HistoryBatch, InstanceDetail, InstanceState, ListInstances, Watched,
};

use crate::envelope;
use crate::error::{of_store, permanent};
use crate::names;
use crate::provider::DuroxideProvider;

/// The number of bytes of history that are read at a time.
const PAGE_BYTES: usize = 1 << 20;

/// The number of instances that are listed at a time.
pub(crate) const PAGE_LEN: u32 = 1_000;

impl<S> DuroxideProvider<S> {
    /// Returns an instance, if it exists. For duroxide, a pending instance does not exist.
    pub(crate) async fn detail(
        &self,
        operation: &'static str,
        instance: &str,
    ) -> Result<Option<InstanceDetail>, ProviderError> {
        self.detail_of(operation, &names::instance(operation, instance)?).await
    }

    async fn detail_of(
        &self,
        operation: &'static str,
        instance: &InstanceId,
    ) -> Result<Option<InstanceDetail>, ProviderError> {
        match self.store().instance(instance).await.map_err(of_store(operation))? {
            Watched::Found(detail) => Ok(Some(*detail).filter(exists)),
            Watched::Missing => Ok(None),
        }
    }

    /// Returns the version of the current execution of an instance.
    pub(crate) async fn version_of(
        &self,
        operation: &'static str,
        instance: &InstanceId,
    ) -> Result<Option<String>, ProviderError> {
        Ok(self.detail_of(operation, instance).await?.and_then(|detail| detail.version))
    }

    /// Returns the executions of an instance, oldest first.
    pub(crate) async fn executions(
        &self,
        operation: &'static str,
        instance: &InstanceId,
    ) -> Result<Vec<ExecutionDetail>, ProviderError> {
        self.store().executions(instance).await.map_err(of_store(operation))
    }

    /// Returns the events of an execution; of the current one if none is given.
    pub(crate) async fn history(
        &self,
        operation: &'static str,
        instance: &str,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let instance = names::instance(operation, instance)?;
        let batches = self.batches(operation, &instance, execution).await?;
        envelope::events(&batches)
            .map_err(|error| permanent(operation, format!("events cannot be decoded: {error}")))
    }

    pub(crate) async fn batches(
        &self,
        operation: &'static str,
        instance: &InstanceId,
        mut execution: Option<u64>,
    ) -> Result<Vec<HistoryBatch>, ProviderError> {
        let (mut from, mut all) = (1, Vec::new());
        loop {
            let page = self.store().history(instance, execution, from, PAGE_BYTES).await;
            let page = page.map_err(of_store(operation))?;
            // If the caller named no execution, the first page decides which one is read.
            execution = Some(page.execution);
            all.extend(page.batches);
            match page.next {
                Some(next) => from = next,
                None => return Ok(all),
            }
        }
    }

    /// Returns the current key-value state, or the value of one key.
    pub(crate) async fn kv(
        &self,
        operation: &'static str,
        instance: &str,
        key: Option<&str>,
    ) -> Result<HashMap<String, String>, ProviderError> {
        let instance = names::instance(operation, instance)?;
        let key = key.map(|key| names::key(operation, key)).transpose()?;
        let entries =
            self.store().kv(&instance, key.as_ref()).await.map_err(of_store(operation))?;
        let entries = entries.into_iter().map(|entry| envelope::kv_entry(operation, entry));
        entries.map(|entry| entry.map(|(key, entry)| (key, entry.value))).collect()
    }

    /// Returns the statistics of an instance; `None` if it does not exist.
    pub(crate) async fn stats(
        &self,
        operation: &'static str,
        instance: &str,
    ) -> Result<Option<SystemStats>, ProviderError> {
        let id = names::instance(operation, instance)?;
        let stats = self.store().stats(&id).await.map_err(of_store(operation))?;
        let (Some(stats), Some(_)) = (stats, self.detail(operation, instance).await?) else {
            return Ok(None);
        };
        let first = self.store().history(&id, None, 1, 1).await.map_err(of_store(operation))?;
        let first = envelope::events(&first.batches)
            .map_err(|error| permanent(operation, format!("events cannot be decoded: {error}")))?;
        // Values are stored with a time, which is not part of their size.
        let values = self.kv(operation, instance, None).await?;
        Ok(Some(SystemStats {
            history_event_count: stats.events,
            history_size_bytes: stats.history_bytes,
            queue_pending_count: first.first().map_or(0, carried_forward),
            kv_user_key_count: values.len() as u64,
            kv_total_value_bytes: values.values().map(|value| value.len() as u64).sum(),
        }))
    }

    /// Returns all instances that a filter allows, newest first.
    pub(crate) async fn list(
        &self,
        operation: &'static str,
        mut filter: ListInstances,
    ) -> Result<Vec<InstanceDetail>, ProviderError> {
        let mut all = Vec::new();
        filter.limit = PAGE_LEN;
        loop {
            let page = self.store().list_instances(filter.clone()).await;
            let page = page.map_err(of_store(operation))?;
            all.extend(page.instances.into_iter().filter(exists));
            match page.next {
                Some(next) => filter.after = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Records the versions that running instances of the store are pinned to.
    pub(crate) async fn look_up_versions(
        &self,
        operation: &'static str,
    ) -> Result<(), ProviderError> {
        let mut filter = ListInstances {
            states: vec![InstanceState::Running],
            limit: PAGE_LEN,
            ..ListInstances::default()
        };
        loop {
            let page = self.store().list_instances(filter.clone()).await;
            let page = page.map_err(of_store(operation))?;
            for capability in page.instances.iter().filter_map(|found| found.capability.as_ref()) {
                self.versions.record(capability);
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// Whether an instance exists for duroxide, which does not know pending instances.
fn exists(detail: &InstanceDetail) -> bool {
    detail.state != InstanceState::Pending
}

/// Returns how many queue messages an execution got from the previous one.
fn carried_forward(first: &Event) -> u64 {
    match &first.kind {
        EventKind::OrchestrationStarted { carry_forward_events: Some(events), .. } => {
            events.len() as u64
        }
        _ => 0,
    }
}
