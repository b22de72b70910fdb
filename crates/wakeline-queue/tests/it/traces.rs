//! Traces of the slow store: all calls are passed on.

use async_trait::async_trait;
use wakeline_core::TraceName;
use wakeline_store::{
    AddTraceOutcome, MessageKey, NamedTraces, NewTrace, Page, QueueTraces, StoreError, Trace,
    TraceNames,
};

use crate::slow::SlowStore;

#[async_trait]
impl QueueTraces for SlowStore {
    async fn add_trace(&self, trace: NewTrace) -> Result<AddTraceOutcome, StoreError> {
        self.0.add_trace(trace).await
    }

    async fn traces(&self, message: MessageKey) -> Result<Vec<Trace>, StoreError> {
        self.0.traces(message).await
    }

    async fn traces_named(&self, name: &TraceName, page: Page) -> Result<NamedTraces, StoreError> {
        self.0.traces_named(name, page).await
    }

    async fn trace_names(&self, page: Page) -> Result<TraceNames, StoreError> {
        self.0.trace_names(page).await
    }
}
