//! Calls of traces, which no mutation changes.

use async_trait::async_trait;
use wakeline_core::TraceName;
use wakeline_store::{
    AddTraceOutcome, MessageKey, NamedTraces, NewTrace, Page, QueueTraces, StoreError, Trace,
    TraceNames,
};

use super::MutantQueueStore;

#[async_trait]
impl QueueTraces for MutantQueueStore {
    async fn add_trace(&self, trace: NewTrace) -> Result<AddTraceOutcome, StoreError> {
        self.inner.add_trace(trace).await
    }

    async fn traces(&self, message: MessageKey) -> Result<Vec<Trace>, StoreError> {
        self.inner.traces(message).await
    }

    async fn traces_named(&self, name: &TraceName, page: Page) -> Result<NamedTraces, StoreError> {
        self.inner.traces_named(name, page).await
    }

    async fn trace_names(&self, page: Page) -> Result<TraceNames, StoreError> {
        self.inner.trace_names(page).await
    }
}
