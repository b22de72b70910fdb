//! Traces, which are stored with their message and deleted with it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use wakeline_core::{Timestamp, TraceName};
use wakeline_store::{
    AddTraceOutcome, MessageKey, NamedTrace, NamedTraces, NewTrace, Page, QueueTraces, StoreError,
    TRACES_PER_MESSAGE_MAX, Trace, TraceNameDetail, TraceNames,
};

use super::MemoryStore;
use super::admin::named;
use super::state::{OracleMessage, OracleState};

impl OracleState {
    fn named_message(&mut self, key: &MessageKey) -> Option<&mut OracleMessage> {
        let partitions = self.queues.values_mut().flat_map(|queue| queue.partitions.values_mut());
        let partition = partitions.into_iter().find(|partition| partition.id == key.partition)?;
        let offset = named(partition, &key.transaction_id)?;
        partition.log.get_mut(usize::try_from(offset - partition.first).ok()?)
    }

    fn add_trace(&mut self, new: NewTrace, now: Timestamp) -> AddTraceOutcome {
        let number = self.next_id();
        let Some(message) = self.named_message(&new.message) else {
            return AddTraceOutcome::Missing;
        };
        if message.traces.len() >= TRACES_PER_MESSAGE_MAX as usize {
            return AddTraceOutcome::TooMany;
        }
        let NewTrace { id, event_type, group, worker, mut names, data, .. } = new;
        names.sort();
        names.dedup();
        let trace = Trace { id, event_type, group, worker, names, data, created_at: now };
        message.traces.push((number, trace));
        AddTraceOutcome::Done
    }

    /// Returns all traces with their messages, the newest first.
    fn all_traces(&self) -> Vec<NamedTrace> {
        let mut all: Vec<(i64, NamedTrace)> = Vec::new();
        for (queue, name, partition) in self.partitions_in_order() {
            for message in &partition.log {
                all.extend(message.traces.iter().map(|(number, trace)| {
                    let trace = NamedTrace {
                        trace: trace.clone(),
                        queue: queue.clone(),
                        partition: name.clone(),
                        partition_id: partition.id,
                        transaction_id: message.transaction_id.clone(),
                        payload: message.payload.clone(),
                    };
                    (*number, trace)
                }));
            }
        }
        all.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        all.into_iter().map(|(_, trace)| trace).collect()
    }

    fn trace_names(&self) -> Vec<TraceNameDetail> {
        let mut by_name: BTreeMap<TraceName, Vec<NamedTrace>> = BTreeMap::new();
        for trace in self.all_traces() {
            for name in &trace.trace.names {
                by_name.entry(name.clone()).or_default().push(trace.clone());
            }
        }
        let detail = |(name, traces): (TraceName, Vec<NamedTrace>)| {
            let mut messages: Vec<_> =
                traces.iter().map(|t| (t.partition_id, t.transaction_id.clone())).collect();
            messages.sort();
            messages.dedup();
            TraceNameDetail {
                name,
                traces: traces.len() as u64,
                messages: messages.len() as u64,
                last_seen: traces.iter().map(|t| t.trace.created_at).max().unwrap_or(Timestamp(0)),
            }
        };
        let mut names: Vec<_> = by_name.into_iter().map(detail).collect();
        names.sort_by_key(|detail| std::cmp::Reverse(detail.last_seen));
        names
    }
}

#[async_trait]
impl QueueTraces for MemoryStore {
    async fn add_trace(&self, trace: NewTrace) -> Result<AddTraceOutcome, StoreError> {
        let mut state = self.state.lock();
        Ok(state.add_trace(trace, self.now()))
    }

    async fn traces(&self, message: MessageKey) -> Result<Vec<Trace>, StoreError> {
        let mut state = self.state.lock();
        let message = state.named_message(&message);
        let traces = message.map(|m| m.traces.iter().map(|(_, trace)| trace.clone()).collect());
        Ok(traces.unwrap_or_default())
    }

    async fn traces_named(&self, name: &TraceName, page: Page) -> Result<NamedTraces, StoreError> {
        let mut traces = self.state.lock().all_traces();
        traces.retain(|trace| trace.trace.names.contains(name));
        let total = traces.len() as u64;
        let traces = traces.into_iter().skip(page.offset as usize).take(page.limit as usize);
        Ok(NamedTraces { traces: traces.collect(), total })
    }

    async fn trace_names(&self, page: Page) -> Result<TraceNames, StoreError> {
        let names = self.state.lock().trace_names();
        let total = names.len() as u64;
        let names = names.into_iter().skip(page.offset as usize).take(page.limit as usize);
        Ok(TraceNames { names: names.collect(), total })
    }
}
